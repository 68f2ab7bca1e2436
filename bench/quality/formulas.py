"""Other ways to make one order of the same candidates, and how the weight of the sum holds on a collection left out.

Everything is computed from the scores and ranks that the answers tell, so all ways order the same chunks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from bench.quality.candidates import ScoredChunk, ScoredQuestion, compute_ndcg, weighted_sum
from sluice.evaluation.retrieval.fit_model import ndcg

RRF_K = 60
Z_SCORE_WEIGHT = 0.3
"""The weight of BM25 that did best among .2, .3 and .4 on these six."""
FIRST = 50
"""Of each retriever: what is normalised over, and what ranks count in."""
WEIGHTS = (0.006, 0.008, 0.010, 0.011, 0.012, 0.013, 0.014, 0.015, 0.016, 0.018, 0.020, 0.024)

Order = Callable[[Sequence[ScoredChunk]], Sequence[float]]
"""The score of each chunk of a question."""


class Formulas(NamedTuple):
    """nDCG@10 of one collection: by reciprocal ranks, by z-scores, and by the sum with each of `WEIGHTS`."""

    reciprocal_ranks: float
    z_scores: float
    by_weight: Mapping[float, float]


class Fold(NamedTuple):
    """A collection left out: the weight that does best on the others' mean, and the nDCG@10 that it has here."""

    name: str
    weight: float
    ndcg: float


def measure_formulas(questions: Sequence[ScoredQuestion]) -> Formulas:
    """Order the candidates of every question anew."""
    return Formulas(
        reciprocal_ranks=_mean(questions, reciprocal_ranks),
        z_scores=_mean(questions, z_scores),
        by_weight={
            weight: float(np.mean([compute_ndcg(one, weighted_sum(weight)) for one in questions])) for weight in WEIGHTS
        },
    )


def leave_one_out(by_collection: Mapping[str, Mapping[float, float]]) -> list[Fold]:
    """For each collection the weight chosen on all others. Needs at least two."""
    folds = []
    for name, here in by_collection.items():
        others = [curve for other, curve in by_collection.items() if other != name]
        weight = max(here, key=lambda one: sum(curve[one] for curve in others))
        folds.append(Fold(name, weight, here[weight]))
    return folds


def reciprocal_ranks(chunks: Sequence[ScoredChunk]) -> list[float]:
    """Reciprocal rank fusion of each retriever's first (Cormack, Clarke and Büttcher, SIGIR 2009)."""
    return [sum(1 / (RRF_K + rank) for rank in _first_ranks(chunk)) for chunk in chunks]


def z_scores(chunks: Sequence[ScoredChunk]) -> list[float]:
    """Both scores in standard deviations from their mean over each retriever's first, added with fixed weights."""
    cosines, words = ([score or 0.0 for score in scores] for scores in _columns(chunks))
    reference = [bool(_first_ranks(chunk)) for chunk in chunks]
    return [
        Z_SCORE_WEIGHT * word + (1 - Z_SCORE_WEIGHT) * cosine
        for word, cosine in zip(_standardised(words, reference), _standardised(cosines, reference), strict=True)
    ]


def _columns(chunks: Sequence[ScoredChunk]) -> tuple[list[float | None], list[float | None]]:
    return [chunk.cosine for chunk in chunks], [chunk.lexical_score for chunk in chunks]


def _first_ranks(chunk: ScoredChunk) -> list[int]:
    return [rank for rank in (chunk.dense_rank, chunk.lexical_rank) if rank is not None and rank <= FIRST]


def _standardised(scores: Sequence[float], reference: Sequence[bool]) -> list[float]:
    chosen = [score for score, is_in in zip(scores, reference, strict=True) if is_in] or [0.0]
    mean = math.fsum(chosen) / len(chosen)
    deviation = math.dist(chosen, [mean] * len(chosen)) / math.sqrt(len(chosen))
    return [(score - mean) / deviation if deviation > 1e-9 else 0.0 for score in scores]


def _mean(questions: Sequence[ScoredQuestion], order: Order) -> float:
    values = []
    for one in questions:
        scores = order(one.chunks)
        ranked = sorted(range(len(scores)), key=scores.__getitem__, reverse=True)
        values.append(ndcg(one.case.relevant, [one.chunks[place].name for place in ranked]))
    return float(np.mean(values))
