"""The candidates of both retrievers for each question, with their scores and ranks, to be ordered in other ways."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sluice.contracts.retrieval import Query, Retrieval, Strategy
from sluice.evaluation.retrieval.ask import TOP_K, Search, name_chunks
from sluice.evaluation.retrieval.cases import Case
from sluice.evaluation.retrieval.fit_model import ndcg


class ScoredChunk(NamedTuple):
    """A chunk found, by its name in the case, with its scores and ranks."""

    chunk_id: str
    name: str
    cosine: float | None
    dense_rank: int | None
    lexical_score: float | None
    lexical_rank: int | None


@dataclass(frozen=True, slots=True)
class ScoredQuestion:
    """A question with the candidates of both retrievers, each once."""

    case: Case
    chunks: tuple[ScoredChunk, ...]


class Recorder:
    """A search that keeps the scores of what it finds for each case and strategy."""

    def __init__(self, cases: Sequence[Case], search: Search) -> None:
        self._cases, self._search = {case.query: case for case in cases}, search
        self._found: dict[str, dict[Strategy, tuple[ScoredChunk, ...]]] = defaultdict(dict)

    def search(self, query: Query) -> Retrieval:
        found = self._search(query)
        self._found[query.query][query.strategy] = _scores(self._cases[query.query], found)
        return found

    def candidates(self) -> list[ScoredQuestion]:
        """Each question's candidates. Hybrid answers have both scores of a chunk; a missing one counts as the lowest of
        its retriever's answer if that was cut off at the chunk limit, and else as 0."""
        return [_merged(self._cases[query], by_strategy) for query, by_strategy in self._found.items()]


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


def weighted_sum(weight: float) -> Callable[[ScoredChunk], float]:
    """Return a function for the score of a chunk by the index's weighted sum."""

    def fused(chunk: ScoredChunk) -> float:
        cosine = chunk.cosine or 0.0
        return cosine * abs(cosine) + weight * (chunk.lexical_score or 0.0)

    return fused


def compute_ndcg(question: ScoredQuestion, fused: Callable[[ScoredChunk], float]) -> float:
    """Return nDCG@10 of a question's candidates in the order of `fused`, a document at the place of its best chunk."""
    return ndcg(question.case.relevant, [chunk.name for chunk in sorted(question.chunks, key=fused, reverse=True)])


def _merged(case: Case, by_strategy: Mapping[Strategy, Sequence[ScoredChunk]]) -> ScoredQuestion:
    chunks: dict[str, ScoredChunk] = {}
    lowest = {strategy: _lowest(strategy, by_strategy[strategy]) for strategy in by_strategy}
    for strategy in (Strategy.HYBRID, Strategy.VECTOR, Strategy.BM25):
        for chunk in by_strategy.get(strategy, ()):
            cosine = lowest.get(Strategy.VECTOR, 0.0) if chunk.cosine is None else chunk.cosine
            words = chunk.lexical_score
            if words is None:
                words = lowest.get(Strategy.BM25, 0.0) if strategy is Strategy.VECTOR else 0.0
            chunks.setdefault(chunk.chunk_id, chunk._replace(cosine=cosine, lexical_score=words))
    return ScoredQuestion(case, tuple(chunks.values()))


def _lowest(strategy: Strategy, scores: Sequence[ScoredChunk]) -> float:
    """Return the lowest score of a list that was cut off; 0 for a complete list."""
    if len(scores) < TOP_K:
        return 0.0
    last = scores[-1]
    return (last.cosine if strategy is Strategy.VECTOR else last.lexical_score) or 0.0
