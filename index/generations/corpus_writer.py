"""The common part of every engine's writer: it checks a batch, writes the journal first, and knows what is recorded.

offset = writer.append(batch, vectors, fingerprint)   # durable when it returns
generation = writer.publish()                         # searchable when it returns
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from sluice.contracts.document import ChunkBatch, DocumentFacts
from sluice.contracts.errors import Conflict, InvalidInput
from sluice.index.folder import CorpusLayout, WriterLock
from sluice.index.generations.manifest import Coverage
from sluice.index.generations.publish import Rebuild
from sluice.index.journal.journal import SEGMENT_BYTES, Journal
from sluice.index.journal.records import Record, Removal, Upsert, Vectors, is_recorded, make_facts, with_first_seen

Recorded = dict[str, tuple[int, DocumentFacts]]
"""The offset and the facts of each document's newest version, by document id."""


def utc_now() -> datetime:
    """Return the current time of this machine's clock, in UTC."""
    return datetime.now(UTC)


class CorpusWriter(ABC):
    """Appends to a corpus and publishes it. Safe for threads; one per corpus and machine.

    Raises `Unavailable` when another writer holds the corpus and `Corrupted` when the journal is damaged.
    """

    def __init__(self, root: Path, corpus: str, segment_bytes: int = SEGMENT_BYTES) -> None:
        self._layout = CorpusLayout(root, corpus)
        self._mutex = threading.RLock()
        self._lock = WriterLock(self._layout)
        try:
            self._journal = Journal(self._layout.journal, segment_bytes)
            self._begin()
        except BaseException:
            self._lock.release()
            raise

    @abstractmethod
    def _begin(self) -> None:
        """Read the published state, and bring it or the working state up to the journal."""

    @abstractmethod
    def _recorded(self, document_ids: Iterable[str]) -> Recorded:
        """Return the newest version of each of these documents that the journal holds."""

    @abstractmethod
    def _all_facts(self) -> Iterable[DocumentFacts]:
        """Return the facts of every document that the journal holds."""

    @abstractmethod
    def _record(self, records: Sequence[Record]) -> int:
        """Append to the journal and return the last offset."""

    @property
    @abstractmethod
    def model(self) -> tuple[str, int] | None:
        """The model fingerprint and dimension that the corpus is bound to, once it has a vector."""

    @property
    @abstractmethod
    def published_offset(self) -> int:
        """The offset that is searchable; 0 before the first generation."""

    @abstractmethod
    def publish(self) -> Coverage:
        """Make everything in the journal searchable; return the current generation where nothing is new.

        Raises `Unavailable` when publishing fails: searches see what they saw before, and a later call tries again.
        """

    @abstractmethod
    def erase(self) -> Coverage:
        """Publish, and leave no trace on disk of documents and versions that are not live."""

    @abstractmethod
    def rebuild(self) -> Rebuild:
        """Make a generation from the journal alone and compare its id-set hash with the one before."""

    @property
    def journal_offset(self) -> int:
        """The offset of the last record in the journal."""
        return self._journal.last_offset

    def append(self, batch: ChunkBatch, vectors: Vectors, fingerprint: str) -> int:
        """Record the documents' versions and return the journal offset that covers them.

        `vectors` is float32 (n, d), L2-normalised, row i for chunk i in the order of the batch. A version that is
        recorded already is not recorded again. Raises `InvalidInput` for vectors that do not fit the batch and
        `Conflict` for vectors of another model.
        """
        with self._mutex:
            self._lock.check()
            _check_vectors(batch, vectors)
            _check_model(self._layout.corpus, self.model, fingerprint, vectors)
            own = vectors.copy()  # kept until they are published, while the caller may reuse its array
            covered, records = self._unrecorded(batch, own, fingerprint)
            return self._record(records) if records else covered

    def remove(self, document_ids: Sequence[str]) -> int:
        """Record the removal of the documents; unknown ones are ignored. Returns the covering journal offset."""
        with self._mutex:
            self._lock.check()
            known = self._recorded(document_ids)
            return self._record([Removal(name) for name in dict.fromkeys(document_ids) if name in known])

    def guard_by(self, check: Callable[[], None]) -> None:
        """Have `check` called before each change: it raises `Fenced` where this process may write no more."""
        self._lock.guard = check

    def pad(self, offset: int) -> None:
        """Record removals of nothing up to an offset that was told already: somebody may wait for it."""
        with self._mutex:
            self._lock.check()
            if self._journal.last_offset < offset:
                self._record([Removal("")] * (offset - self._journal.last_offset))

    def select(self, is_wanted: Callable[[DocumentFacts], bool]) -> list[DocumentFacts]:
        """Return the facts of the documents in the journalthat `is_wanted` accepts, published or not."""
        with self._mutex:
            return [facts for facts in self._all_facts() if is_wanted(facts)]

    def has_document(self, document_id: str) -> bool:
        """Return whether the journal holds the document, published or not."""
        with self._mutex:
            return document_id in self._recorded([document_id])

    def documents(self, document_ids: Sequence[str]) -> dict[str, DocumentFacts]:
        """Return the facts of those documents that the journal holds, published or not."""
        with self._mutex:
            return {name: facts for name, (_, facts) in self._recorded(document_ids).items()}

    def close(self) -> None:
        """Release the corpus for another writer. Appended records are in the journal; they need not be published."""
        with self._mutex:
            self._journal.close()
            self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _unrecorded(self, batch: ChunkBatch, vectors: Vectors, fingerprint: str) -> tuple[int, list[Record]]:
        """Return the versions to record, and the journal offset that covers the rest of the batch."""
        known = self._recorded([document.document_id for document in batch.documents])
        records: list[Record] = []
        covered, row = 0, 0
        for document in batch.documents:
            rows = slice(row, row := row + len(document.chunks))
            newest = known.get(document.document_id)
            document = with_first_seen(document, newest[1]) if newest else document
            if newest and is_recorded(newest[1], make_facts(document)):
                covered = max(covered, newest[0])
            else:
                known.pop(document.document_id, None)
                records.append(Upsert.of(document, vectors[rows], fingerprint))
        return covered, records


def _check_vectors(batch: ChunkBatch, vectors: Vectors) -> None:
    """Raise `InvalidInput` unless there is one finite float32 vector for each chunk of the batch."""
    chunk_count = sum(len(document.chunks) for document in batch.documents)
    if vectors.ndim != 2 or len(vectors) != chunk_count or vectors.dtype != np.float32:
        problem = f"{vectors.dtype} of shape {vectors.shape} for {chunk_count} chunks"
        raise InvalidInput("vectors", problem, "give float32 of shape (chunks, dimension)")
    if not np.isfinite(vectors).all():
        raise InvalidInput("vectors", "hold a value that is no finite number", "embed the texts again")


def _check_model(corpus: str, model: tuple[str, int] | None, fingerprint: str, vectors: Vectors) -> None:
    """Raise `Conflict` when the corpus is bound to another model (fingerprint, dimension) than the batch's."""
    if len(vectors) and model is not None and model != (fingerprint, vectors.shape[1]):
        raise Conflict(
            f"corpus {corpus} is bound to the model {model[0]} ({model[1]} dimensions), the batch comes from "
            f"{fingerprint} ({vectors.shape[1]}): embed with the first, or use another corpus"
        )
