"""How well a gate tells questions that the corpus answers from those that it does not: weighted, with intervals.

A gate's mistake has two sides, so the measures are of the class "not answered": going outside is the positive answer.
Intervals are of a bootstrap over whole questions, since the cases of one question are alike (Efron and Tibshirani,
1993, chapter 8).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
DRAWS = 1_000
BINS = 10


class Interval(NamedTuple):
    """A figure, and where 95 of 100 draws lie."""

    value: float
    low: float
    high: float


def f1(is_missing: Flags, goes: Flags, weights: Floats) -> float:
    """Harmonic mean of precision and recall of going outside, by weight; 0 where neither asks for it."""
    hits = weights[is_missing & goes].sum()
    return float(2 * hits / max(1e-12, weights[goes].sum() + weights[is_missing].sum()))


def area(is_missing: Flags, scores: Floats, weights: Floats) -> float:
    """Chance that a missing answer scores above one that is there, by weight; a tie counts half."""
    _, place = np.unique(scores, return_inverse=True)
    missing, there = np.bincount(place, weights * is_missing), np.bincount(place, weights * ~is_missing)
    below = np.cumsum(there) - there
    return float((missing * (below + there / 2)).sum() / max(1e-12, missing.sum() * there.sum()))


def calibration_error(probabilities: Floats, happened: Flags, weights: Floats, bins: int = BINS) -> float:
    """Expected calibration error: the mean distance, over bins of equal weight, from what was said to what happened."""
    order = np.argsort(probabilities, kind="stable")
    middles = np.cumsum(weights[order]) - weights[order] / 2
    number = np.minimum((middles / weights.sum() * bins).astype(int), bins - 1)
    gaps = np.bincount(number, (weights * (probabilities - happened))[order], bins)
    return float(np.abs(gaps).sum() / weights.sum())


class Resamples:
    """Draws of whole questions with replacement, the same for everything that is measured on the same cases."""

    def __init__(self, questions: NDArray[np.int64], draws: int = DRAWS, seed: int = 0) -> None:
        """`questions` has a number for each case; cases of one number are drawn together."""
        _, self._question = np.unique(questions, return_inverse=True)
        count, random = int(self._question.max()) + 1, np.random.default_rng(seed)
        self._counts = [np.bincount(random.integers(0, count, count), minlength=count) for _ in range(draws)]

    def f1_difference(self, is_missing: Flags, one: Flags, other: Flags, weights: Floats) -> Interval:
        """F1 of `one` less that of `other`, paired: each draw measures both on the same questions."""
        values = []
        for drawn in self._weights(weights):
            values.append(f1(is_missing, one, drawn) - f1(is_missing, other, drawn))
        return _interval(f1(is_missing, one, weights) - f1(is_missing, other, weights), values)

    def calibration_error(self, probabilities: Floats, happened: Flags, weights: Floats) -> Interval:
        """The calibration error and its spread over the draws, which lies above it: a draw is noise on noise."""
        values = [calibration_error(probabilities, happened, drawn) for drawn in self._weights(weights)]
        return _interval(calibration_error(probabilities, happened, weights), values)

    def perfect_calibration_error(self, probabilities: Floats, weights: Floats, seed: int = 1) -> float:
        """What probabilities that are exactly right would have on so many cases, on average."""
        random = np.random.default_rng(seed)
        draws = (random.random(len(probabilities)) < probabilities for _ in self._counts)
        return float(np.mean([calibration_error(probabilities, drawn, weights) for drawn in draws]))

    def _weights(self, weights: Floats) -> list[Floats]:
        return [weights * counts[self._question] for counts in self._counts]


def _interval(value: float, drawn: list[float]) -> Interval:
    low, high = np.percentile(drawn, [2.5, 97.5])
    return Interval(value, float(low), float(high))
