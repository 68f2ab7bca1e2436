"""The quarantine: chunks that the guard blocked, as the ledger keeps them.

The life of a held chunk:

1. The inspection at ingest blocks it. It is held, once for each corpus, document and checksum of its text; seen again
   it is the same row, with the document's latest version.
2. An operator releases it: from then on the inspection passes that text of that document. Where the corpus still
   waits for that version, the transaction that releases it also records the run that indexes it.
3. Or an operator purges it: its text is deleted, the facts stay. Seen again, it is blocked and its text is not kept.

A row names the blob of the document's batch as chunked, with all its chunks: a release sends that blob through
the inspection again, which then passes the released texts.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from functools import cache
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import ColumnElement, bindparam, func, select, update

from sluice.contracts.base import BlobRef
from sluice.contracts.errors import Conflict
from sluice.contracts.operations.forget import Selection
from sluice.contracts.operations.quarantine import QuarantinedChunk, QuarantineFilter, QuarantinePage, QuarantineState
from sluice.contracts.trust import Finding, Origin
from sluice.ledger.audit import actions_on, record
from sluice.ledger.database import LedgerPart
from sluice.ledger.events.outbox import Entry
from sluice.ledger.runs import CreatedRun, NewRun, create
from sluice.ledger.schema.tables import (
    AnyRow,
    behind,
    conditions_on,
    moment,
    perhaps_moment,
    position,
    quarantine,
    storable,
)
from sluice.ledger.transaction import Transaction, insert_into

_HAS = quarantine.c
_OF_DOCUMENT = (_HAS.corpus == bindparam("of_corpus"), _HAS.document_id == bindparam("of_document"))
_DECIDED = select(_HAS.checksum, _HAS.state).where(*_OF_DOCUMENT, _HAS.state != "held")
_POINT_TO = (
    update(quarantine)
    .where(*_OF_DOCUMENT, _HAS.blob_sha256 == bindparam("was"), _HAS.id != bindparam("but_for"))
    .values(blob_sha256=bindparam("becomes"), blob_bytes=bindparam("bytes"))
)
_EMPTY = {"blob_sha256": None, "blob_bytes": None, "source_sha256": None}
_findings = TypeAdapter(tuple[Finding, ...])


@dataclass(frozen=True, slots=True)
class HeldChunk:
    """A blocked chunk, with everything needed to bring it back."""

    corpus: str
    document_id: str
    document_sha256: str
    chunk_id: str
    checksum: str
    url: str | None
    file_path: str | None
    origin: Origin
    submitted_by: str | None
    findings: tuple[Finding, ...]
    inspected_by: str | None
    run_id: str
    fetched_at: datetime
    blob: BlobRef
    """A batch of the whole document as it was chunked."""
    source_sha256: str
    """Hash of the chunk stage's batch that the document came in."""


def quarantine_id(corpus: str, document_id: str, checksum: str) -> str:
    """Return the id of a held chunk, which is the same for the same text of the same document."""
    told = "\n".join((corpus, storable(document_id), checksum))
    return "qtn_" + hashlib.sha256(told.encode()).hexdigest()[:24]


class Quarantine(LedgerPart):
    """The held chunks of one ledger. Every method is one transaction and may raise `Unavailable`."""

    # -- at ingest

    def decisions(self, corpus: str, document_id: str) -> Mapping[str, QuarantineState]:
        """Return the operators' decisions on texts of the document, by checksum, without texts still held."""
        with self._database.reading() as connection:
            rows = connection.execute(_DECIDED, {"of_corpus": corpus, "of_document": document_id})
            return {row.checksum: row.state for row in rows}

    def hold(self, chunks: Sequence[HeldChunk]) -> tuple[HeldChunk, ...]:
        """Hold these chunks; return those that were new. Decisions on known ones stand."""
        now = self._clock()
        new: list[HeldChunk] = []
        with self._database.writing() as connection:
            for chunk in chunks:
                held_id = quarantine_id(chunk.corpus, chunk.document_id, chunk.checksum)
                if connection.select(quarantine, {"id": held_id}).first() is None:
                    new.append(chunk)
                connection.insert(_hold(connection.dialect), _row_of(chunk, held_id, now))
        return tuple(new)

    # -- looking

    def list(self, wanted: QuarantinePage | None = None) -> Sequence[QuarantinedChunk]:
        """Return held chunks, the latest first. Raises `InvalidInput` if the page's position is malformed."""
        wanted = wanted or QuarantinePage()
        order = (_HAS.held_at, _HAS.id)
        query = select(quarantine).where(*_conditions(wanted)).order_by(*(one.desc() for one in order))
        if wanted.cursor is not None:
            query = query.where(behind(*order, wanted.cursor))
        return [_chunk_of(row) for row in self._database.read(query.limit(wanted.limit))]

    def show(self, held_id: str) -> tuple[QuarantinedChunk, BlobRef | None, Sequence[Any]]:
        """Return one held chunk, the batch with its text (None once purged), and the operators' actions on it.

        Raises `NotFound` if there is no such chunk.
        """
        with self._database.reading() as connection:
            row = _found(connection, held_id)
            return _chunk_of(row), _blob_of(row), actions_on(connection, held_id)

    def count(self, wanted: QuarantineFilter | None = None, most: int | None = None) -> int:
        """Count the chunks that match the filter; without one, those that wait for an operator. Counts to `most`."""
        found = select(_HAS.id).where(*_conditions(wanted or QuarantineFilter())).limit(most)
        query = select(func.count()).select_from(found.subquery())
        return int(self._database.read(query).scalar() or 0)

    # -- acting

    def release(
        self, held_id: str, operator: str, note: str, run: NewRun | None = None, first: Sequence[Entry] = ()
    ) -> CreatedRun | None:
        """Let the text pass from now on, and record `run`, which indexes it, if one is given.

        The caller publishes `CreatedRun.events`.

        Raises:
            NotFound: there is no such chunk.
            Conflict: it was released or purged before.
            BudgetExhausted: the run's reservation does not fit; nothing was released.
        """
        now = self._clock()
        with self._database.writing() as connection:
            self._decide(connection, held_id, "released", operator, note, now)
            return create(connection, run, first, now) if run is not None else None

    def purge(self, held_id: str, operator: str, note: str, rest: BlobRef | None) -> tuple[str, ...]:
        """Mark a text as purged; return the hashes of its blobs, which the caller removes before it calls `emptied`.

        Until then another call returns them again, so that it can finish a purge that was killed.
        `rest` is the same document's batch without this text, for the document's other held chunks.

        Raises:
            NotFound: there is no such chunk.
            Conflict: it was released, or purged and emptied before.
        """
        with self._database.writing() as connection:
            row = _found(connection, held_id)
            if row.state != "purged" or row.blob_sha256 is None:
                self._decide(connection, held_id, "purged", operator, note, self._clock())
            if rest is not None:
                moved = {"of_corpus": row.corpus, "of_document": row.document_id, "was": row.blob_sha256}
                facts = {"becomes": rest.sha256, "bytes": rest.size_bytes, "but_for": held_id}
                connection.execute(_POINT_TO, {**moved, **facts})
            return tuple(filter(None, (row.blob_sha256, row.source_sha256)))

    def emptied(self, held_id: str) -> None:
        """Clear a purged text's blob hashes, once its blobs are gone."""
        with self._database.writing() as connection:
            connection.update(quarantine, {"id": held_id, "state": "purged"}, _EMPTY)

    def of(self, corpus: str, document_ids: Collection[str], selection: Selection) -> Mapping[str, str | None]:
        """Return the rows of these documents, or that `selection` matches: id to the hash of the document's batch."""
        wanted = frozenset(document_ids)
        with self._database.reading() as connection:
            rows = connection.select(quarantine, {"corpus": corpus}).all()
        return {row.id: row.blob_sha256 for row in rows if row.document_id in wanted or _is_meant(row, selection)}

    def forget(self, held_ids: Iterable[str]) -> None:
        """Delete rows, decided or not, and with them the record of the decisions."""
        with self._database.writing() as connection:
            for held_id in held_ids:
                connection.delete(quarantine, {"id": held_id})

    def _decide(
        self, connection: Transaction, held_id: str, becomes: QuarantineState, operator: str, note: str, now: float
    ) -> None:
        row = _found(connection, held_id)
        decided = {"state": becomes, "operator": operator, "decided_at": now, "note": note}
        if not connection.update(quarantine, {"id": held_id, "state": "held"}, decided):
            raise Conflict(f"chunk {held_id} is {row.state} already, not held")
        record(connection, now, operator, "release" if becomes == "released" else "purge", [held_id], note)


def _conditions(wanted: QuarantineFilter) -> list[ColumnElement[bool]]:
    equal: dict[ColumnElement[Any], str | None] = {
        _HAS.state: None if wanted.state == "any" else wanted.state,
        _HAS.document_id: wanted.document_id,
        _HAS.run_id: wanted.run_id,
    }
    found = conditions_on(equal, _HAS.corpus, wanted.corpora)
    if wanted.url_prefix is not None:
        found.append(_HAS.url.startswith(storable(wanted.url_prefix), autoescape=True))
    if wanted.rule is not None:
        found.append(_HAS.findings.contains(f'"rule":{json.dumps(wanted.rule)},', autoescape=True))
    return found


def _is_meant(row: AnyRow, selection: Selection) -> bool:
    url, prefix = row.url or "", selection.url_prefix
    return (
        (selection.url is not None and url == selection.url)
        or (prefix is not None and url.startswith(prefix))
        or (selection.run_id is not None and row.run_id == selection.run_id)
        or (selection.submitted_by is not None and row.submitted_by == selection.submitted_by)
    )


def _found(connection: Transaction, held_id: str) -> AnyRow:
    return connection.select(quarantine, {"id": held_id}).found(f"chunk {held_id} in quarantine")


@cache
def _hold(dialect: str) -> Any:
    """Upsert a row. For a known one it updates only the fields of the document's version, and never to an older one."""
    statement = insert_into(dialect, quarantine)
    passing = ("document_sha256", "chunk_id", "findings", "inspected_by", "run_id", "fetched_at")
    kept = ("blob_sha256", "blob_bytes", "source_sha256")
    return statement.on_conflict_do_update(
        index_elements=["id"],
        set_={name: statement.excluded[name] for name in (*passing, *kept)},
        where=(_HAS.state != "purged") & (_HAS.fetched_at <= statement.excluded.fetched_at),
    )


def _row_of(chunk: HeldChunk, held_id: str, now: float) -> dict[str, Any]:
    same = {one.name: getattr(chunk, one.name) for one in fields(HeldChunk) if one.name != "blob"}
    return {
        **same,
        "id": held_id,
        "findings": _findings.dump_json(chunk.findings).decode(),
        "fetched_at": chunk.fetched_at.timestamp(),
        "held_at": now,
        "state": "held",
        "blob_sha256": chunk.blob.sha256,
        "blob_bytes": chunk.blob.size_bytes,
    }


def _chunk_of(row: AnyRow) -> QuarantinedChunk:
    facts = {name: getattr(row, name) for name in QuarantinedChunk.model_fields if name != "position"}
    return QuarantinedChunk.model_validate(
        facts
        | {
            "position": position(row.held_at, row.id),
            "findings": _findings.validate_json(row.findings),
            "held_at": moment(row.held_at),
            "decided_at": perhaps_moment(row.decided_at),
        }
    )


def _blob_of(row: AnyRow) -> BlobRef | None:
    return BlobRef(sha256=row.blob_sha256, size_bytes=row.blob_bytes) if row.blob_sha256 is not None else None
