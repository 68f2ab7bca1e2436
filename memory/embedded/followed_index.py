"""The search index of an embedded memory. It follows the journals and is filled on demand.

New entries of a feature are embedded and appended, the newest first: a few before a question is answered, many in the
background. The index can be removed at any time: the journals are the truth.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sluice.contracts.document import ChunkBatch, ChunkedDocument, Scalar
from sluice.contracts.errors import Corrupted, NotInstalled, SluiceError, Unavailable
from sluice.contracts.memory.learning import FeatureLearning
from sluice.memory.find import IndexHealth
from sluice.memory.journal.feature_memory import FeatureMemory
from sluice.memory.ports import Hit, Hits
from sluice.memory.qdrant_schema import (
    collection_name,
    document_of_learning,
    document_of_record,
    expected_collections,
    is_indexed,
    orphan_collections,
)
from sluice.memory.upkeep import Step, Upkeep

if TYPE_CHECKING:
    from sluice.index.search.reader import RawHit
    from sluice.memory.embedded.engines import Engine, Reader, Writer
    from sluice.memory.embedded.vectors import TextVectors

PORTION = 8
"""Documents embedded at once, between two looks at the clock: as many as the local model takes in one pass."""
LEXICAL_WEIGHT = 0.014
"""Weight of a BM25 score beside a squared cosine, as in `index.settings.QuerySettings.lexical_weight`."""
HALF_SCORE = 10.0
"""BM25 score that counts as a relevance of one half where there are no vectors: two or three rare words."""

Version = tuple[str, dict[str, Scalar]]
"""Hash of a document's text and its payload, which together identify a version of the document."""


@dataclass(slots=True)
class Missing:
    """Ids that the index has yet to add (learnings before iterations, the newest first) and to remove."""

    new: list[str]
    gone: list[str]

    def ids(self) -> list[str]:
        """Return all ids, to add and to remove."""
        return [*self.new, *self.gone]


class FollowedCollection:
    """One collection. Thread-safe. Damaged files are dropped and filled again from the journal."""

    def __init__(
        self, name: str, project_path: str, engine: Engine, vectors: TextVectors, clock: Callable[[], float]
    ) -> None:
        self._name = name
        self._project_path = project_path
        self._engine, self._vectors = engine, vectors
        self._clock = clock
        self._filling = threading.Lock()
        """Held by the one thread that compares the index with the journal and fills it."""
        self._opening = threading.Lock()
        self._reader: Reader | None = None
        self._held: dict[str, Version] = {}
        self._held_offset = -1
        self._seen: tuple[FeatureMemory, Missing] | None = None
        self._learning_documents: dict[str, tuple[FeatureLearning, ChunkedDocument]] = {}

    def follow(self, state: FeatureMemory, until: float) -> list[str]:
        """Index new entries until the clock reads `until`; return the ids that are left.

        These are all missing ids where another thread or process writes, or the embedding model is away.
        """
        return self._filling_alone(state, lambda: self._follow(state, until))

    def lacking(self, state: FeatureMemory) -> list[str]:
        """Return the ids of entries that the index still has to add or remove."""
        return self._filling_alone(state, lambda: self._missing(state).ids())

    def _filling_alone(self, state: FeatureMemory, look: Callable[[], list[str]]) -> list[str]:
        """Run `look` as the one thread that fills; while another one fills, return the ids missing so far."""
        if not self._filling.acquire(blocking=False):
            return self._compare(state).ids()
        try:
            return look()
        except Corrupted:
            self._begin_anew()
            return look()
        finally:
            self._filling.release()

    def search(self, query: str, top_k: int, least_relevance: float) -> Hits:
        """Return the best hits of the collection: by words and vectors, or by words alone without vectors."""
        vector = self._vectors.of_question(query)
        found = self._open_reader().find_hits(query, vector, top_k)
        relevant = (Hit(one.document_id, relevance(one, vector is not None)) for one in found)
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
        """Return what the index lacks of this state. Records never change, so their ids suffice; learnings change."""
        self._refresh_held()
        if self._seen is None or self._seen[0] is not state:
            self._seen = state, self._compare(state)
        return self._seen[1]

    def _compare(self, state: FeatureMemory) -> Missing:
        """Compare this state with the index. Documents beyond it stay: another process may have read further."""
        held, learnings, gone = self._held, [], []
        for name, learning in state.learnings.items():
            if not is_indexed(learning):
                gone += [name] if name in held else []
            elif held.get(name) != _version(self._learning_document(learning)):
                learnings.append(name)
        iterations = [name for name in state.iterations if name not in held]
        return Missing(learnings[::-1] + iterations[::-1], gone)

    def _refresh_held(self) -> None:
        """Read which documents the index holds, at first and after another process has written to it."""
        reader = self._open_reader()
        offset = reader.journal_offset
        if offset != self._held_offset:
            self._held = {one.document_id: (one.checksum, one.metadata) for one in reader.all_facts()}
            self._held_offset, self._seen = offset, None

    def _fill(self, writer: Writer, state: FeatureMemory, missing: Missing, until: float) -> None:
        is_alone = writer.journal_offset == self._held_offset
        self._held_offset = -1  # after an error the held documents are read anew
        if missing.gone:
            writer.remove(missing.gone)
            for name in missing.gone:
                del self._held[name]
            missing.gone.clear()
        while missing.new:
            portion = [self._document(state, name) for name in missing.new[:PORTION]]
            texts = [text for document in portion for text in document.embedding_texts()]
            try:
                vectors = self._vectors.of_documents(texts)
            except Unavailable:
                break
            writer.append(ChunkBatch(documents=tuple(portion)), vectors, self._vectors.fingerprint)
            for document in portion:
                self._held[document.document_id] = _version(document)
            del missing.new[:PORTION]
            if self._clock() >= until:
                break
        waiting = writer.journal_offset - writer.published_offset
        if waiting > self._engine.publish_after or not writer.published_offset:
            writer.publish()
        if is_alone:
            self._held_offset = writer.journal_offset

    def _document(self, state: FeatureMemory, name: str) -> ChunkedDocument:
        if name in state.learnings:
            return self._learning_document(state.learnings[name])
        record = state.iterations[name].record
        return document_of_record(record, name, self._project_path, self._vectors.fingerprint)

    def _learning_document(self, learning: FeatureLearning) -> ChunkedDocument:
        """Return a learning's document, made once per version: counters change each iteration, but are not in it."""
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
    """Return a relevance in [0, 1]: the index's weighted sum of both scores, or BM25 on a curve without vectors."""
    lexical = max(0.0, hit.lexical_score or 0.0)
    if not has_vectors:
        return lexical / (lexical + HALF_SCORE)
    cosine = hit.similarity or 0.0
    return min(1.0, max(0.0, cosine * abs(cosine) + LEXICAL_WEIGHT * lexical))


def _version(document: ChunkedDocument) -> Version:
    return document.checksum, document.metadata


QUESTION_SECONDS = 0.5
"""Longest that a question waits for new documents: a record takes some 20 ms, an iteration brings a few."""

FEW_DOCUMENTS = 16
"""Most new documents that a question waits for; an iteration brings a few, an import thousands."""
SLICE_SECONDS = 1.0
"""Seconds after which a long fill lets others write; resuming takes 50 ms."""


class FollowedIndex:
    """The index of one project. Opens nothing before its first use. `engine` makes one for a model's fingerprint."""

    def __init__(
        self,
        project_path: str,
        engine: Callable[[str], Engine],
        vectors: Callable[[], TextVectors],
        *,
        least_relevance: float = 0.0,
        upkeep: Upkeep | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._project_path = project_path
        self._make_engine, self._make_vectors = engine, vectors
        self._least_relevance = least_relevance
        self._upkeep = upkeep or Upkeep()
        self._clock = clock
        self._opening = threading.Lock()
        self._engine: Engine | None = None
        self._vectors: TextVectors | None = None
        self._collections: dict[str, FollowedCollection] = {}

    def follow(self, state: FeatureMemory, *, wholly: bool = False) -> Collection[str]:
        """See `SearchIndex.follow`."""
        collection = self._collection(collection_name(self._project_path, state.feature))
        lacking = collection.lacking(state)
        fill = self._fill_step(collection, state, len(lacking))
        if wholly:
            while fill():
                pass
            return collection.lacking(state)
        if len(lacking) > FEW_DOCUMENTS:  # the local model takes 30 ms for each
            self._upkeep.do(f"index {state.feature}", fill)
            return lacking
        return collection.follow(state, self._clock() + QUESTION_SECONDS) if lacking else lacking

    def _fill_step(self, collection: FollowedCollection, state: FeatureMemory, lacking: int) -> Step:
        def step() -> bool:
            nonlocal lacking
            before, lacking = lacking, len(collection.follow(state, self._clock() + SLICE_SECONDS))
            return 0 < lacking < before

        return step

    def lacking(self, state: FeatureMemory) -> Collection[str]:
        """See `SearchIndex.lacking`."""
        return self._collection(collection_name(self._project_path, state.feature)).lacking(state)

    def search(self, collection: str, query: str, top_k: int) -> Hits:
        """See `SearchIndex.search`."""
        return self._collection(collection).search(query, top_k, self._least_relevance)

    def health(self, features: tuple[str, ...]) -> IndexHealth:
        """See `SearchIndex.health`."""
        problems: list[str] = []
        engine_name, model = "none", None
        existing: tuple[str, ...] | None = None
        try:
            engine, vectors = self._parts()
            engine_name = engine.name
            model = vectors.fingerprint if vectors.why_not is None else None
            if vectors.why_not:
                problems.append(f"words alone are searched: {vectors.why_not}")
            existing = engine.collections()
        except SluiceError as error:
            problems.append(str(error))
        is_there, existing = existing is not None, existing or ()
        expected = expected_collections(self._project_path, features)
        return IndexHealth(
            engine=engine_name,
            index_available=is_there,
            embedder_available=model is not None,
            embedding_model=model,
            collections=tuple(name for name in existing if name in expected),
            orphans=orphan_collections(existing, self._project_path, features),
            problems=tuple(problems),
        )

    def drop_orphans(self, features: tuple[str, ...]) -> tuple[str, ...]:
        """See `SearchIndex.drop_orphans`."""
        engine, _ = self._parts()
        orphans = orphan_collections(engine.collections(), self._project_path, features)
        for name in orphans:
            engine.drop(name)
        return orphans

    def close(self) -> None:
        """Stop the background work and release files and connections."""
        self._upkeep.close()
        with self._opening:
            for collection in self._collections.values():
                collection.close()
            self._collections.clear()
            if self._engine is not None:
                self._engine.close()
            self._engine = None

    def _collection(self, name: str) -> FollowedCollection:
        engine, vectors = self._parts()
        with self._opening:
            if name not in self._collections:
                self._collections[name] = FollowedCollection(name, self._project_path, engine, vectors, self._clock)
            return self._collections[name]

    def _parts(self) -> tuple[Engine, TextVectors]:
        with self._opening:
            try:
                if self._vectors is None:
                    self._vectors = self._make_vectors()
                if self._engine is None:
                    self._engine = self._make_engine(self._vectors.fingerprint)
            except ImportError as error:  # installed without its dependencies: the journal's words are searched
                raise NotInstalled(f"{error.name} is not installed", "pip install sluice") from error
            return self._engine, self._vectors
