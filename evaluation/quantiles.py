"""Quantiles of a stream in bounded memory: a histogram whose buckets grow by a constant factor.

As in DDSketch (Masson, Rim and Lee, VLDB 2019): a quantile told differs from the true one by at most 1 %. Two sketches
merge without loss, and the order of what was added does not matter.
"""

from __future__ import annotations

import math
from collections import Counter

ACCURACY = 0.01
_GROWTH = (1 + ACCURACY) / (1 - ACCURACY)
_LOG_GROWTH = math.log(_GROWTH)
SMALLEST, LARGEST = 1e-3, 1e10
"""What lies beyond is counted as if it were these: some 1,500 buckets at most."""


class Quantiles:
    """Counts of positive numbers by their size."""

    __slots__ = ("_buckets", "count")

    def __init__(self) -> None:
        self._buckets: Counter[int] = Counter()
        self.count = 0

    def add(self, value: float) -> None:
        """Count one number."""
        self._buckets[math.ceil(math.log(min(max(value, SMALLEST), LARGEST)) / _LOG_GROWTH)] += 1
        self.count += 1

    def merge(self, other: Quantiles) -> None:
        """Count what the other has counted."""
        self._buckets.update(other._buckets)
        self.count += other.count

    @property
    def size(self) -> int:
        """How many buckets are kept."""
        return len(self._buckets)

    def quantile(self, share: float) -> float | None:
        """The number that `share` of all are not above; None where there are none."""
        if not self.count:
            return None
        wanted, seen = max(1, math.ceil(share * self.count)), 0
        for bucket in sorted(self._buckets):
            seen += self._buckets[bucket]
            if seen >= wanted:
                break
        return 2 * _GROWTH**bucket / (_GROWTH + 1)
