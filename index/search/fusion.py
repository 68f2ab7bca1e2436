"""Fusion: the results of two retrievers in one order. Pure functions over lists.

    rrf        1 / (k + rank), summed over the retrievers (Cormack, Clarke and Büttcher, SIGIR 2009)
    weighted   alpha · z(BM25) + beta · z(cosine), z being standard deviations from the candidates' mean
    adaptive   as weighted, with an alpha for each question

`adaptive` weighs BM25 by how decisive it is and how well it covers the question: alpha = min(`strength` · coverage ·
gap², 0.9), beta = 1 - alpha.

gap = (best - tenth) / best of its scores. Where ten chunks match the words of a question equally well, the words do not
say which one is meant, and cosine decides; where one chunk is far ahead, it is probably the right one.
coverage = best / the best possible score. Where no chunk has the rare words of the question, question and answer use
different words.

Scores are normalised over the first `CANDIDATES` of each retriever: those beyond, which a caller may ask for, do not
change the order before them. A candidate that is not among the first by BM25 gets the lowest of their scores, or 0 when
BM25 found fewer. Equal scores are ordered by chunk id, so the same corpus and question always give the same list.

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
"""Candidates that each retriever gives to fusion."""
LEXICAL_STRENGTH = 2.65
"""How much the adaptive mix weighs BM25. 2.6-3.0 did best on one half of the questions of three public sets,
and held on the other half."""
RRF_K = 60
"""The constant of reciprocal rank fusion, as in its paper (Cormack et al., SIGIR 2009)."""
_DECISIVE_RANK = 10
_MOST_LEXICAL = 0.9
_NO_DIFFERENCE = 1e-9
_USUAL_COVERAGE = 0.47
"""Its average on three public question sets: for engines that do not report it."""
_NOT_FOUND = math.nan


@dataclass(frozen=True, slots=True)
class Candidate:
    """A chunk with its ranks and scores. A rank of None: that retriever did not find it.

    `similarity` is a cosine, `lexical_score` BM25, `fused_score` the score that orders the results.
    """

    number: int
    fused_score: float
    similarity: float | None = None
    dense_rank: int | None = None
    lexical_score: float | None = None
    lexical_rank: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class FusionInput:
    """The candidates of both retrievers, each once, as parallel lists of one value for each candidate.

    A rank of 0 and a score of NaN: that retriever did not find it. A similarity of NaN: there is no vector.
    """

    numbers: Numbers
    similarities: Floats
    dense_ranks: Numbers
    lexical_scores: Floats
    lexical_ranks: Numbers
    lexical: Ranked
    """What BM25 found, best first."""
    best_possible: float | None = None
    """The highest BM25 score that a chunk could have for the question; None where the engine does not report it."""


def combine_results(
    dense: Ranked,
    lexical: Ranked,
    similarity_of: SimilarityOf | None,
    best_possible: float | None = None,
) -> FusionInput:
    """Combine the results of both retrievers. `similarity_of` is None where the question has no vector."""
    both = len(dense.numbers)
    place_of = dict(zip(dense.numbers, range(both), strict=True))
    alone = [number for number in lexical.numbers if number not in place_of]
    place_of.update(zip(alone, range(both, both + len(alone)), strict=True))
    ranks, scores = [0] * len(place_of), [_NOT_FOUND] * len(place_of)
    for rank, (number, score) in enumerate(zip(lexical.numbers, lexical.scores, strict=True), start=1):
        place = place_of[number]
        ranks[place], scores[place] = rank, score
    similarities = similarity_of(alone) if similarity_of is not None and alone else [_NOT_FOUND] * len(alone)
    return FusionInput(
        numbers=list(place_of),
        similarities=dense.scores + similarities,
        dense_ranks=[*range(1, both + 1), *[0] * len(alone)],
        lexical_scores=scores,
        lexical_ranks=ranks,
        lexical=lexical,
        best_possible=best_possible,
    )


def fuse_scores(results: FusionInput, strategy: Strategy, settings: QuerySettings) -> Floats:
    """Compute the score that orders each candidate; higher is better."""
    match strategy, settings.fusion:
        case Strategy.BM25, _:
            return results.lexical_scores
        case Strategy.VECTOR, _:
            return results.similarities
        case _, "rrf":
            return reciprocal_ranks(results, RRF_K)
        case _, "weighted":
            return weighted_sum(results, settings.alpha, 1.0 - settings.alpha, CANDIDATES)
        case _:
            alpha = lexical_weight(results, LEXICAL_STRENGTH)
            return weighted_sum(results, alpha, 1.0 - alpha, CANDIDATES)


def reciprocal_ranks(results: FusionInput, k: int) -> Floats:
    """The sum of 1 / (k + rank) over the retrievers that found the candidate."""
    return [
        (1.0 / (k + dense) if dense else 0.0) + (1.0 / (k + lexical) if lexical else 0.0)
        for dense, lexical in zip(results.dense_ranks, results.lexical_ranks, strict=True)
    ]


def weighted_sum(results: FusionInput, alpha: float, beta: float, first: int) -> Floats:
    """`alpha` · z(BM25) + `beta` · z(cosine), normalised over the `first` candidates of each retriever."""
    scores, cosines = _filled(results, first), results.similarities
    reference = _first_of_each(results, first)
    mean_score, per_score = standardise([scores[place] for place in reference])
    mean_cosine, per_cosine = standardise([cosines[place] for place in reference])
    alpha, beta = alpha * per_score, beta * per_cosine
    return [
        alpha * (score - mean_score) + beta * (cosine - mean_cosine)
        for score, cosine in zip(scores, cosines, strict=True)
    ]


def lexical_weight(results: FusionInput, strength: float) -> float:
    """The weight of BM25 on this question: `alpha` of the module's docstring."""
    scores = results.lexical.scores
    if not scores or scores[0] <= 0:
        return 0.0
    best = scores[0]
    gap = 1.0 - (scores[_DECISIVE_RANK - 1] / best if len(scores) >= _DECISIVE_RANK else 0.0)
    coverage = min(1.0, best / results.best_possible) if results.best_possible else _USUAL_COVERAGE
    return min(strength * coverage * gap * gap, _MOST_LEXICAL)


def standardise(scores: Floats) -> tuple[float, float]:
    """The mean, and the reciprocal of the standard deviation: 0 where the scores do not differ."""
    if not scores:
        return 0.0, 0.0
    mean = sum(scores) / len(scores)
    deviation = math.dist(scores, [mean] * len(scores)) / math.sqrt(len(scores))
    return mean, 1.0 / deviation if deviation > _NO_DIFFERENCE else 0.0


class RankedCandidates(Sequence[Candidate]):
    """The candidates, best first; each is made when it is accessed."""

    def __init__(self, results: FusionInput, fused: Floats, name_of: NameOf) -> None:
        self._results = results
        self._fused = fused
        self._order = _by_score(results.numbers, fused, name_of)

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
        results = self._results
        similarity, lexical_rank = results.similarities[position], results.lexical_ranks[position]
        return Candidate(
            number=results.numbers[position],
            fused_score=self._fused[position],
            similarity=None if similarity != similarity else similarity,
            dense_rank=results.dense_ranks[position] or None,
            lexical_score=results.lexical_scores[position] if lexical_rank else None,
            lexical_rank=lexical_rank or None,
        )


def break_ties(ranked: Ranked, name_of: NameOf) -> Ranked:
    """Order equal scores by chunk id."""
    if not _has_ties(ranked.scores):
        return ranked
    order = _untied(range(len(ranked.scores)), ranked.numbers, ranked.scores, name_of)
    return Ranked([ranked.numbers[place] for place in order], [ranked.scores[place] for place in order])


def _by_score(numbers: Numbers, scores: Floats, name_of: NameOf) -> list[int]:
    """Positions, the highest score first. Chunk ids are looked up only among equal scores."""
    order = sorted(range(len(scores)), key=scores.__getitem__, reverse=True)
    return _untied(order, numbers, scores, name_of) if _has_ties(scores) else order


def _untied(order: Sequence[int], numbers: Numbers, scores: Floats, name_of: NameOf) -> list[int]:
    """Positions in the order of their scores, equal scores in that of their chunk ids."""
    groups = [list(run) for _, run in groupby(order, key=scores.__getitem__)]
    return [
        place
        for group in groups
        for place in (sorted(group, key=lambda one: name_of(numbers[one])) if len(group) > 1 else group)
    ]


def _first_of_each(results: FusionInput, first: int) -> Sequence[int]:
    """The positions of the `first` candidates of each retriever."""
    if max(len(results.lexical.numbers), *results.dense_ranks, 0) <= first:
        return range(len(results.numbers))
    ranks = zip(results.dense_ranks, results.lexical_ranks, strict=True)
    return [place for place, (dense, lexical) in enumerate(ranks) if 0 < dense <= first or 0 < lexical <= first]


def _has_ties(scores: Floats) -> bool:
    return len(set(scores)) < len(scores)


def _filled(results: FusionInput, first: int) -> Floats:
    """BM25 scores of the `first`; for the others the lowest of these, or 0 where BM25 found fewer."""
    found = results.lexical.scores
    floor = found[first - 1] if len(found) >= first else 0.0
    return [
        score if 0 < rank <= first else floor
        for score, rank in zip(results.lexical_scores, results.lexical_ranks, strict=True)
    ]
