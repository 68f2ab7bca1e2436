"""One feature in the index: what it holds beside what it is to hold, and how it takes in the rest."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING

from sluice.contracts.document import ChunkBatch, ChunkedDocument, Scalar
from sluice.contracts.errors import Corrupted, Unavailable
from sluice.contracts.memory.learning import FeatureLearning
from sluice.memory.documents import document_of_learning, document_of_record, is_indexed
from sluice.memory.journal.feature_memory import FeatureMemory
from sluice.memory.ports import Hit, Hits

if TYPE_CHECKING:
    from sluice.index.search.probe import RawHit
    from sluice.memory.embedded.engines import Engine, Reader, Writer
    from sluice.memory.embedded.vectors import TextVectors

PORTION = 8
"""Documents that are embedded at once, between two looks at the clock: what the local model takes in one pass."""
LEXICAL_WEIGHT = 0.014
"""Of a BM25 score beside the square of a cosine, as in `index.settings.QuerySettings.lexical_weight`."""
HALF_SCORE = 10.0
"""BM25 score that counts as a relevance of one half where there are no vectors: two or three rare words."""

Version = tuple[str, dict[str, Scalar]]
"""What tells two versions of a document apart: the hash of its text, and its payload."""


@dataclass(slots=True)
class Missing:
    """What the index is to take in, the newest first, and what it is to forget."""

    learnings: list[str]
    iterations: list[str]
    gone: list[str]

    def took(self, count: int) -> None:
        """Strike off what the index took in: `count` documents, learnings before iterations."""
        learnings = min(count, len(self.learnings))
        del self.learnings[:learnings]
        del self.iterations[: count - learnings]

    def ids(self) -> list[str]:
        """Of all of it."""
        return [*self.learnings, *self.iterations, *self.gone]


class FollowedCollection:
    """One collection. Safe for threads. Files that are damaged are dropped, and filled again from the journal."""

    def __init__(
        self, name: str, project_path: str, engine: Engine, vectors: TextVectors, clock: Callable[[], float]
    ) -> None:
        self._name = name
        self._project_path = project_path
        self._engine, self._vectors = engine, vectors
        self._clock = clock
        self._filling = threading.Lock()
        """Held by the one thread that compares with what is held, and adds to it."""
        self._opening = threading.Lock()
        self._reader: Reader | None = None
        self._held: dict[str, Version] = {}
        self._held_offset = -1
        self._seen: tuple[FeatureMemory, Missing] | None = None
        self._learning_documents: dict[str, tuple[FeatureLearning, ChunkedDocument]] = {}

    def follow(self, state: FeatureMemory, until: float) -> list[str]:
        """Take in what is new until that moment of the clock; returns the ids that are left.

        Where another thread or process writes, or the embedding model is away, that is all of it.
        """
        if not self._filling.acquire(blocking=False):
            return self._compare(state).ids()
        try:
            return self._follow(state, until)
        except Corrupted:
            self._begin_anew()
            return self._follow(state, until)
        finally:
            self._filling.release()

    def lacking(self, state: FeatureMemory) -> list[str]:
        """The ids of what is not in the index."""
        if not self._filling.acquire(blocking=False):
            return self._compare(state).ids()
        try:
            return self._missing(state).ids()
        except Corrupted:
            self._begin_anew()
            return self._missing(state).ids()
        finally:
            self._filling.release()

    def search(self, query: str, top_k: int, least_relevance: float) -> Hits:
        """The best of the collection by words and vectors, by words alone where there are no vectors."""
        vector = self._vectors.of_question(query)
        probe = self._open_reader().probe(query, vector, top_k)
        relevant = (Hit(one.document_id, relevance(one, vector is not None)) for one in probe.hits)
        hits = tuple(one for one in relevant if one.relevance >= least_relevance)
        return Hits(hits, "bm25" if vector is None else "hybrid")

    def close(self) -> None:
        """Close the reader; the next search opens it again."""
        with self._opening:
            if self._reader is not None:
                self._reader.close()
            self._reader, self._seen, self._held_offset = None, None, -1

    def _follow(self, state: FeatureMemory, until: float) -> list[str]:
        missing = self._missing(state)
        if missing.ids():
            try:
                writer = self._engine.open_writer(self._name)
            except Unavailable:
                return missing.ids()
            with writer:
                self._fill(writer, state, missing, until)
        return missing.ids()

    def _missing(self, state: FeatureMemory) -> Missing:
        """What the index lacks of this state. A record never changes, so its id is enough; a learning does."""
        self._refresh_held()
        if self._seen is None or self._seen[0] is not state:
            self._seen = state, self._compare(state)
        return self._seen[1]

    def _compare(self, state: FeatureMemory) -> Missing:
        """What the index lacks. What it holds beyond this state is left: another process may have read further."""
        held, learnings, gone = self._held, [], []
        for name, learning in state.learnings.items():
            if not is_indexed(learning):
                gone += [name] if name in held else []
            elif held.get(name) != _version(self._learning_document(learning)):
                learnings.append(name)
        iterations = [name for name in state.iterations if name not in held]
        return Missing(learnings[::-1], iterations[::-1], gone)

    def _refresh_held(self) -> None:
        """Read what the index holds, at first and after another process has written to it."""
        reader = self._open_reader()
        offset = reader.journal_offset
        if offset != self._held_offset:
            self._held = {one.document_id: (one.checksum, one.metadata) for one in reader.all_facts()}
            self._held_offset, self._seen = offset, None

    def _fill(self, writer: Writer, state: FeatureMemory, missing: Missing, until: float) -> None:
        is_alone = writer.journal_offset == self._held_offset
        self._held_offset = -1  # an error on the way leaves open what is held
        if missing.gone:
            writer.remove(missing.gone)
            for name in missing.gone:
                del self._held[name]
            missing.gone.clear()
        while portion := self._next_portion(state, missing):
            texts = [text for document in portion for text in document.embedding_texts()]
            try:
                vectors = self._vectors.of_documents(texts)
            except Unavailable:
                break
            writer.append(ChunkBatch(documents=tuple(portion)), vectors, self._vectors.fingerprint)
            for document in portion:
                self._held[document.document_id] = _version(document)
            missing.took(len(portion))
            if self._clock() >= until:
                break
        waiting = writer.journal_offset - writer.published_offset
        if waiting > self._engine.publish_after or not writer.published_offset:
            writer.publish()
        if is_alone:
            self._held_offset = writer.journal_offset

    def _next_portion(self, state: FeatureMemory, missing: Missing) -> list[ChunkedDocument]:
        learnings = (self._learning_document(state.learnings[name]) for name in missing.learnings)
        recorded = (state.iterations[name] for name in missing.iterations)
        iterations = (
            document_of_record(one.record, one.entry_id, self._project_path, self._vectors.fingerprint)
            for one in recorded
        )
        return list(islice(chain(learnings, iterations), PORTION))

    def _learning_document(self, learning: FeatureLearning) -> ChunkedDocument:
        """Made once for each version: counters change with every iteration, and are not in it."""
        known = self._learning_documents.get(learning.id)
        if known is None or known[0] is not learning:
            document = document_of_learning(learning, self._project_path, self._vectors.fingerprint)
            known = self._learning_documents[learning.id] = learning, document
        return known[1]

    def _open_reader(self) -> Reader:
        with self._opening:
            if self._reader is None:
                self._reader = self._engine.open_reader(self._name)
            return self._reader

    def _begin_anew(self) -> None:
        self.close()
        self._engine.drop(self._name)
        self._held = {}


def relevance(hit: RawHit, has_vectors: bool) -> float:
    """In [0, 1]: the weighted sum by which the index fuses both scores; of words alone, BM25 on a curve."""
    lexical = max(0.0, hit.lexical_score or 0.0)
    if not has_vectors:
        return lexical / (lexical + HALF_SCORE)
    cosine = hit.dense_similarity or 0.0
    return min(1.0, max(0.0, cosine * abs(cosine) + LEXICAL_WEIGHT * lexical))


def _version(document: ChunkedDocument) -> Version:
    return document.checksum, document.metadata
