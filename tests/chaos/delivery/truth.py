"""What is true in the end, read past the product's own queries: the ledger's rows, the journals, the generations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine, text

from sluice.contracts.errors import Corrupted, NotFound
from sluice.index.folder import CorpusLayout, list_corpora
from sluice.index.generations.manifest import load_manifest
from sluice.index.generations.view import OpenGeneration
from sluice.index.journal.files import read_journal
from sluice.index.journal.records import Removal, Upsert, decode_record

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class CorpusTruth:
    """A corpus: how often its journal records a version or a removal of each document, and what can be searched."""

    upserts: Counter[str] = field(default_factory=Counter)
    removals: Counter[str] = field(default_factory=Counter)
    documents: Counter[str] = field(default_factory=Counter)
    chunks: Counter[str] = field(default_factory=Counter)
    damage: str = ""
    """Why the journal or the generation cannot be read, when it cannot."""


@dataclass(frozen=True, slots=True)
class Truth:
    """Everything that a verdict is made from, at one moment."""

    runs: dict[str, Row]
    events: dict[str, list[Row]]
    """The rows of every run, in order of their commits."""
    letters: dict[str, list[Row]]
    """The dead letters of every run."""
    corpora: dict[str, CorpusTruth]
    outcomes: dict[str, str] = field(default_factory=dict)
    """How each gate run that was decided ended, by the row of its outcome."""


def read_truth(ledger_url: str, index_root: Path, run_ids: Iterable[str] | None = None) -> Truth:
    """What stands in the ledger of these runs (all, when None), and in every corpus."""
    engine = create_engine(ledger_url)
    wanted = None if run_ids is None else set(run_ids)
    with engine.connect() as connection:
        runs = {row["run_id"]: row for row in _rows(connection, "SELECT * FROM runs") if _is_in(row, wanted)}
        events = _by_run(runs, _rows(connection, "SELECT * FROM events ORDER BY seq"))
        letters = _by_run(runs, _rows(connection, "SELECT run_id, stage, reason, message FROM dead_letters"))
        outcomes = {row["run_id"]: row["status"] for row in _rows(connection, "SELECT run_id, status FROM outcomes")}
    engine.dispose()
    corpora = {name: read_corpus(index_root, name) for name in list_corpora(index_root)}
    return Truth(runs, events, letters, corpora, outcomes)


def read_corpus(index_root: Path, name: str) -> CorpusTruth:
    """What the journal of a corpus records and its current generation holds."""
    layout, found = CorpusLayout(index_root, name), CorpusTruth()
    try:
        _read_journal(layout, found)
        _read_generation(layout, found)
    except (Corrupted, NotFound) as error:
        return replace(found, damage=str(error))
    return found


def _read_journal(layout: CorpusLayout, found: CorpusTruth) -> None:
    for frame in read_journal(layout.journal):
        match decode_record(frame.kind, frame.payload):
            case Upsert(document=document):
                found.upserts[document.document_id] += 1
            case Removal(document_id=document_id):
                found.removals[document_id] += 1


def _read_generation(layout: CorpusLayout, found: CorpusTruth) -> None:
    if layout.current.is_symlink():
        folder = layout.current.resolve()
        generation = OpenGeneration(folder, load_manifest(folder))
        found.documents.update(facts.document_id for facts in generation.all_facts())
        found.chunks.update(part.segment.chunk_id(row) for part in generation.parts for row in part.live_rows.tolist())
        generation.close()


def count(ledger_url: str, sql: str, **values: Any) -> int:
    """The one number that a query gives."""
    engine = create_engine(ledger_url)
    with engine.connect() as connection:
        found = connection.execute(text(sql), values).scalar()
    engine.dispose()
    return int(found or 0)


def rows(ledger_url: str, sql: str, **values: Any) -> list[Row]:
    """The rows that a query gives."""
    engine = create_engine(ledger_url)
    with engine.connect() as connection:
        found = _rows(connection, sql, values)
    engine.dispose()
    return found


def _rows(connection: Any, sql: str, values: Mapping[str, Any] | None = None) -> list[Row]:
    return [row._mapping for row in connection.execute(text(sql), values or {})]


def _by_run(run_ids: Iterable[str], rows: Iterable[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {run_id: [] for run_id in run_ids}
    for row in rows:
        if row["run_id"] in found:
            found[row["run_id"]].append(row)
    return found


def _is_in(row: Row, wanted: set[str] | None) -> bool:
    return wanted is None or row["run_id"] in wanted


def settled_more_than_once(events: Iterable[str]) -> Sequence[str]:
    """The events that stand more than once among those whose settling was witnessed."""
    return [event for event, times in Counter(events).items() if times > 1]
