"""Ranks the contents of memory for a question, the best first, by `relevance x weight`.

`relevance` comes from the search (hybrid, or BM25 over the journal's own words while the index is away), `weight` from
`memory.recall.weigh`. Rejected and pruned learnings are never offered, nor those of another task if one is given.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from sluice.contracts.memory.api import Recollection
from sluice.contracts.memory.learning import FeatureLearning
from sluice.contracts.memory.model import IterationRecord
from sluice.memory.journal.feature_memory import FeatureMemory, is_offered
from sluice.memory.ports import Hits, Sanitise
from sluice.memory.recall.journal_search import search_journal
from sluice.memory.recall.weigh import Ages, fared, weigh_learning, weigh_record
from sluice.memory.sanitise import sanitise_record


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
