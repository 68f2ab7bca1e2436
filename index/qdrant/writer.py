"""The one writer of a corpus in Qdrant: it writes the journal first, and the collection when it publishes.

    writer = QdrantWriter(root, "default", collection)
    offset = writer.append(batch, vectors, fingerprint)   # durable when it returns
    generation = writer.publish()                         # searchable when it returns

The journal is on this machine, and fills the collection anew when it must. A publish sends the records since the last
one, every point marked with the number of its generation, and stores the collection's state last: until then searches
see nothing of it, afterwards all of it. After a kill the next publish removes the points sent and begins again.

A rebuild fills another collection, `<name>~00000002` and so on. Its ids are read back and proven, then the alias
`<name>` is moved to it in one request. After a kill it is gone on with. The one before is kept for a rollback.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path

import numpy as np

from sluice.contracts.document import DocumentFacts
from sluice.contracts.errors import Corrupted, NotFound, Unavailable
from sluice.index.folder import CorpusLayout
from sluice.index.generations.corpus_writer import CorpusWriter, Recorded, utc_now
from sluice.index.generations.manifest import Coverage, IdSet
from sluice.index.generations.publish import GenerationInfo, Rebuild
from sluice.index.journal.files import compact, list_files, read_journal, read_pinned_model
from sluice.index.journal.records import Record, Removal, Upsert, decode_record, document_key, encode_record, make_facts
from sluice.index.qdrant.payload import (
    DOCUMENT_FIELDS,
    FORMAT,
    STATE_ID,
    CollectionState,
    StoredDocument,
    make_points,
    measure_averages,
    parse_state,
    read_document,
    read_live_documents,
    where_document_is,
    where_live,
)
from sluice.index.qdrant.server import BUILD, Clause, Hit, ServerCollection
from sluice.index.terms.analysis import ENGLISH, analysis_language
from sluice.index.terms.terms import find_first_rows

_POINTS_AT_ONCE = 200
"""Points in one request: with 4,096 dimensions about 13 MB, below a server's limit of 32 MB."""
BATCH_DOCUMENTS = 64
"""Documents sent at once while publishing; at 4 chunks of 384 dimensions each about 3 MB."""
KEEP_REPLACED_SECONDS = 60.0
"""Time that replaced and removed chunks stay for searches that began before; longer than any search may take."""
KEEP_BUILD_SECONDS = 86_400.0
"""Time for which the collection before the last rebuild stays for a rollback: it takes as much memory again."""
MOST_RECORDS = 2_000
"""Most journal records of one generation: at most this many are sent again when a publish fails."""


class QdrantWriter(CorpusWriter):
    """Appends to a corpus and publishes it to its collection, which stays open when the writer is closed.

    Raises `Unavailable` when the engine does not answer, and `Corrupted` when the journal lacks what the collection
    covers.
    """

    def __init__(
        self,
        root: Path,
        corpus: str,
        collection: ServerCollection,
        clock: Callable[[], datetime] = utc_now,
        monotonic: Callable[[], float] = time.monotonic,
        keep_replaced_seconds: float = KEEP_REPLACED_SECONDS,
        batch_documents: int = BATCH_DOCUMENTS,
        ship: Callable[[], None] = lambda: None,
    ) -> None:
        """`ship` puts the journal where another owner finds it, and is called before searches see what it holds."""
        self._ship = ship
        self._keep_replaced_seconds, self._batch_documents = keep_replaced_seconds, batch_documents
        self._collection = collection
        self._clock, self._monotonic = clock, monotonic
        self._newest: dict[str, tuple[int, DocumentFacts | None]] = {}
        """The records since the last publish, by document: offset and facts (None where removed)."""
        self._is_clean = False
        super().__init__(root, corpus)

    def _begin(self) -> None:
        self._state = self._read_state()
        self._model = self._model_of_state() or read_pinned_model(self._layout.journal)
        self._published = [(self._state.number, self._monotonic())] if self._state else []
        self._swapped_at = self._monotonic()
        self._catch_up()

    @property
    def published_offset(self) -> int:
        """The offset that the collection covers; 0 before the first publish."""
        return self._state.journal_offset if self._state else 0

    @property
    def model(self) -> tuple[str, int] | None:
        """The model fingerprint and dimension that the corpus is bound to, once it has a vector."""
        return self._model

    def erase(self) -> Coverage:
        """Publish, and leave nothing of documents and versions that are not live: neither points nor records.

        Searches that began before may miss replaced chunks. Raises as `publish` does, and `Corrupted` for a damaged
        journal.
        """
        with self._mutex:
            generation = self.publish()
            number = self._state.number if self._state else 0
            delete_dead(self._current, number)
            self._drop_builds()
            self._published = [entry for entry in self._published if entry[0] > number]
            offsets = [read_document(hit.payload).journal_offset for hit in self._live_documents()]
            try:
                self._journal.begin_segment()
                live = np.array(offsets, dtype=np.uint64)
                horizon = generation.journal_offset
                compact(self._layout.journal, horizon, live, self._model, lambda: self._mutex, least_dead_share=0.0)
            except OSError as error:
                raise Unavailable(f"the journal of {self._layout.corpus} cannot be written: {error}") from error
            return generation

    def publish(self) -> Coverage:
        """Make everything in the journal searchable; return the current generation where nothing is new.

        Raises `Unavailable` when the engine fails: searches see what they saw before, and a later call tries again.
        """
        with self._mutex:
            self._lock.check()
            self._catch_up()
            state = self._state or self._fill()
            return Coverage.of(state.name, state)

    def rebuild(self) -> Rebuild:
        """Fill another collection from the journal alone and compare its id-set hash with the one before.

        Searches see it only if the hashes are equal: else the journal lacks records of the current generation.
        """
        with self._mutex:
            self._lock.check()
            before = self.publish() and self._state
            state = self._fill(before.id_set_hash if before else None)
            current = self._state or state
            return Rebuild(Coverage.of(current.name, current), before.id_set_hash if before else "", state.id_set_hash)

    def _all_facts(self) -> Iterator[DocumentFacts]:
        self._catch_up()
        return (read_document(hit.payload).facts for hit in self._live_documents())

    def _live_documents(self) -> Iterable[Hit]:
        number = self._state.number if self._state else 0
        return self._current.points(where_live(number, "document"), DOCUMENT_FIELDS) if number else ()

    @property
    def _current(self) -> ServerCollection:
        """The collection that searches see now."""
        return self._collection.at(self._state.collection if self._state else "")

    def _catch_up(self) -> None:
        """Bring the collection to the journal's end, in generations of at most `MOST_RECORDS` records."""
        self._state = self._read_state()  # a call that failed may have had its effect, and an operator may roll back
        if self._journal.last_offset and not self._can_continue(self._state):
            self._fill()
        if self._state and self.published_offset < self._journal.last_offset:
            collection = self._current
            if not self._is_clean:
                undo_failed_publish(collection, self._state.number)
            self._is_clean = False
            self._send(collection, self._state, self._state.number, on_part=self._see)
            self._is_clean = True
        self._newest.clear()

    def _can_continue(self, state: CollectionState | None) -> bool:
        """Return whether the collection with this state needs no more than the records after it."""
        if state is None or (state.format, state.dimension) != (FORMAT, self._dimension):
            return False
        return _compacted_offset(self._layout) <= state.journal_offset <= self._journal.last_offset

    def _fill(self, wanted_hash: str | None = None) -> CollectionState:
        """Fill another collection from the journal alone, prove it, and let searches see it instead of the current one.

        One with another id-set hash than `wanted_hash` is dropped. One that a killed writer began is gone on with.
        """
        current = self._state
        serving = current.collection if current else ""
        builds = [name for name in self._collection.builds() if name != serving]
        begun = self._collection.at(builds[-1]) if builds and builds[-1] > serving else None
        state = parse_state(begun.payload(STATE_ID), self._layout.corpus) if begun else None
        if begun is None or state is None or state.is_whole or not self._can_continue(state):
            self._drop_builds()
            last = max([serving, *builds]).rpartition(BUILD)[2]
            begun, state = self._collection.at(f"{self._collection.name}{BUILD}{int(last or 0) + 1:08d}"), None
            begun.create(self._dimension or 1)
        else:
            undo_failed_publish(begun, state.number)
        number = max(one.number if one else 0 for one in (state, current))
        state = self._send(begun, state, number, is_whole=False)
        try:
            prove(begun, state)
        except Unavailable:
            begun.drop()
            raise
        if wanted_hash not in (None, state.id_set_hash):
            begun.drop()
            return state
        state = state.model_copy(update={"is_whole": True})
        self._lock.check()
        begun.upsert([state.point()])
        self._collection.serve(begun.name)
        self._state, self._swapped_at, self._published = state, self._monotonic(), []
        return state

    def _drop_builds(self) -> None:
        """Remove the collections that were built for this corpus, but for the current one."""
        for name in self._collection.builds():
            if name != self._current.name:
                self._collection.at(name).drop()

    def _send(
        self,
        collection: ServerCollection,
        base: CollectionState | None,
        number: int,
        on_part: Callable[[CollectionState], None] = lambda state: None,
        is_whole: bool = True,
    ) -> CollectionState:
        """Send the journal's records after `base` (None for all) in parts with the numbers after `number`, and return
        the last one's state. A part is visible once its state is stored; `on_part` is called then."""
        self._ship()
        records = _records(self._layout, base.journal_offset if base else 0)
        averages = base.averages if base else measure_averages(one for _, one in _records(self._layout, 0))
        while base is None or base.journal_offset < self._journal.last_offset:
            number += 1
            update = CollectionUpdate(collection, number, base, self._batch_documents, averages)
            last = update.apply(itertools.islice(records, MOST_RECORDS))
            base = self._described(update, number, last or self._journal.last_offset, is_whole)
            self._lock.check()
            collection.upsert([base.point()])
            on_part(base)
        return base

    def _see(self, state: CollectionState) -> None:
        self._state = state
        self._forget_replaced(state.number)

    def _described(self, update: CollectionUpdate, number: int, journal_offset: int, is_whole: bool) -> CollectionState:
        return CollectionState(
            format=FORMAT,
            collection=update.collection.name,
            is_whole=is_whole,
            corpus=self._layout.corpus,
            number=number,
            journal_offset=journal_offset,
            document_count=update.document_count,
            chunk_count=update.chunk_count,
            id_set_hash=update.id_set_hash,
            model_fingerprint=self._model[0] if self._model else None,
            dimension=self._dimension,
            published_at=self._clock(),
            languages=tuple(sorted(update.languages)),
            averages=update.averages,
        )

    def _forget_replaced(self, number: int) -> None:
        """Remove points that no search can still use: they are dead in a generation that was published long ago."""
        now = self._monotonic()
        self._published.append((number, now))
        old = [one for one, moment in self._published if moment <= now - self._keep_replaced_seconds]
        if old:
            delete_dead(self._current, old[-1])
            self._published = [entry for entry in self._published if entry[0] > old[-1]]
        if self._swapped_at < now - KEEP_BUILD_SECONDS:
            self._drop_builds()
            self._swapped_at = math.inf

    @property
    def _dimension(self) -> int | None:
        return self._model[1] if self._model else None

    def _record(self, records: Sequence[Record]) -> int:
        first = self._journal.last_offset + 1
        last = self._journal.append([encode_record(record) for record in records])
        self._remember(enumerate(records, start=first))
        return last

    def _remember(self, records: Iterable[tuple[int, Record]]) -> None:
        for offset, record in records:
            match record:
                case Removal(document_id):
                    self._newest[document_id] = (offset, None)
                case Upsert(document, vectors, fingerprint):
                    self._newest[document.document_id] = (offset, make_facts(document))
                    if len(vectors):
                        self._model = self._model or (fingerprint, vectors.shape[1])

    def _recorded(self, document_ids: Iterable[str]) -> Recorded:
        names = list(document_ids)
        elsewhere = [name for name in names if name not in self._newest]
        stored: dict[str, StoredDocument] = {}
        if elsewhere and self._state:
            stored = read_live_documents(self._current, self._state.number, elsewhere)
        found = {name: (one.journal_offset, one.facts) for name, one in stored.items()}
        for name in names:
            offset, facts = self._newest.get(name, (0, None))
            if facts is not None:
                found[name] = (offset, facts)
        return found

    def _read_state(self) -> CollectionState | None:
        corpus = self._layout.corpus
        state = parse_state(self._collection.payload(STATE_ID), corpus)
        if state is not None and state.journal_offset > self._journal.last_offset:
            raise Corrupted(
                f"the journal of {corpus} ends at {self._journal.last_offset}, yet its Qdrant collection covers "
                f"{state.journal_offset}: restore the journal from a backup, or use another qdrant.collection_prefix"
            )
        return state

    def _model_of_state(self) -> tuple[str, int] | None:
        state = self._state
        if state is None or state.model_fingerprint is None or state.dimension is None:
            return None
        return state.model_fingerprint, state.dimension


def _compacted_offset(layout: CorpusLayout) -> int:
    """Return the offset up to which the journal is compacted; before it there are no removals."""
    return max((piece.last_offset for piece in list_files(layout.journal) if piece.is_compacted), default=0)


def _records(layout: CorpusLayout, after_offset: int) -> Iterator[tuple[int, Record]]:
    """Yield the records of the corpus's journal after an offset, each with its own."""
    for frame in read_journal(layout.journal, after_offset):
        yield frame.offset, decode_record(frame.kind, frame.payload)


class CollectionUpdate:
    """One generation being written: `base` and every record after it. Searches see it once its state is stored.

    Replaced points are marked as dead from this generation on, and stay for searches in earlier ones.
    """

    def __init__(
        self,
        collection: ServerCollection,
        number: int,
        base: CollectionState | None,
        batch_documents: int,
        averages: tuple[float, ...],
    ) -> None:
        self.collection, self.averages = collection, averages
        self._number = number
        self._batch_documents = batch_documents
        self._ids = IdSet(base.id_set_hash) if base else IdSet()
        self.document_count = base.document_count if base else 0
        self.chunk_count = base.chunk_count if base else 0
        self.languages = set(base.languages) if base else {ENGLISH}

    @property
    def id_set_hash(self) -> str:
        """The hash of the set of all (document, chunk) ids."""
        return self._ids.hexadecimal

    def apply(self, records: Iterator[tuple[int, Record]]) -> int:
        """Apply the records in their order; return the last one's offset, 0 if fewer than `MOST_RECORDS` were left."""
        count = last = 0
        while batch := list(itertools.islice(records, self._batch_documents)):
            # A version that a later one of the same batch replaces is never visible, so it is not stored.
            self._apply({_document_id(record): (offset, record) for offset, record in batch})
            count, last = count + len(batch), batch[-1][0]
        return last if count == MOST_RECORDS else 0

    def _apply(self, newest: dict[str, tuple[int, Record]]) -> None:
        self._replace(list(newest))
        arrived = [(offset, record) for offset, record in newest.values() if isinstance(record, Upsert)]
        points = (
            point for offset, record in arrived for point in make_points(self._number, offset, record, self.averages)
        )
        while request := list(itertools.islice(points, _POINTS_AT_ONCE)):
            self.collection.upsert(request)
        for _, record in arrived:
            chunk_ids = list(find_first_rows(record.document.chunks))
            self._ids.add(document_key(record.document.document_id), chunk_ids)
            self.document_count += 1
            self.chunk_count += len(chunk_ids)
            self.languages |= {
                analysis_language(one.language or record.document.language) for one in record.document.chunks
            }

    def _replace(self, document_ids: Sequence[str]) -> None:
        replaced = read_live_documents(self.collection, self._number, document_ids)
        for document_id, old in replaced.items():
            self._ids.remove(document_key(document_id), old.chunk_ids)
            self.document_count -= 1
            self.chunk_count -= len(old.chunk_ids)
        for kind in ("chunk", "document") if replaced else ():
            where = where_live(self._number, kind) + where_document_is(list(replaced))
            self.collection.mark(where, {"until": self._number})


def prove(collection: ServerCollection, state: CollectionState) -> None:
    """Raise `Unavailable` unless the collection holds the documents and chunks of its state, by count and ids."""
    found, counts = IdSet(), {"document": 0, "chunk": 0}
    for kind in counts:
        for hit in collection.points(where_live(state.number, kind), ("document", "chunk_id")):
            key, chunk_id = int(hit.payload["document"], 16), hit.payload.get("chunk_id")
            found.add(key, [chunk_id] if chunk_id else ())
            if chunk_id:  # the document itself is an element of its own
                found.remove(key, ())
            counts[kind] += 1
    if (found.hexadecimal, *counts.values()) != (state.id_set_hash, state.document_count, state.chunk_count):
        raise Unavailable(
            f"{collection.name} holds {counts['chunk']} chunks of {counts['document']} documents, not the "
            f"{state.chunk_count} of {state.document_count} that were sent: it is not searched, and filled again"
        )


def list_builds(collection: ServerCollection, corpus: str) -> tuple[GenerationInfo, ...]:
    """Return the newest generation of each collection that was built for the corpus and is kept, newest first."""
    serving = parse_state(collection.payload(STATE_ID), corpus)
    return tuple(
        GenerationInfo(
            state.name,
            is_current=serving is not None and name == serving.collection,
            journal_offset=state.journal_offset,
            document_count=state.document_count,
            chunk_count=state.chunk_count,
            created_at=state.published_at,
            id_set_hash=state.id_set_hash,
            problem="" if state.is_whole else "is being filled",
        )
        for name in reversed(collection.builds())
        if (state := parse_state(collection.at(name).payload(STATE_ID), corpus))
    )


def roll_back(collection: ServerCollection, corpus: str, generation: str) -> Coverage:
    """Let searches see the kept collection with that generation; the next publish brings it to the journal's end.

    Raises `NotFound` if no whole one has it.
    """
    for name in collection.builds():
        state = parse_state(collection.at(name).payload(STATE_ID), corpus)
        if state and state.is_whole and state.name == generation:
            collection.serve(name)
            return Coverage.of(generation, state)
    raise NotFound(f"no collection of corpus {corpus} has a generation {generation}")


def undo_failed_publish(collection: ServerCollection, number: int) -> None:
    """Remove and unmark the changes that a failed publish stored after the generation `number`."""
    collection.delete((Clause("above", "since", number),))
    collection.unmark((Clause("above", "until", number),), "until")


def delete_dead(collection: ServerCollection, number: int) -> None:
    """Delete the points that are dead in the generation `number`."""
    collection.delete((Clause("above", "until", 0), Clause("at_most", "until", number)))


def _document_id(record: Record) -> str:
    return record.document_id if isinstance(record, Removal) else record.document.document_id
