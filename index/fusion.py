"""Fusion: the candidates of two arms in one order. Pure functions over arrays.

    rrf        1 / (k + rank), summed over the arms (Cormack, Clarke and Büttcher, SIGIR 2009)
    weighted   alpha · z(BM25) + beta · z(cosine), z being standard deviations from the candidates' mean
    adaptive   as weighted, alpha being what the lexical arm deserves on this question

The lexical arm deserves as much as it is decisive and covers the question. `gap` = (best - tenth) / best of its
scores: where ten chunks match the words of a question equally well, words do not tell which is meant, and
cosine decides; where one stands out, it is likely the one. `coverage` = best / the best possible score: where
no chunk has the rare words of the question, it was asked in other words than it is answered in.
alpha = min(`strength` · coverage · gap², 0.9) and beta = 1 - alpha.

What is normalised is the first `settings.candidates` of each arm: those beyond, which a caller that wants more
results gets, change nothing in the order before them. A candidate that is not among the first by BM25 counts as
the lowest of them, or as no match at all when BM25 found fewer.
Equal scores are ordered by chunk id, so the same corpus and question always give the same list.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import overload

import numpy as np
from numpy.typing import NDArray

from contracts.retrieval import Strategy
from index.settings import QuerySettings

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]
NameOf = Callable[[int], str]
"""The chunk id of a chunk number, for ties."""
SimilarityOf = Callable[[Numbers], Floats]
"""The cosines of chunk numbers to the question."""

_DECISIVE_RANK = 10
_MOST_LEXICAL = 0.9
_NO_DIFFERENCE = 1e-9
_USUAL_COVERAGE = 0.47
"""What it is on average on three public question sets: for engines that do not tell."""


@dataclass(frozen=True, slots=True, eq=False)
class Ranked:
    """What one arm found: chunk numbers and scores, both (n,), best first."""

    numbers: Numbers
    scores: Floats

    @classmethod
    def of(cls, hits: Sequence[tuple[int, float]]) -> Ranked:
        """Of pairs of a number and a score."""
        numbers, scores = zip(*hits, strict=True) if hits else ((), ())
        return cls(np.array(numbers, dtype=np.int64), np.array(scores, dtype=np.float64))


NOTHING_FOUND = Ranked.of(())


@dataclass(frozen=True, slots=True)
class Candidate:
    """A chunk with what each arm said of it. A rank of None: that arm did not find it.

    `similarity` is a cosine, `lexical_score` BM25, `fused_score` what the order is by.
    """

    number: int
    fused_score: float
    similarity: float | None = None
    dense_rank: int | None = None
    lexical_score: float | None = None
    lexical_rank: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """The candidates of both arms, each once; every array is (n,).

    A rank of 0 and a score of NaN: that arm did not find it. A similarity of NaN: there is no vector.
    """

    numbers: Numbers
    similarities: Floats
    dense_ranks: Numbers
    lexical_scores: Floats
    lexical_ranks: Numbers
    lexical: Ranked
    """What BM25 found, best first."""
    best_possible: float | None = None
    """The highest BM25 score that a chunk could have for the question; None where the engine does not tell."""


def pooled(
    dense: Ranked,
    lexical: Ranked,
    similarity_of: SimilarityOf | None,
    best_possible: float | None = None,
) -> Pool:
    """The candidates of both arms. `similarity_of` is None where there is no vector."""
    order = np.argsort(dense.numbers)
    places = np.searchsorted(dense.numbers, lexical.numbers, sorter=order)
    twins = order[np.minimum(places, len(order) - 1)] if len(order) else places
    is_both = dense.numbers[twins] == lexical.numbers if len(order) else np.zeros(len(places), dtype=np.bool_)
    alone = lexical.numbers[~is_both]
    numbers = np.concatenate([dense.numbers, alone])
    lexical_at = np.where(is_both, twins, len(dense.numbers) + np.cumsum(~is_both) - 1)
    lexical_scores = np.full(len(numbers), np.nan)
    lexical_scores[lexical_at] = lexical.scores
    similarities = np.concatenate([dense.scores, np.full(len(alone), np.nan)])
    if similarity_of is not None and len(alone):
        similarities[len(dense.numbers) :] = similarity_of(alone)
    dense_ranks = np.concatenate([np.arange(1, len(dense.numbers) + 1), np.zeros(len(alone), dtype=np.int64)])
    lexical_ranks = np.zeros(len(numbers), dtype=np.int64)
    lexical_ranks[lexical_at] = np.arange(1, len(lexical.numbers) + 1)
    return Pool(numbers, similarities, dense_ranks, lexical_scores, lexical_ranks, lexical, best_possible)


def fused_scores(pool: Pool, strategy: Strategy, settings: QuerySettings) -> Floats:
    """What each candidate of the pool is ordered by, higher is better."""
    match strategy, settings.fusion:
        case Strategy.BM25, _:
            return pool.lexical_scores
        case Strategy.VECTOR, _:
            return pool.similarities
        case _, "rrf":
            return reciprocal_ranks(pool, settings.rrf_k)
        case _, "weighted":
            return weighted_sum(pool, settings.alpha, settings.beta, settings.candidates)
        case _:
            alpha = lexical_weight(pool, settings.lexical_strength)
            return weighted_sum(pool, alpha, 1.0 - alpha, settings.candidates)


def reciprocal_ranks(pool: Pool, k: int) -> Floats:
    """The sum of 1 / (k + rank) over the arms that found it."""
    shares = [np.where(ranks > 0, 1.0 / (k + ranks), 0.0) for ranks in (pool.dense_ranks, pool.lexical_ranks)]
    total: Floats = shares[0] + shares[1]
    return total


def weighted_sum(pool: Pool, alpha: float, beta: float, first: int) -> Floats:
    """`alpha` · z(BM25) + `beta` · z(cosine), normalised over the `first` candidates of each arm."""
    is_first = _among(pool.dense_ranks, first) | _among(pool.lexical_ranks, first)
    total: Floats = alpha * z_scores(_filled(pool, first), is_first) + beta * z_scores(pool.similarities, is_first)
    return total


def lexical_weight(pool: Pool, strength: float) -> float:
    """The weight that the lexical arm deserves on this question."""
    scores = pool.lexical.scores
    if not len(scores) or scores[0] <= 0:
        return 0.0
    best = float(scores[0])
    gap = 1.0 - (float(scores[_DECISIVE_RANK - 1]) / best if len(scores) >= _DECISIVE_RANK else 0.0)
    coverage = min(1.0, best / pool.best_possible) if pool.best_possible else _USUAL_COVERAGE
    return min(strength * coverage * gap * gap, _MOST_LEXICAL)


def z_scores(scores: Floats, is_reference: NDArray[np.bool_]) -> Floats:
    """Each score in standard deviations from the mean of the reference; all zero when those do not differ."""
    reference = scores[is_reference]
    if not len(reference):
        return np.zeros(len(scores))
    away = scores - np.add.reduce(reference) / len(reference)
    squares = away[is_reference]
    deviation = math.sqrt(float(squares @ squares) / len(reference))
    return away / deviation if deviation > _NO_DIFFERENCE else np.zeros(len(scores))


class Candidates(Sequence[Candidate]):
    """The pool, best first; each candidate is put together when it is looked at."""

    def __init__(self, pool: Pool, fused: Floats, name_of: NameOf) -> None:
        self._pool = pool
        self._fused = fused
        self._order = _by_score(pool.numbers, fused, name_of)

    def __len__(self) -> int:
        return len(self._order)

    @overload
    def __getitem__(self, place: int) -> Candidate: ...
    @overload
    def __getitem__(self, place: slice) -> list[Candidate]: ...
    def __getitem__(self, place: int | slice) -> Candidate | list[Candidate]:
        if isinstance(place, slice):
            return [self._at(position) for position in self._order[place]]
        return self._at(self._order[place])

    def _at(self, position: int) -> Candidate:
        pool = self._pool
        is_lexical, is_dense = pool.lexical_ranks[position] > 0, pool.dense_ranks[position] > 0
        similarity = float(pool.similarities[position])
        return Candidate(
            number=int(pool.numbers[position]),
            fused_score=float(self._fused[position]),
            similarity=None if similarity != similarity else similarity,
            dense_rank=int(pool.dense_ranks[position]) if is_dense else None,
            lexical_score=float(pool.lexical_scores[position]) if is_lexical else None,
            lexical_rank=int(pool.lexical_ranks[position]) if is_lexical else None,
        )


def ordered(ranked: Ranked, name_of: NameOf) -> Ranked:
    """Equal scores by name."""
    if not _has_ties(ranked.scores):
        return ranked
    order = _by_score(ranked.numbers, ranked.scores, name_of)
    return Ranked(ranked.numbers[order], ranked.scores[order])


def _by_score(numbers: Numbers, scores: Floats, name_of: NameOf) -> list[int]:
    """Positions, the highest score first. Names are looked up only among equals."""
    best_first = np.argsort(-scores, kind="stable")
    order: list[int] = best_first.tolist()
    if not _has_ties(scores[best_first]):
        return order
    groups = [list(run) for _, run in groupby(order, key=lambda position: float(scores[position]))]
    return [
        position
        for group in groups
        for position in (sorted(group, key=lambda one: name_of(int(numbers[one]))) if len(group) > 1 else group)
    ]


def _has_ties(best_first: Floats) -> bool:
    return bool((best_first[1:] == best_first[:-1]).any())


def _among(ranks: Numbers, first: int) -> NDArray[np.bool_]:
    return (ranks > 0) & (ranks <= first)


def _filled(pool: Pool, first: int) -> Floats:
    """BM25 scores of the `first`, and for others the lowest of them; 0 where there are no more than those."""
    found = pool.lexical.scores
    floor = float(found[first - 1]) if len(found) >= first else 0.0
    return np.where(_among(pool.lexical_ranks, first), pool.lexical_scores, floor)
