"""The one writer of a corpus in Qdrant: it writes the journal first, and the collection when it publishes.

    writer = QdrantWriter(root, "default", collection)
    offset = writer.append(batch, vectors, fingerprint)   # durable when it returns
    generation = writer.publish()                         # searchable when it returns

The journal is on this machine, and the collection can be rebuilt from it. A publish sends the records since the last
one, every point marked with the number of its generation, and stores the collection's state last: until then searches
see nothing of it, afterwards all of it. After a kill the next publish removes the points sent and begins again.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path

import numpy as np

from sluice.contracts.document import DocumentFacts
from sluice.contracts.errors import Corrupted, Unavailable
from sluice.index.folder import CorpusLayout
from sluice.index.generations.corpus_writer import CorpusWriter, Recorded, utc_now
from sluice.index.generations.manifest import Coverage, IdSet
from sluice.index.generations.publish import Rebuild
from sluice.index.journal.files import compact, list_files, read_journal, read_pinned_model
from sluice.index.journal.records import Record, Removal, Upsert, decode_record, document_key, encode_record, make_facts
from sluice.index.qdrant.payload import (
    DOCUMENT_FIELDS,
    STATE_ID,
    CollectionState,
    StoredDocument,
    make_points,
    parse_state,
    read_document,
    read_live_documents,
    where_document_is,
    where_live,
)
from sluice.index.qdrant.server import Clause, Hit, ServerCollection
from sluice.index.terms.analysis import ENGLISH, analysis_language
from sluice.index.terms.terms import find_first_rows

_POINTS_AT_ONCE = 500
"""Points in one request: with 384 dimensions and 500 characters about 5 MB, well below the limit of a server."""
BATCH_DOCUMENTS = 64
"""Documents sent at once while publishing; at 4 chunks of 384 dimensions each about 3 MB."""
KEEP_REPLACED_SECONDS = 60.0
"""Time that replaced and removed chunks stay for searches that began before; longer than any search may take."""
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
    ) -> None:
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
            delete_dead(self._collection, number)
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
            state = self._state or self._update(None, self._journal.last_offset)
            return Coverage.of(state.name, state)

    def rebuild(self) -> Rebuild:
        """Fill the collection from the journal alone and compare its id-set hash with the one before.

        Searches see the old points until the last new one is stored.
        """
        with self._mutex:
            self._lock.check()
            hash_before = self.publish() and self._state and self._state.id_set_hash
            self._update(None, self._journal.last_offset)
            generation = self.publish()
            return Rebuild(generation, hash_before or "", self._state.id_set_hash if self._state else "")

    def _all_facts(self) -> Iterator[DocumentFacts]:
        self._catch_up()
        return (read_document(hit.payload).facts for hit in self._live_documents())

    def _live_documents(self) -> list[Hit]:
        number = self._state.number if self._state else 0
        return self._collection.points(where_live(number, "document"), DOCUMENT_FIELDS) if number else []

    def _catch_up(self) -> None:
        """Bring the collection to the journal's end, in generations of at most `MOST_RECORDS` records."""
        if not self._is_clean:  # a call that failed may have had its effect
            self._state = self._read_state()
        if self.published_offset < _compacted_offset(self._layout):
            self._update(None, self._journal.last_offset)
        while self.published_offset < self._journal.last_offset:
            self._update(self._state, min(self._journal.last_offset, self.published_offset + MOST_RECORDS))
        self._newest.clear()

    def _update(self, base: CollectionState | None, last_offset: int) -> CollectionState:
        """Send the journal's records after `base` (None for all), then store the state that makes them visible."""
        if self._is_unusable():
            self._collection.create(self._dimension or 1)
            self._state = base = None
        elif self._state and not self._is_clean:
            undo_failed_publish(self._collection, self._state.number)
        self._is_clean = False
        number = self._state.number + 1 if self._state else 1
        update = CollectionUpdate(self._collection, number, base, self._batch_documents)
        if base is None and self._state is not None:
            update.replace_all()
        update.apply(_records(self._layout, base.journal_offset if base else 0, last_offset))
        state = self._described(update, number, last_offset)
        self._lock.check()
        self._collection.upsert([state.point()])
        self._state, self._is_clean = state, True
        self._forget_replaced(state.number)
        return state

    def _is_unusable(self) -> bool:
        """Return whether the collection must be made anew: its state is unknown or its vectors differ in dimension."""
        return self._state is None or self._state.dimension != self._dimension

    def _described(self, update: CollectionUpdate, number: int, journal_offset: int) -> CollectionState:
        return CollectionState(
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
        )

    def _forget_replaced(self, number: int) -> None:
        """Remove points that no search can still use: they are dead in a generation that was published long ago."""
        now = self._monotonic()
        self._published.append((number, now))
        old = [one for one, moment in self._published if moment <= now - self._keep_replaced_seconds]
        if old:
            delete_dead(self._collection, old[-1])
            self._published = [entry for entry in self._published if entry[0] > old[-1]]

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
            stored = read_live_documents(self._collection, self._state.number, elsewhere)
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


def _records(layout: CorpusLayout, after_offset: int, last_offset: int) -> Iterator[tuple[int, Record]]:
    """Yield the records of the corpus's journal after one offset and up to another, each with its offset."""
    for frame in read_journal(layout.journal, after_offset):
        if frame.offset > last_offset:
            return
        yield frame.offset, decode_record(frame.kind, frame.payload)


class CollectionUpdate:
    """One generation being written: `base` and every record after it. Searches see it once its state is stored.

    Replaced points are marked as dead from this generation on, and stay for searches in earlier ones.
    """

    def __init__(
        self, collection: ServerCollection, number: int, base: CollectionState | None, batch_documents: int
    ) -> None:
        self._collection = collection
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

    def replace_all(self) -> None:
        """Mark all live points as dead from this generation on."""
        for kind in ("chunk", "document"):
            self._collection.mark(where_live(self._number - 1, kind), {"until": self._number})

    def apply(self, records: Iterable[tuple[int, Record]]) -> None:
        """Apply the records in their order."""
        following = iter(records)
        while batch := list(itertools.islice(following, self._batch_documents)):
            # A version that a later one of the same batch replaces is never visible, so it is not stored.
            self._apply({_document_id(record): (offset, record) for offset, record in batch})

    def _apply(self, newest: dict[str, tuple[int, Record]]) -> None:
        self._replace(list(newest))
        arrived = [(offset, record) for offset, record in newest.values() if isinstance(record, Upsert)]
        points = (point for offset, record in arrived for point in make_points(self._number, offset, record))
        while request := list(itertools.islice(points, _POINTS_AT_ONCE)):
            self._collection.upsert(request)
        for _, record in arrived:
            chunk_ids = list(find_first_rows(record.document.chunks))
            self._ids.add(document_key(record.document.document_id), chunk_ids)
            self.document_count += 1
            self.chunk_count += len(chunk_ids)
            self.languages |= {
                analysis_language(one.language or record.document.language) for one in record.document.chunks
            }

    def _replace(self, document_ids: Sequence[str]) -> None:
        for document_id, old in read_live_documents(self._collection, self._number, document_ids).items():
            self._ids.remove(document_key(document_id), old.chunk_ids)
            self.document_count -= 1
            self.chunk_count -= len(old.chunk_ids)
        for kind in ("chunk", "document"):
            self._collection.mark(
                where_live(self._number, kind) + where_document_is(document_ids), {"until": self._number}
            )


def undo_failed_publish(collection: ServerCollection, number: int) -> None:
    """Remove and unmark the changes that a failed publish stored after the generation `number`."""
    collection.delete((Clause("above", "since", number),))
    collection.unmark((Clause("above", "until", number),), "until")


def delete_dead(collection: ServerCollection, number: int) -> None:
    """Delete the points that are dead in the generation `number`."""
    collection.delete((Clause("above", "until", 0), Clause("at_most", "until", number)))


def _document_id(record: Record) -> str:
    return record.document_id if isinstance(record, Removal) else record.document.document_id
