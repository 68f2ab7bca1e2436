"""Ranks the contents of memory for a question, the best first.

    score = relevance x weight

`relevance` is of the search (hybrid, or BM25 over the journal's own words where the index is away); `weight` is of
`memory.recall.weight`. What was rejected or pruned is never offered, nor a learning of another task where one is given.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

from sluice.contracts.memory.api import Recollection
from sluice.contracts.memory.learning import FeatureLearning
from sluice.contracts.memory.model import IterationRecord
from sluice.memory.journal.feature_memory import FeatureMemory, is_offered
from sluice.memory.ports import Hits, Sanitise
from sluice.memory.recall.journal_search import search_journal
from sluice.memory.recall.weigh import Ages, weigh_learning, weigh_record
from sluice.memory.sanitise import sanitise_record


def rank(state: FeatureMemory, hits: Hits | None, query: str, *, top_k: int, task_id: int | None) -> list[Recollection]:
    """At most `top_k` memories. `hits` None: the journal's own words are searched.

    Learnings that contradict each other stand side by side, also where only one of them was found. Age is counted in
    iterations: a loop that rested for a month has forgotten nothing.
    """
    relevance = _relevance_of(hits) if hits is not None else search_journal(state, query, task_id)
    memories = _Memories(state, task_id, relevance)
    scores = ((memories.score(key), key) for key in relevance if key in memories)
    best = heapq.nsmallest(top_k, ((-score, -memories.iteration(key), key) for score, key in scores))
    return [memories.recollect(key) for key in islice(memories.side_by_side(key for *_, key in best), top_k)]


def _relevance_of(hits: Hits) -> dict[str, float]:
    """By document id; of one that was found twice the better."""
    relevance: dict[str, float] = {}
    for hit in hits.hits:
        relevance[hit.document_id] = max(relevance.get(hit.document_id, 0.0), hit.relevance)
    return relevance


class _Memories:
    """Iterations and the learnings that are offered, by their ids, with their relevance to a question."""

    def __init__(self, state: FeatureMemory, task_id: int | None, relevance: Mapping[str, float]) -> None:
        self._iterations = state.iterations
        found = [state.learnings[key] for key in relevance if key in state.learnings]
        others = (state.learnings[key] for one in found for key in one.conflicts_with if key in state.learnings)
        self._learnings = {one.id: one for one in (*found, *others) if is_offered(one, task_id)}
        self._relevance = relevance
        self._ages = Ages(state)

    def __contains__(self, key: str) -> bool:
        return key in self._iterations or key in self._learnings

    def iteration(self, key: str) -> int:
        learning = self._learnings.get(key)
        return learning.iteration if learning else self._iterations[key].record.iteration_number

    def score(self, key: str) -> float:
        return self._relevance.get(key, 0.0) * self._weight(key)

    def _weight(self, key: str) -> float:
        learning = self._learnings.get(key)
        return weigh_learning(learning, self._ages) if learning else weigh_record(self._iterations[key], self._ages)

    def side_by_side(self, keys: Iterable[str]) -> Iterator[str]:
        """Each learning is followed by those that contradict it."""
        given: set[str] = set()
        for key in keys:
            learning = self._learnings.get(key)
            others = (one for one in learning.conflicts_with if one in self._learnings) if learning else ()
            for each in (key, *others):
                if each not in given:
                    given.add(each)
                    yield each

    def recollect(self, key: str) -> Recollection:
        learning = self._learnings.get(key)
        record = None if learning else self._iterations[key].record
        return Recollection(
            kind="learning" if learning else "iteration",
            id=key,
            text=learning.text if learning else self._iterations[key].record.embedding_text(),
            iteration=self.iteration(key),
            score=self.score(key),
            relevance=self._relevance.get(key, 0.0),
            weight=self._weight(key),
            outcome=record.outcome if record else None,
            learning=learning,
            record=record,
        )


def cleaned(found: Iterable[Recollection], sanitise: Sanitise) -> Iterator[Recollection]:
    """Each of them without what would command its reader; a learning of which nothing may be told is left out."""
    for one in found:
        if one.record is not None:
            yield _with_record(one, sanitise_record(one.record, sanitise))
        elif one.learning is not None and (learning := _cleaned_learning(one.learning, sanitise)):
            yield (
                one
                if learning is one.learning
                else one.model_copy(update={"learning": learning, "text": learning.text})
            )


def _with_record(one: Recollection, record: IterationRecord) -> Recollection:
    return one if record is one.record else one.model_copy(update={"record": record, "text": record.embedding_text()})


def _cleaned_learning(learning: FeatureLearning, sanitise: Sanitise) -> FeatureLearning | None:
    text, reason = sanitise(learning.text), sanitise(learning.reason)
    if text.blocked or not text.text:
        return None
    if text.text == learning.text and reason.text == learning.reason and not reason.blocked:
        return learning
    told = "" if reason.blocked else reason.text
    return learning.model_copy(update={"text": text.text, "reason": told or "withheld"})
