"""Blobs that the ledger refers to: all of them, and those of documents that are to be forgotten.

A batch holds several documents, and is removed as a whole once the events that need it are over: later events
work with a batch of their own. No open event and no parked dead letter loses a blob that it refers to, and
blobs that only other documents use are kept.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sqlalchemy import Column, Select, bindparam, select, tuple_

from sluice.contracts.document import document_id_for, snippet_id_for
from sluice.contracts.operations.forget import Selection
from sluice.ledger.database import LedgerPart
from sluice.ledger.schema.tables import (
    IS_OPEN,
    AnyRow,
    configurations,
    dead_letter_payloads,
    dead_letters,
    events,
    pages,
    quarantine,
    rollouts,
    runs,
)
from sluice.ledger.transaction import Transaction

_ROWS_AT_ONCE = 500
_EVENTS = (
    select(events.c.seq, events.c.id, events.c.run_id, events.c.kind, events.c.payload, runs.c.corpus)
    .join(runs, runs.c.run_id == events.c.run_id)
    .where(events.c.seq > bindparam("after"))
    .order_by(events.c.seq)
    .limit(_ROWS_AT_ONCE)
)
_OPEN = (
    select(events.c.id, events.c.run_id, events.c.kind, events.c.payload)
    .join(runs, runs.c.run_id == events.c.run_id)
    .where(IS_OPEN, runs.c.corpus == bindparam("of_corpus"))
)
_ONE = select(events.c.id, events.c.run_id, events.c.kind, events.c.payload).where(events.c.id == bindparam("of_event"))
_PARKED = select(dead_letters.c.payload).where(dead_letters.c.status == "parked")
_BODIES = select(pages.c.document_id, pages.c.body_sha256).where(pages.c.corpus == bindparam("of_corpus"))
_OTHER_BODIES = select(pages.c.body_sha256).where(pages.c.corpus != bindparam("of_corpus"))
_HELD = select(quarantine.c.blob_sha256).where(quarantine.c.blob_sha256.is_not(None))
_PAGES = select(
    pages.c.url_sha256, pages.c.document_id, pages.c.final_url, pages.c.canonical_url, pages.c.run_id
).where(pages.c.corpus == bindparam("of_corpus"))
_BATCHES = frozenset({"DocumentChunked", "ChunksPartlyEmbedded", "ChunksEmbedded", "PageRead"})
_LISTING = frozenset({"DocumentChunked", "FilesReceived"})
"""Events with `document_ids`."""
_FETCHED = frozenset({"PageCrawled", "SiteMapped"})
_WITH_BLOBS = _BATCHES | _LISTING | _FETCHED | {"DocumentsSubmitted"}


@dataclass(slots=True)
class Leftovers:
    """The blobs of forgotten documents: those that can go, and those that something still needs."""

    blobs: set[str] = field(default_factory=set)
    """All of them, whether they still exist or not."""
    removable: set[str] = field(default_factory=set)
    open_events: list[str] = field(default_factory=list)
    """Ids of open events of these documents."""
    parked: set[str] = field(default_factory=set)
    """Blobs that a dead letter needs."""


class Erasure(LedgerPart):
    """Finds events, blobs and pages of documents. Reads the events in batches, so that no transaction takes long."""

    def leftovers(
        self,
        corpus: str,
        document_ids: Collection[str],
        selection: Selection,
        check_cancelled: Callable[[], None] = lambda: None,
    ) -> Leftovers:
        """Return the blobs of these documents: raw pages, submissions, lists of uploads, batches of
        chunks, vectors, screenshots.

        While any of their events are open, returns only those.
        """
        wanted, found = frozenset(document_ids), Leftovers()
        found.open_events = self._open_events(corpus, wanted, selection)
        if found.open_events:  # the caller waits for these events, and this query reads only a few rows
            return found
        own_events, blobs = self._own_events(corpus, wanted, selection, check_cancelled)
        with self._database.reading() as connection:
            bodies = connection.execute(_BODIES, {"of_corpus": corpus}).all()
            of_others = {row.body_sha256 for row in bodies if row.document_id not in wanted}
            of_others.update(connection.execute(_OTHER_BODIES, {"of_corpus": corpus}).scalars())
            of_others.update(connection.execute(_HELD).scalars())
            parked = {one for told in connection.execute(_PARKED).scalars() for one in hashes_in(told)}
        blobs |= {row.body_sha256 for row in bodies if row.document_id in wanted}
        for row in self._every_event():
            check_cancelled()
            if row.id not in own_events:
                of_others.update(blobs.intersection(hashes_in(row.payload)))
        found.blobs = blobs
        found.parked = blobs & parked
        found.removable = blobs - of_others - parked
        return found

    def blobs_of_others(self, corpus: str) -> set[str]:
        """Return the blobs that only events of other corpora refer to."""
        own: set[str] = set()
        others: set[str] = set()
        for row in self._every_event():
            (own if row.corpus == corpus else others).update(hashes_in(row.payload))
        return others - own

    def pages(self, corpus: str, document_ids: Collection[str], selection: Selection) -> list[bytes]:
        """Return the keys of the remembered pages of these documents or addresses, fully read or not."""
        wanted = frozenset(document_ids)
        rows = self._database.read(_PAGES, {"of_corpus": corpus}).all()
        return [
            bytes(row.url_sha256)
            for row in rows
            if row.document_id in wanted
            or row.run_id == selection.run_id
            or any(_is_meant(url, selection) for url in filter(None, (row.final_url, row.canonical_url)))
        ]

    def forget_pages(self, corpus: str, document_ids: Collection[str], selection: Selection) -> None:
        """Forget the pages of these documents or addresses."""
        if going := self.pages(corpus, document_ids, selection):
            with self._database.writing() as connection:
                for key in going:
                    connection.delete(pages, {"corpus": corpus, "url_sha256": key})

    def _open_events(self, corpus: str, wanted: frozenset[str], selection: Selection) -> list[str]:
        """Return the ids of the open events of these documents."""
        with self._database.reading() as connection:
            rows = connection.execute(_OPEN, {"of_corpus": corpus}).all()
            return [row.id for row in rows if self._leads_to(connection, row, wanted, selection)]

    def _leads_to(
        self, connection: Transaction, row: AnyRow | None, wanted: frozenset[str], selection: Selection
    ) -> bool:
        """Return whether an event is about these documents; an embedding event is judged by its original batch."""
        while row is not None and row.kind in _WITH_BLOBS:
            event = json.loads(row.payload)
            if row.run_id == selection.run_id:
                return True
            if row.kind in _LISTING:
                return not wanted.isdisjoint(event["body"]["document_ids"])
            if row.kind in _FETCHED:
                urls = event["body"]["url"], event["body"]["final_url"]
                return any(_is_of(url, wanted, selection) for url in urls)
            row = connection.execute(_ONE, {"of_event": event["cause_id"]}).first()
        return False

    def _own_events(
        self, corpus: str, wanted: frozenset[str], selection: Selection, check_cancelled: Callable[[], None]
    ) -> tuple[set[str], set[str]]:
        """Return the ids of the events of these documents, and the blobs that they refer to."""
        own: set[str] = set()
        blobs: set[str] = set()
        causes: set[str] = set()
        told: dict[str, str] = {}
        for row in self._every_event():
            check_cancelled()
            if row.corpus != corpus:
                continue
            event = json.loads(row.payload)
            body = event["body"]
            is_own = event.get("cause_id") in own and row.kind in _BATCHES
            if row.kind in _LISTING and wanted.intersection(body["document_ids"]):
                is_own = True
                causes.add(str(event.get("cause_id")))
            elif row.kind in _FETCHED:
                is_own = any(_is_of(url, wanted, selection) for url in (body["url"], body["final_url"]))
            if row.run_id == selection.run_id and row.kind in _WITH_BLOBS:
                is_own = True
            if row.kind == "DocumentsSubmitted":
                told[row.id] = row.payload
            if is_own:
                own.add(row.id)
                blobs.update(_blobs_in(body))
        for cause in causes & told.keys():
            own.add(cause)
            blobs.update(_blobs_in(json.loads(told[cause])["body"]))
        return own, blobs

    def _every_event(self) -> Iterator[AnyRow]:
        after = 0
        while True:
            rows = self._database.read(_EVENTS, {"after": after}).all()
            yield from rows
            if len(rows) < _ROWS_AT_ONCE:
                return
            after = rows[-1].seq


def _is_meant(url: str, selection: Selection) -> bool:
    prefix = selection.url_prefix
    return url == selection.url or (prefix is not None and url.startswith(prefix))


def _is_of(url: str, wanted: frozenset[str], selection: Selection) -> bool:
    return _is_meant(url, selection) or not wanted.isdisjoint((document_id_for(url), snippet_id_for(url)))


def _blobs_in(body: dict[str, Any]) -> Iterator[str]:
    """Yield the hashes in the blob references of a body."""
    for value in body.values():
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, dict) and isinstance(one.get("sha256"), str):
                yield one["sha256"]


_SHA256 = re.compile(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")


class Place(NamedTuple):
    """Position in the scan of references: the source, and the key of the last row read."""

    source: int = 0
    after: tuple[Any, ...] | None = None


@dataclass(frozen=True, slots=True)
class _Source:
    """A table that is read in the order of `keys`: the statements for its first rows and for those after a key."""

    keys: tuple[str, ...]
    first: Select[Any]
    behind: Select[Any]

    @classmethod
    def of(cls, told: Column[Any], *keys: Column[Any]) -> _Source:
        """Build the source for a table whose column `told` holds references."""
        first = select(*keys, told.label("told")).order_by(*keys).limit(bindparam("most"))
        last = (bindparam(f"after_{key.name}", type_=key.type) for key in keys)
        return cls(tuple(key.name for key in keys), first, first.where(tuple_(*keys) > tuple_(*last)))


_SOURCES = (
    _Source.of(events.c.payload, events.c.seq),
    _Source.of(dead_letters.c.payload, dead_letters.c.id),
    _Source.of(dead_letter_payloads.c.payload, dead_letter_payloads.c.seq),
    _Source.of(pages.c.body_sha256, pages.c.corpus, pages.c.url_sha256),
    _Source.of(quarantine.c.blob_sha256, quarantine.c.id),
    _Source.of(configurations.c.config_hash, configurations.c.profile, configurations.c.config_hash),
    _Source.of(rollouts.c.model_sha256, rollouts.c.model_version),
)
"""Events before dead letters: a letter replayed during the scan, whose event was missed, is still read as a letter."""


def references(connection: Transaction, place: Place, most: int) -> tuple[set[str], Place | None]:
    """Return the hashes (hexadecimal) in the next `most` rows, and the next place; None when all were read.

    A reference is any SHA-256 in an event, in a dead letter's payload, present or past, of a known page's body, of the
    batch that a chunk in quarantine comes from, of a configuration that the gate has decided by, or of a model that is
    or was rolled out. Other hashes in these texts are returned too: this may keep an unneeded blob, but never removes a
    needed one. The journal holds texts and vectors themselves and refers to no blob.
    """
    source = _SOURCES[place.source]
    after = {f"after_{key}": value for key, value in zip(source.keys, place.after or (), strict=False)}
    rows = connection.execute(source.behind if after else source.first, {**after, "most": most}).all()
    found = {sha256 for row in rows for sha256 in hashes_in(row.told)}
    if len(rows) == most:
        return found, Place(place.source, tuple(getattr(rows[-1], key) for key in source.keys))
    following = place.source + 1
    return found, Place(following) if following < len(_SOURCES) else None


def hashes_in(told: str | bytes | memoryview | None) -> list[str]:
    """Return every hexadecimal substring of a column that may be a SHA-256."""
    return _SHA256.findall(told if isinstance(told, str) else bytes(told or b"").decode("ascii", "replace"))
