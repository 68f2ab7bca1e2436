"""Fusion: two ranked lists of candidates become one. Pure functions.

Ranks are 1-based. Equal scores are ordered by chunk id, so the same corpus and question always give the
same list.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

Scored = tuple[int, float]
"""A chunk number and its score in one arm, higher is better."""

NameOf = Callable[[int], str]
"""The chunk id of a chunk number, for ties."""


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


def in_order(scored: Sequence[Scored], name_of: NameOf) -> list[Scored]:
    """Best first; names are looked up only among equals."""
    counts: dict[float, int] = {}
    for _, score in scored:
        counts[score] = counts.get(score, 0) + 1
    return sorted(scored, key=lambda hit: (-hit[1], name_of(hit[0]) if counts[hit[1]] > 1 else ""))


def reciprocal_ranks(dense: Sequence[Scored], lexical: Sequence[Scored], k: int) -> dict[int, float]:
    """Sum of 1 / (k + rank) over the arms (Cormack, Clarke and Büttcher, SIGIR 2009)."""
    fused: dict[int, float] = {}
    for arm in (dense, lexical):
        for rank, (number, _) in enumerate(arm, start=1):
            fused[number] = fused.get(number, 0.0) + 1.0 / (k + rank)
    return fused


def weighted_sum(
    similarities: Mapping[int, float], lexical: Sequence[Scored], alpha: float, beta: float
) -> dict[int, float]:
    """`alpha` · z(BM25) + `beta` · z(cosine), each normalised over this question's candidates.

    `similarities` has every candidate of either arm. One that BM25 did not find counts as its lowest.
    """
    dense_scores = z_scores(similarities)
    lexical_scores = z_scores(dict(lexical))
    floor = min(lexical_scores.values(), default=0.0)
    return {number: alpha * lexical_scores.get(number, floor) + beta * score for number, score in dense_scores.items()}


def z_scores(scores: Mapping[int, float]) -> dict[int, float]:
    """Each score in standard deviations from the mean; all zero when they do not differ."""
    if not scores:
        return {}
    mean = statistics.fmean(scores.values())
    deviation = statistics.pstdev(scores.values(), mu=mean)
    return {number: (score - mean) / deviation if deviation > 0 else 0.0 for number, score in scores.items()}


def candidates(
    fused: Mapping[int, float],
    dense: Sequence[Scored],
    lexical: Sequence[Scored],
    similarities: Mapping[int, float],
    name_of: NameOf,
) -> list[Candidate]:
    """Everything known of each candidate, best first."""
    dense_ranks = {number: rank for rank, (number, _) in enumerate(dense, start=1)}
    lexical_ranks = {number: rank for rank, (number, _) in enumerate(lexical, start=1)}
    lexical_scores = dict(lexical)
    return [
        Candidate(
            number,
            score,
            similarities.get(number),
            dense_ranks.get(number),
            lexical_scores.get(number),
            lexical_ranks.get(number),
        )
        for number, score in in_order(list(fused.items()), name_of)
    ]
