"""Fits the weights of one embedding model to questions with known answers: of BM25 beside its cosines
(`query.lexical_weight`), and of its cosines in the confidence of passages.

The defaults belong to the cosines of the local model. Another model's may lie closer together or higher, and then the
same BM25 weighs more or less beside them, and the same cosine tells less or more. The candidates of both retrievers are
reordered by every weight of a grid, which needs no further queries; each weight is chosen on a half of the questions
and measured on the other.
"""

from __future__ import annotations

import hashlib
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sluice.contracts.base import Value
from sluice.contracts.errors import InvalidInput
from sluice.contracts.retrieval import Strategy
from sluice.evaluation.retrieval.ask import TOP_K, Answered, ScoredChunk
from sluice.evaluation.retrieval.cases import Case
from sluice.evaluation.retrieval.measures import HIT_DEPTH

WEIGHTS = tuple(0.001 * 2 ** (step / 3) for step in range(25))
"""0.001 to 0.256, each a quarter more than the last: the curve is flat, so a finer grid would not help."""
LEAST_QUESTIONS = 20
"""With fewer, a single question could decide."""
EQUAL = 0.002
"""Means of nDCG@10 that differ by no more count as equal: chance moves those of 500 questions by five times that."""


@dataclass(frozen=True, slots=True)
class ScoredQuestion:
    """A question with the candidates of both retrievers, each once."""

    case: Case
    chunks: tuple[ScoredChunk, ...]


class FusionFit(Value):
    """The fitted weight and its mean nDCG@10; and for each half of the questions the mean of the weight chosen on the
    other half, and of the best one."""

    lexical_weight: float
    question_count: int
    ndcg: float
    halves: tuple[tuple[float, float], ...]


def fit_lexical_weight(answers: Iterable[Answered]) -> FusionFit:
    """Fit the weight to the answers of all strategies, which must have their scores.

    Raises `InvalidInput` if there are fewer than `LEAST_QUESTIONS` questions.
    """
    questions = collect_candidates(answers)
    if len(questions) < LEAST_QUESTIONS:
        raise InvalidInput("cases", f"{len(questions)} questions are too few to fit to", f"give {LEAST_QUESTIONS}")
    by_weight = np.array([[compute_ndcg(one, weighted_sum(weight)) for one in questions] for weight in WEIGHTS])
    in_first = np.array([hashlib.sha256(one.case.id.encode()).digest()[0] % 2 == 0 for one in questions])
    if in_first.all() or not in_first.any():
        in_first = np.arange(len(questions)) % 2 == 0
    whole, first, second = (by_weight[:, part].mean(axis=1) for part in (slice(None), in_first, ~in_first))
    best = choose_weight(whole)
    return FusionFit(
        lexical_weight=float(f"{WEIGHTS[best]:.2g}"),
        question_count=len(questions),
        ndcg=whole[best],
        halves=((first[choose_weight(second)], first.max()), (second[choose_weight(first)], second.max())),
    )


def collect_candidates(answers: Iterable[Answered]) -> list[ScoredQuestion]:
    """Collect each question's candidates from its answers by the three strategies.

    Hybrid answers have both scores of a chunk. A missing score counts as the lowest of its retriever's answer if that
    was cut off at the chunk limit, and else as 0.
    """
    found: defaultdict[str, dict[Strategy, Answered]] = defaultdict(dict)
    for answer in answers:
        found[answer.case.id][answer.strategy] = answer
    return [_merged(by_strategy) for by_strategy in found.values()]


def weighted_sum(weight: float) -> Callable[[ScoredChunk], float]:
    """Return a function for the score of a chunk by the index's weighted sum."""

    def fused(chunk: ScoredChunk) -> float:
        cosine = chunk.cosine or 0.0
        return cosine * abs(cosine) + weight * (chunk.lexical_score or 0.0)

    return fused


def compute_ndcg(question: ScoredQuestion, fused: Callable[[ScoredChunk], float]) -> float:
    """Return nDCG@10 of a question's candidates in the order of `fused`, a document at the place of its best chunk."""
    return ndcg(question.case.relevant, [chunk.name for chunk in sorted(question.chunks, key=fused, reverse=True)])


def ndcg(relevant: Mapping[str, int], names: Iterable[str]) -> float:
    """Return nDCG@10 of ranked names (Järvelin and Kekäläinen, TOIS 2002); repeated names are skipped."""
    grades = [relevant.get(name, 0) for name in dict.fromkeys(names)]
    return _gain(grades) / _gain(sorted(relevant.values(), reverse=True))


def choose_weight(means: Sequence[float] | NDArray[np.float64]) -> int:
    """Return the middle of the equally good weights around the best: there small changes have no effect."""
    best = int(np.argmax(means))
    low = high = best
    while low > 0 and means[low - 1] >= means[best] - EQUAL:
        low -= 1
    while high < len(means) - 1 and means[high + 1] >= means[best] - EQUAL:
        high += 1
    return (low + high) // 2


def _merged(by_strategy: Mapping[Strategy, Answered]) -> ScoredQuestion:
    chunks: dict[str, ScoredChunk] = {}
    lowest = {strategy: _lowest(strategy, by_strategy[strategy].scores) for strategy in by_strategy}
    for strategy in (Strategy.HYBRID, Strategy.VECTOR, Strategy.BM25):
        for chunk in by_strategy[strategy].scores if strategy in by_strategy else ():
            cosine = lowest.get(Strategy.VECTOR, 0.0) if chunk.cosine is None else chunk.cosine
            words = chunk.lexical_score
            if words is None:
                words = lowest.get(Strategy.BM25, 0.0) if strategy is Strategy.VECTOR else 0.0
            chunks.setdefault(chunk.chunk_id, chunk._replace(cosine=cosine, lexical_score=words))
    return ScoredQuestion(next(iter(by_strategy.values())).case, tuple(chunks.values()))


def _lowest(strategy: Strategy, scores: Sequence[ScoredChunk]) -> float:
    """Return the lowest score of a list that was cut off; 0 for a complete list."""
    if len(scores) < TOP_K:
        return 0.0
    last = scores[-1]
    return (last.cosine if strategy is Strategy.VECTOR else last.lexical_score) or 0.0


def _gain(grades: Sequence[int]) -> float:
    return sum(grade / math.log2(place + 2) for place, grade in enumerate(grades[:HIT_DEPTH]))
