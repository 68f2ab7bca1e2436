"""The search index of an embedded memory: it follows the journals, and is filled when something is asked.

What is new in a feature is embedded and appended, the newest first: where it is little, before a question is answered,
else in the background. The index can be removed at any time: the journals are the truth.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from sluice.contracts.errors import NotInstalled, SluiceError
from sluice.memory.embedded.collection import FollowedCollection
from sluice.memory.find import IndexHealth
from sluice.memory.journal.feature_memory import FeatureMemory
from sluice.memory.ports import Hits
from sluice.memory.qdrant_schema import collection_name, expected_collections, orphan_collections
from sluice.memory.upkeep import Step, Upkeep

if TYPE_CHECKING:
    from sluice.memory.embedded.engines import Engine
    from sluice.memory.embedded.vectors import TextVectors

QUESTION_SECONDS = 0.5
"""How long a question waits for what is new to be embedded: a record takes some 20 ms, an iteration brings a few."""

FEW_DOCUMENTS = 16
"""A question waits until so many are embedded; an iteration brings a few, an import thousands."""
SLICE_SECONDS = 1.0
"""After which a long fill lets others write; going on takes 50 ms."""


class FollowedIndex:
    """The index of one project. Opens nothing before its first use. `engine` is made for the fingerprint of a model."""

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
        """As `SearchIndex.follow`."""
        collection = self._collection(collection_name(self._project_path, state.feature))
        if not wholly:
            return self._follow(collection, state)
        lacking = collection.follow(state, self._clock() + SLICE_SECONDS)
        before = 0
        while lacking and len(lacking) != before:
            before, lacking = len(lacking), collection.follow(state, self._clock() + SLICE_SECONDS)
        return lacking

    def _follow(self, collection: FollowedCollection, state: FeatureMemory) -> Collection[str]:
        """Take in a few at once; many in the background, as the local model takes 30 ms for each."""
        lacking = collection.lacking(state)
        if len(lacking) > FEW_DOCUMENTS:
            self._upkeep.do(f"index {state.feature}", self._fill_step(collection, state, len(lacking)))
            return lacking
        return collection.follow(state, self._clock() + QUESTION_SECONDS) if lacking else lacking

    def _fill_step(self, collection: FollowedCollection, state: FeatureMemory, lacking: int) -> Step:
        def step() -> bool:
            nonlocal lacking
            before, lacking = lacking, len(collection.follow(state, self._clock() + SLICE_SECONDS))
            return 0 < lacking < before

        return step

    def lacking(self, state: FeatureMemory) -> Collection[str]:
        """As `SearchIndex.lacking`."""
        return self._collection(collection_name(self._project_path, state.feature)).lacking(state)

    def search(self, collection: str, query: str, top_k: int) -> Hits:
        """As `SearchIndex.search`."""
        return self._collection(collection).search(query, top_k, self._least_relevance)

    def health(self, features: tuple[str, ...]) -> IndexHealth:
        """As `SearchIndex.health`."""
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
        """As `SearchIndex.drop_orphans`."""
        engine, _ = self._parts()
        orphans = orphan_collections(engine.collections(), self._project_path, features)
        for name in orphans:
            engine.drop(name)
        return orphans

    def close(self) -> None:
        """End what is done in the background, and let go of files and connections."""
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
