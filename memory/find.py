"""Searches the memory of a feature, and reports the status of a project's memory.

The index is searched first, then the journal's own words for what the index lacks.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Protocol

from sluice.contracts.errors import SluiceError
from sluice.contracts.memory.api import MemoryProof, RagStatus
from sluice.contracts.retrieval import MAX_QUERY_CHARACTERS
from sluice.memory.journal.compare import prove
from sluice.memory.journal.feature_memory import FeatureMemory
from sluice.memory.journal.file import Journal
from sluice.memory.ports import Hit, Hits
from sluice.memory.qdrant_schema import collection_name, documents_of
from sluice.memory.recall.journal_search import search_journal


@dataclass(frozen=True, slots=True)
class IndexHealth:
    """Status of an index. `collections` are those that it holds of this project."""

    engine: str
    index_available: bool
    embedder_available: bool
    embedding_model: str | None
    collections: tuple[str, ...] = ()
    orphans: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


class SearchIndex(Protocol):
    """An index filled from the states of a project's features, one collection for each. Thread-safe."""

    def search(self, collection: str, query: str, top_k: int) -> Hits:
        """Return a collection's best hits; empty if there is none. Raises `Unavailable` if the engine is away."""
        ...

    def follow(self, state: FeatureMemory, *, wholly: bool = False) -> Collection[str]:
        """Index new entries, as many as a question may wait for (`wholly`: all of them).

        Returns the ids of documents that the index still lacks or holds in an older version: all new ones, if another
        process writes to it or the embedding model is away. Raises `Unavailable` if the engine is away.
        """
        ...

    def lacking(self, state: FeatureMemory) -> Collection[str]:
        """Return the same ids, without indexing anything."""
        ...

    def health(self, features: tuple[str, ...]) -> IndexHealth:
        """Return the status of the index; `features` are those that have a journal."""
        ...

    def drop_orphans(self, features: tuple[str, ...]) -> tuple[str, ...]:
        """Remove the collections that belong to no feature; return their names."""
        ...


SEARCH_DEPTH = 50
"""Least number of hits taken from the index: age, outcome and task reorder them, and drop some."""
MOST_LACKING = 0.5
"""Share of a feature that the index may lack; beyond it the journal's own words find more than the index."""


def find(
    search: SearchIndex | None, project_path: str, state: FeatureMemory, query: str, *, top_k: int, task_id: int | None
) -> tuple[Hits | None, int]:
    """Return the index's hits, with the journal's hits for documents that it lacks, and the number of these.

    The hits are None if there is no index, if it is away, or if it lacks so much that the journal knows more.
    """
    if search is None or not query.strip():
        return None, 0
    size = len(state.iterations) + len(state.learnings)
    try:
        lacking = search.follow(state)
        if len(lacking) > MOST_LACKING * size:
            return None, len(lacking)
        collection = collection_name(project_path, state.feature)
        found = search.search(collection, query[:MAX_QUERY_CHARACTERS], max(SEARCH_DEPTH, 2 * top_k))
    except SluiceError:
        return None, size
    if lacking:
        words = search_journal(state, query, task_id)
        new = (Hit(one, words[one]) for one in lacking if one in words)
        found = replace(found, hits=(*found.hits, *new))
    return found, len(lacking)


def make_status(journals: Sequence[Journal], search: SearchIndex | None) -> RagStatus:
    """Return the status over all features. If the index is away, it counts as lacking everything."""
    states = [journal.read() for journal in journals]
    health = IndexHealth("none", index_available=False, embedder_available=False, embedding_model=None)
    behind = 0
    if search is not None:
        health = search.health(tuple(journal.feature for journal in journals))
        try:
            behind = sum(len(search.lacking(state)) for state in states)
        except SluiceError:
            behind = sum(len(state.iterations) + len(state.active()) for state in states)
    damages = (f"{journal.path.name}: {damage}" for journal in journals for damage in journal.problems())
    told = asdict(health) | {"problems": (*health.problems, *damages)}
    return RagStatus(
        **told,
        features=len(states),
        records=sum(len(state.iterations) for state in states),
        learnings=sum(len(state.active()) for state in states),
        conflicts=sum(len(state.conflicts) for state in states),
        behind=behind,
    )


def make_proof(journal: Journal, search: SearchIndex | None, project_path: str) -> MemoryProof:
    """Compare a feature's journal with the state held of it, and with the index.

    Raises `Unavailable` if the journal cannot be read, or the engine is away.
    """
    proof, state = prove(journal), journal.read()
    documents = sum(1 for _ in documents_of(state, project_path))
    missing = tuple(search.lacking(state)) if search is not None else ()
    return MemoryProof(
        feature=journal.feature,
        collection=collection_name(project_path, journal.feature),
        entries=proof.entries,
        state_sha256=proof.sha256,
        documents=documents,
        indexed=documents - len(missing),
        missing=missing,
        differences=proof.differences,
        problems=tuple(map(str, proof.problems)),
    )
