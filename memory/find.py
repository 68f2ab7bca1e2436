"""Searches the memory of a feature, ranks what is found, and reports the status of a project's memory.

The index is searched first, then the journal's own words for what it lacks. Results are ranked by `relevance x weight`:
`relevance` comes from the search (hybrid, or BM25 over the journal's own words while the index is away), `weight` from
`memory.recall.weigh`. Rejected and pruned learnings are never offered, nor those of another task if one is given.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import Any, Protocol

from sluice.contracts.errors import SluiceError
from sluice.contracts.memory.api import MemoryProof, RagStatus, Recollection
from sluice.contracts.memory.learning import FeatureLearning
from sluice.contracts.memory.model import IterationRecord
from sluice.contracts.retrieval import MAX_QUERY_CHARACTERS
from sluice.memory.journal.feature_memory import FeatureMemory, is_offered
from sluice.memory.journal.file import Journal, prove
from sluice.memory.ports import Hit, Hits, Sanitise
from sluice.memory.qdrant_schema import collection_name, documents_of
from sluice.memory.recall.journal_search import search_journal
from sluice.memory.recall.weigh import Ages, fared, weigh_learning, weigh_record
from sluice.memory.sanitise import sanitise_record


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


def rank(state: FeatureMemory, hits: Hits | None, query: str, *, top_k: int, task_id: int | None) -> list[Recollection]:
    """Return at most `top_k` memories. `hits` None: the journal's own words are searched.

    Near learnings that differ stand side by side, even if only one of them was found, and the one that fared best goes
    first. A learning that stands in the place of a retired one is as relevant as either. Age is counted in iterations:
    a loop that rested for a month has forgotten nothing.
    """
    if hits is None:
        relevance = search_journal(state, query, task_id)
    else:  # found twice, a document keeps its better relevance
        relevance = {hit.document_id: hit.relevance for hit in sorted(hits.hits, key=lambda hit: hit.relevance)}
        if successors := set(state.successors(task_id).values()):
            words = search_journal(state, query, task_id)
            relevance |= {key: max(relevance.get(key, 0.0), words[key]) for key in successors & words.keys()}
    found = [state.learnings[key] for key in relevance if key in state.learnings]
    others = (state.learnings[key] for one in found for key in one.conflicts_with if key in state.learnings)
    learnings = {one.id: one for one in (*found, *others) if is_offered(one, task_id)}
    ages = Ages(state)

    def weigh(key: str) -> tuple[float, int]:
        """Return the weight of a memory, and the number of its iteration."""
        if learning := learnings.get(key):
            return weigh_learning(learning, ages), learning.iteration
        return weigh_record(state.iterations[key], ages), state.iterations[key].record.iteration_number

    def order(key: str) -> tuple[float, int, str]:
        weight, iteration = weigh(key)
        return -relevance[key] * weight, -iteration, key

    best = heapq.nsmallest(top_k, (key for key in relevance if key in state.iterations or key in learnings), key=order)
    chosen = dict.fromkeys(each for key in best for each in (_beside(key, learnings) if key in learnings else (key,)))
    return [
        _recollect(key, learnings.get(key) or state.iterations[key].record, relevance.get(key, 0.0), *weigh(key))
        for key in islice(chosen, top_k)
    ]


def _beside(key: str, learnings: Mapping[str, FeatureLearning]) -> list[str]:
    """Return a learning and those that differ from it, the one that fared best first."""
    group = [key, *(other for other in learnings[key].conflicts_with if other in learnings)]
    return sorted(group, key=lambda each: -fared(learnings[each]))


def _recollect(
    key: str, one: FeatureLearning | IterationRecord, relevance: float, weight: float, iteration: int
) -> Recollection:
    score = relevance * weight
    told: dict[str, Any] = {"id": key, "iteration": iteration, "score": score, "relevance": relevance, "weight": weight}
    if isinstance(one, IterationRecord):
        return Recollection(kind="iteration", text=one.embedding_text(), outcome=one.outcome, record=one, **told)
    return Recollection(kind="learning", text=one.text, learning=one, **told)


def cleaned(found: Iterable[Recollection], sanitise: Sanitise) -> Iterator[Recollection]:
    """Yield each result without commands to its reader; leave out a learning of which nothing may be shown.

    A result that looks like harmful advice is marked, unless it is a learning that somebody reviewed.
    """
    for one in found:
        to_review = not (one.learning and one.learning.reviewed) and sanitise(one.text).is_harmful
        if one.record is not None:
            record = sanitise_record(one.record, sanitise)
            text = one.text if record is one.record else record.embedding_text()
            yield one.model_copy(update={"record": record, "text": text, "to_review": to_review})
        elif one.learning is not None and (learning := _cleaned_learning(one.learning, sanitise)):
            yield one.model_copy(update={"learning": learning, "text": learning.text, "to_review": to_review})


def _cleaned_learning(learning: FeatureLearning, sanitise: Sanitise) -> FeatureLearning | None:
    text, reason = sanitise(learning.text), sanitise(learning.reason)
    if text.blocked or not text.text:
        return None
    if text.text == learning.text and reason.text == learning.reason and not reason.blocked:
        return learning
    told = "" if reason.blocked else reason.text
    return learning.model_copy(update={"text": text.text, "reason": told or "withheld"})
