"""Fusion: the candidates of two arms in one order. Pure functions over lists.

    rrf        1 / (k + rank), summed over the arms (Cormack, Clarke and Büttcher, SIGIR 2009)
    weighted   alpha · z(BM25) + beta · z(cosine), z being standard deviations from the candidates' mean
    adaptive   as weighted, alpha being what the lexical arm deserves on this question

The lexical arm deserves as much as it is decisive and covers the question. `gap` = (best - tenth) / best of its
scores: where ten chunks match the words of a question equally well, words do not tell which is meant, and
cosine decides; where one stands out, it is likely the one. `coverage` = best / the best possible score: where
no chunk has the rare words of the question, it was asked in other words than it is answered in.
alpha = min(`strength` · coverage · gap², 0.9) and beta = 1 - alpha.

What is normalised is the first `CANDIDATES` of each arm: those beyond, which a caller that wants more
results gets, change nothing in the order before them. A candidate that is not among the first by BM25 counts as
the lowest of them, or as no match at all when BM25 found fewer.
Equal scores are ordered by chunk id, so the same corpus and question always give the same list.

There are about a hundred candidates, for which lists are faster than arrays: a call into numpy costs as much as a
pass over fifty of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import overload

from contracts.retrieval import Strategy
from index.generations.ranked import Floats, Numbers, Ranked
from index.settings import QuerySettings

NameOf = Callable[[int], str]
"""The chunk id of a chunk number, for ties."""
SimilarityOf = Callable[[Numbers], Floats]
"""The cosines of chunk numbers to the question."""

CANDIDATES = 50
"""Candidates that each arm hands to fusion."""
LEXICAL_STRENGTH = 2.65
"""How much the adaptive mix trusts the lexical arm. 2.6-3.0 did best on one half of the questions of three public sets,
and held on the other half."""
RRF_K = 60
"""The constant of reciprocal rank fusion, as in its paper (Cormack et al., SIGIR 2009)."""
_DECISIVE_RANK = 10
_MOST_LEXICAL = 0.9
_NO_DIFFERENCE = 1e-9
_USUAL_COVERAGE = 0.47
"""What it is on average on three public question sets: for engines that do not tell."""
_NOT_FOUND = math.nan


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
    """The candidates of both arms, each once; every list has a value for each.

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
    both = len(dense.numbers)
    place_of = dict(zip(dense.numbers, range(both), strict=True))
    alone = [number for number in lexical.numbers if number not in place_of]
    place_of.update(zip(alone, range(both, both + len(alone)), strict=True))
    ranks, scores = [0] * len(place_of), [_NOT_FOUND] * len(place_of)
    for rank, (number, score) in enumerate(zip(lexical.numbers, lexical.scores, strict=True), start=1):
        place = place_of[number]
        ranks[place], scores[place] = rank, score
    similarities = similarity_of(alone) if similarity_of is not None and alone else [_NOT_FOUND] * len(alone)
    return Pool(
        numbers=list(place_of),
        similarities=dense.scores + similarities,
        dense_ranks=[*range(1, both + 1), *[0] * len(alone)],
        lexical_scores=scores,
        lexical_ranks=ranks,
        lexical=lexical,
        best_possible=best_possible,
    )


def fused_scores(pool: Pool, strategy: Strategy, settings: QuerySettings) -> Floats:
    """What each candidate of the pool is ordered by, higher is better."""
    match strategy, settings.fusion:
        case Strategy.BM25, _:
            return pool.lexical_scores
        case Strategy.VECTOR, _:
            return pool.similarities
        case _, "rrf":
            return reciprocal_ranks(pool, RRF_K)
        case _, "weighted":
            return weighted_sum(pool, settings.alpha, 1.0 - settings.alpha, CANDIDATES)
        case _:
            alpha = lexical_weight(pool, LEXICAL_STRENGTH)
            return weighted_sum(pool, alpha, 1.0 - alpha, CANDIDATES)


def reciprocal_ranks(pool: Pool, k: int) -> Floats:
    """The sum of 1 / (k + rank) over the arms that found it."""
    return [
        (1.0 / (k + dense) if dense else 0.0) + (1.0 / (k + lexical) if lexical else 0.0)
        for dense, lexical in zip(pool.dense_ranks, pool.lexical_ranks, strict=True)
    ]


def weighted_sum(pool: Pool, alpha: float, beta: float, first: int) -> Floats:
    """`alpha` · z(BM25) + `beta` · z(cosine), normalised over the `first` candidates of each arm."""
    scores, cosines = _filled(pool, first), pool.similarities
    reference = _first_of_each(pool, first)
    mean_score, per_score = standard([scores[place] for place in reference])
    mean_cosine, per_cosine = standard([cosines[place] for place in reference])
    alpha, beta = alpha * per_score, beta * per_cosine
    return [
        alpha * (score - mean_score) + beta * (cosine - mean_cosine)
        for score, cosine in zip(scores, cosines, strict=True)
    ]


def lexical_weight(pool: Pool, strength: float) -> float:
    """The weight that the lexical arm deserves on this question."""
    scores = pool.lexical.scores
    if not scores or scores[0] <= 0:
        return 0.0
    best = scores[0]
    gap = 1.0 - (scores[_DECISIVE_RANK - 1] / best if len(scores) >= _DECISIVE_RANK else 0.0)
    coverage = min(1.0, best / pool.best_possible) if pool.best_possible else _USUAL_COVERAGE
    return min(strength * coverage * gap * gap, _MOST_LEXICAL)


def standard(scores: Floats) -> tuple[float, float]:
    """The mean, and how many standard deviations a unit is: none when the scores do not differ."""
    if not scores:
        return 0.0, 0.0
    mean = sum(scores) / len(scores)
    deviation = math.dist(scores, [mean] * len(scores)) / math.sqrt(len(scores))
    return mean, 1.0 / deviation if deviation > _NO_DIFFERENCE else 0.0


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
        similarity, lexical_rank = pool.similarities[position], pool.lexical_ranks[position]
        return Candidate(
            number=pool.numbers[position],
            fused_score=self._fused[position],
            similarity=None if similarity != similarity else similarity,
            dense_rank=pool.dense_ranks[position] or None,
            lexical_score=pool.lexical_scores[position] if lexical_rank else None,
            lexical_rank=lexical_rank or None,
        )


def ordered(ranked: Ranked, name_of: NameOf) -> Ranked:
    """Equal scores by name."""
    if not _has_ties(ranked.scores):
        return ranked
    order = _untied(range(len(ranked.scores)), ranked.numbers, ranked.scores, name_of)
    return Ranked([ranked.numbers[place] for place in order], [ranked.scores[place] for place in order])


def _by_score(numbers: Numbers, scores: Floats, name_of: NameOf) -> list[int]:
    """Positions, the highest score first. Names are looked up only among equals."""
    order = sorted(range(len(scores)), key=scores.__getitem__, reverse=True)
    return _untied(order, numbers, scores, name_of) if _has_ties(scores) else order


def _untied(order: Sequence[int], numbers: Numbers, scores: Floats, name_of: NameOf) -> list[int]:
    """Positions in the order of their scores, equals in that of their names."""
    groups = [list(run) for _, run in groupby(order, key=scores.__getitem__)]
    return [
        place
        for group in groups
        for place in (sorted(group, key=lambda one: name_of(numbers[one])) if len(group) > 1 else group)
    ]


def _first_of_each(pool: Pool, first: int) -> Sequence[int]:
    """The positions of the `first` candidates of each arm."""
    if max(len(pool.lexical.numbers), *pool.dense_ranks, 0) <= first:
        return range(len(pool.numbers))
    ranks = zip(pool.dense_ranks, pool.lexical_ranks, strict=True)
    return [place for place, (dense, lexical) in enumerate(ranks) if 0 < dense <= first or 0 < lexical <= first]


def _has_ties(scores: Floats) -> bool:
    return len(set(scores)) < len(scores)


def _filled(pool: Pool, first: int) -> Floats:
    """BM25 scores of the `first`, and for others the lowest of them; 0 where there are no more than those."""
    found = pool.lexical.scores
    floor = found[first - 1] if len(found) >= first else 0.0
    return [
        score if 0 < rank <= first else floor
        for score, rank in zip(pool.lexical_scores, pool.lexical_ranks, strict=True)
    ]
