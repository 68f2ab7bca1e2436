"""The negative list: documents that were forgotten and must not come back.

Every stage that could bring one back checks it: the crawl before it fetches, the chunk stage before it reads, the embed
stage once it knows the content, the index before it records. The transaction that accepts the request to forget
also records the entries, so events already under way are refused at the next stage.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from sqlalchemy import bindparam, select

from sluice.contracts.errors import NotFound
from sluice.contracts.operations.forget import ForgottenEntry, ForgottenKind
from sluice.ledger.audit import record
from sluice.ledger.database import LedgerPart
from sluice.ledger.events.outbox import Entry
from sluice.ledger.runs import CreatedRun, NewRun, create
from sluice.ledger.schema.tables import AnyRow, forgotten, moment, storable
from sluice.ledger.transaction import Transaction

FEW_ENTRIES = 1_000
"""Entries up to which a list is read whole; of a longer one only those that could name the documents at hand."""

_HAS = forgotten.c
_OF_CORPUS = _HAS.corpus == bindparam("of_corpus")
_FIRST = select(_HAS.kind, _HAS.value).where(_OF_CORPUS).limit(FEW_ENTRIES + 1)
_PREFIXES = select(_HAS.kind, _HAS.value).where(_OF_CORPUS, _HAS.kind == "url_prefix")
_NAMED = select(_HAS.kind, _HAS.value).where(
    _OF_CORPUS, _HAS.kind == bindparam("of_kind"), _HAS.value == bindparam("of_value")
)
_KINDS: tuple[ForgottenKind, ...] = get_args(ForgottenKind)


@dataclass(frozen=True, slots=True)
class Named:
    """The fields by which an entry of the list may name a document; None where unknown."""

    url: str | None = None
    document_id: str | None = None
    run_id: str | None = None
    submitted_by: str | None = None
    checksum: str | None = None


class NegativeList:
    """Entries of a corpus's negative list, as far as they concern some documents."""

    def __init__(self, entries: Iterable[tuple[str, str]]) -> None:
        self._entries = set(entries)
        self._prefixes = [value for kind, value in self._entries if kind == "url_prefix"]

    def names(self, document: Named) -> str | None:
        """Return the kind of entry that names the document; None where none does."""
        if not self._entries:
            return None
        for kind in _KINDS:
            value = getattr(document, kind, None)
            if value is not None and (kind, storable(value)) in self._entries:
                return kind
        url = document.url or ""
        return "url_prefix" if url and any(map(url.startswith, self._prefixes)) else None


class Forgotten(LedgerPart):
    """The negative lists of one ledger. Every method is one transaction and may raise `Unavailable`."""

    def about(self, corpus: str, documents: Sequence[Named]) -> NegativeList:
        """Return the corpus's list, or the part of a long one that could name one of these documents."""
        with self._database.reading() as connection:
            rows = connection.execute(_FIRST, {"of_corpus": corpus}).all()
            if len(rows) > FEW_ENTRIES:
                asked = [
                    {"of_corpus": corpus, "of_kind": kind, "of_value": value}
                    for kind, value in {pair for one in documents for pair in _told(one)}
                ]
                rows = connection.execute(_PREFIXES, {"of_corpus": corpus}).all()
                rows += connection.execute_each(_NAMED, asked)
        return NegativeList((row.kind, row.value) for row in rows)

    def list(self, corpora: frozenset[str] | None = None) -> Sequence[ForgottenEntry]:
        """Return every entry of these corpora (None: of all), the latest first."""
        query = select(forgotten).order_by(_HAS.at.desc(), _HAS.id)
        entries = [_entry_of(row) for row in self._database.read(query)]
        return [entry for entry in entries if corpora is None or entry.corpus in corpora]

    def one(self, entry_id: str) -> ForgottenEntry:
        """Return one entry. Raises `NotFound` if there is none with that id."""
        with self._database.reading() as connection:
            row = connection.select(forgotten, {"id": entry_id}).found(f"entry {entry_id} on the negative list")
        return _entry_of(row)

    def add(self, corpus: str, entries: Iterable[tuple[ForgottenKind, str]], operator: str, note: str) -> None:
        """Add entries to the corpus's list; existing ones stay as they are."""
        with self._database.writing() as connection:
            _add(connection, corpus, entries, operator, note, self._clock())

    def forget(
        self,
        run: NewRun,
        first: Sequence[Entry],
        entries: Iterable[tuple[ForgottenKind, str]],
        operator: str,
        note: str,
    ) -> CreatedRun:
        """Record a run that removes documents, and in the same transaction the entries that keep them out.

        The caller publishes `CreatedRun.events`.
        """
        now = self._clock()
        with self._database.writing() as connection:
            created = create(connection, run, first, now)
            record(connection, now, operator, "forget", [created.run_id], note)
            _add(connection, run.corpus, entries, operator, note, now)
            return created

    def lift(self, entry_id: str, operator: str, note: str) -> None:
        """Remove an entry, so that what it names may return. Raises `NotFound` if there is none with that id."""
        with self._database.writing() as connection:
            if not connection.delete(forgotten, {"id": entry_id}):
                raise NotFound(f"no entry {entry_id} on the negative list")
            record(connection, self._clock(), operator, "allow", [entry_id], note)


def _add(
    connection: Transaction,
    corpus: str,
    entries: Iterable[tuple[ForgottenKind, str]],
    operator: str,
    note: str,
    now: float,
) -> None:
    for kind, value in entries:
        entry_id = "fgt_" + hashlib.sha256("\n".join((corpus, kind, storable(value))).encode()).hexdigest()[:24]
        facts = {"id": entry_id, "corpus": corpus, "kind": kind, "value": value}
        if connection.insert_once(forgotten, {**facts, "at": now, "operator": operator, "note": note}):
            record(connection, now, operator, "keep_out", [entry_id], note)


def _told(document: Named) -> Iterable[tuple[str, str]]:
    values: Mapping[str, str | None] = {kind: getattr(document, kind, None) for kind in _KINDS}
    return ((kind, value) for kind, value in values.items() if value is not None)


def _entry_of(row: AnyRow) -> ForgottenEntry:
    return ForgottenEntry.model_validate({**row._asdict(), "at": moment(row.at)})
