"""Intervals of shares, means and ratios: how far a figure of some runs may be from that of all."""

from __future__ import annotations

import math
from statistics import NormalDist

from sluice.contracts.base import Value

Z_95 = NormalDist().inv_cdf(0.975)
"""Of a two-sided interval of 95 %."""


class Interval(Value):
    """An estimate of `count` observations and the ends of its interval."""

    estimate: float
    low: float
    high: float
    count: int


def wilson_interval(total: float, count: int) -> Interval | None:
    """The interval of the mean of `count` values in [0, 1] that sum up to `total`; None without values.

    Wilson's score interval (Probable inference, JASA 22, 1927). It is made for values that are 0 or 1; those between
    vary less, so for them it is wider than it needs to be.
    """
    if count <= 0:
        return None
    share = min(max(total / count, 0.0), 1.0)
    squared = Z_95 * Z_95 / count
    middle = (share + squared / 2) / (1 + squared)
    half = Z_95 * math.sqrt(share * (1 - share) / count + squared / (4 * count)) / (1 + squared)
    return Interval(estimate=share, low=max(0.0, middle - half), high=min(1.0, middle + half), count=count)


def mean_interval(total: float, squares: float, count: int) -> Interval | None:
    """The interval of the mean of `count` values, of their sum and the sum of their squares; None below two values.

    By the central limit theorem: too narrow below some 30 values.
    """
    if count < 2:
        return None
    mean = total / count
    half = Z_95 * math.sqrt(max(0.0, squares - total * mean) / (count - 1) / count)
    return Interval(estimate=mean, low=mean - half, high=mean + half, count=count)


def ratio_interval(
    above: float, above_squares: float, below: float, below_squares: float, products: float, count: int
) -> Interval | None:
    """The interval of a ratio of two sums over the same `count` observations (x, y): Σx / Σy.

    The arguments are Σx, Σx², Σy, Σy², Σxy. By the delta method (Cochran, Sampling Techniques, 1977, ch. 6): with
    r = Σx / Σy its variance is Σ(x - r·y)² / (count - 1) · count / (Σy)². None where Σy is 0 or count below 2.
    """
    if count < 2 or below <= 0:
        return None
    ratio = above / below
    residuals = max(0.0, above_squares - 2 * ratio * products + ratio * ratio * below_squares)
    half = Z_95 * math.sqrt(residuals / (count - 1) * count) / below
    return Interval(estimate=ratio, low=max(0.0, ratio - half), high=ratio + half, count=count)
