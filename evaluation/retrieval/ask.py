"""Asks every question by every strategy, a few at a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

from sluice.contracts.retrieval import Query, Retrieval, Strategy
from sluice.evaluation.retrieval.cases import Case
from sluice.evaluation.retrieval.measures import DEPTH
from sluice.evaluation.retrieval.misses import Miss, find_miss
from sluice.evaluation.retrieval.ranking import name_chunks, rank_documents
from sluice.evaluation.retrieval.retry_when_overloaded import retry_when_overloaded

TOP_K = 200
"""Chunks asked for: the most that a query may ask for, as a document of several chunks takes several places."""

TRUST_DEPTH = 10
"""Of how many first chunks the trust is told."""

Search = Callable[[Query], Retrieval]
"""Must be safe for threads."""


class ScoredChunk(NamedTuple):
    """A chunk that was found, by the name that its case has for it, and the scores and ranks that were told of it."""

    chunk_id: str
    name: str
    cosine: float | None
    dense_rank: int | None
    lexical_score: float | None
    lexical_rank: int | None


@dataclass(frozen=True, slots=True)
class Answered:
    """What one question found by one strategy. Durations in milliseconds.

    `names` are the first `DEPTH` documents, best first. `is_truncated` where the ranking was cut off before `DEPTH`
    documents by the number of chunks that may be asked for.
    """

    case: Case
    strategy: Strategy
    names: tuple[str, ...]
    miss: Miss | None
    is_truncated: bool
    generation: str | None
    fusion: str
    index_ms: float
    round_trip_ms: float
    scores: tuple[ScoredChunk, ...] = ()
    """Of every chunk, best first, where they were asked for."""
    trust: float | None = None
    """Mean trust of the first ten chunks; None where none was told."""
    guard_dropped: int = 0
    """Chunks that were found and left out as they are blocked."""


def ask_all(
    cases: Sequence[Case],
    strategies: Sequence[Strategy],
    corpus: str,
    search: Search,
    *,
    at_once: int,
    clock: Callable[[], float] = time.perf_counter,
    with_scores: bool = False,
) -> Generator[Answered, None, None]:
    """What each question found by each strategy, question by question, `at_once` of them under way.

    Ends with the first error that patience does not help; an iteration that is left early asks nothing more.
    """
    stopped = threading.Event()

    def answer(case: Case, strategy: Strategy) -> Answered:
        query = Query(query=case.query, corpus=corpus, top_k=TOP_K, strategy=strategy, filters=case.filters)
        found, seconds = retry_when_overloaded(lambda: _timed(search, query, clock), stopped.wait)
        return _asked(case, strategy, found, seconds, with_scores=with_scores)

    pool = ThreadPoolExecutor(max_workers=at_once, thread_name_prefix="evaluation")
    try:
        yield from pool.map(lambda pair: answer(*pair), [(case, strategy) for case in cases for strategy in strategies])
    finally:
        stopped.set()
        pool.shutdown(wait=True, cancel_futures=True)


def _timed(search: Search, query: Query, clock: Callable[[], float]) -> tuple[Retrieval, float]:
    started = clock()
    return search(query), clock() - started


def _asked(case: Case, strategy: Strategy, found: Retrieval, seconds: float, *, with_scores: bool) -> Answered:
    order = rank_documents(found.chunks, case.relevant)
    return Answered(
        case=case,
        strategy=strategy,
        names=tuple(one.name for one in order[:DEPTH]),
        miss=find_miss(case, order),
        is_truncated=len(order) < DEPTH and len(found.chunks) >= TOP_K,
        generation=found.generation,
        fusion=found.metadata.fusion,
        index_ms=found.metadata.duration_ms,
        round_trip_ms=1e3 * seconds,
        scores=_scores(case, found) if with_scores else (),
        trust=_mean_trust(found),
        guard_dropped=found.metadata.guard_dropped,
    )


def _mean_trust(found: Retrieval) -> float | None:
    first = [score.score for score in found.metadata.trust_scores[:TRUST_DEPTH]]
    return sum(first) / len(first) if first else None


def _scores(case: Case, found: Retrieval) -> tuple[ScoredChunk, ...]:
    return tuple(
        ScoredChunk(
            chunk_id=chunk.chunk_id,
            name=name,
            cosine=None if chunk.dense_distance is None else 1.0 - chunk.dense_distance,
            dense_rank=chunk.dense_rank,
            lexical_score=chunk.lexical_score,
            lexical_rank=chunk.lexical_rank,
        )
        for name, chunk in name_chunks(found.chunks, case.relevant)
    )
