"""How much of a figure, and of a difference of two, may be chance. The seed is fixed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

SEED = 20_070_611
RESAMPLES = 2_000
"""Of the bootstrap: the ends of a 95 % interval then have 50 resamples beyond each of them."""
PERMUTATIONS = 10_000
"""Of the randomisation test: the smallest p it can tell is 1 in 10,001."""
BATCH = 250
"""Resamples computed at a time, which bounds memory at a few MB per thousand questions."""


def bootstrap_interval(values: Floats, confidence: float = 0.95) -> tuple[Floats, Floats]:
    """Lower and upper ends of the interval of each column's mean, shapes (measures,), of values (questions, measures).

    The percentile bootstrap over questions (Efron and Tibshirani, An Introduction to the Bootstrap, 1993, ch. 13).
    """
    generator = np.random.default_rng(SEED)
    count = len(values)
    means = np.empty((RESAMPLES, values.shape[1]))
    for start in range(0, RESAMPLES, BATCH):
        drawn = generator.integers(0, count, size=(BATCH, count), dtype=np.int32)
        times = np.stack([np.bincount(row, minlength=count) for row in drawn])
        means[start : start + BATCH] = times @ values / count
    tail = (1 - confidence) / 2
    low, high = np.quantile(means, (tail, 1 - tail), axis=0)
    return low, high


def randomisation_p(differences: Floats) -> Floats:
    """The two-sided p of each column's mean difference, shape (measures,), of paired differences (questions, measures).

    Fisher's paired randomisation test, found the most fitting of five for retrieval by Smucker, Allan and Carterette
    (A Comparison of Statistical Significance Tests for Information Retrieval Evaluation, CIKM 2007): if the two
    systems were alike, the sign of each question's difference would be a coin's throw. The observed order counts as
    one of the permutations, so that p is never 0 (Phipson and Smyth, 2010).
    """
    differing = differences[np.any(differences != 0, axis=1)]
    observed = np.abs(differing.sum(axis=0))
    generator = np.random.default_rng(SEED)
    as_extreme = np.zeros(differences.shape[1])
    for _ in range(0, PERMUTATIONS, BATCH):
        signs = 2.0 * generator.integers(0, 2, size=(BATCH, len(differing)), dtype=np.int8) - 1.0
        # Sums of the same numbers in another order differ in their last bits.
        as_extreme += np.count_nonzero(np.abs(signs @ differing) >= observed - 1e-9, axis=0)
    return (as_extreme + 1) / (PERMUTATIONS + 1)
