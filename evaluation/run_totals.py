"""Sums over runs, in bounded memory, and their figures: means with intervals, quantiles, cost per success.

Quantiles are of a histogram with buckets that grow by a constant factor, as in DDSketch (Masson, Rim and Lee, VLDB
2019): they differ from the true ones by at most 1 %. Totals merge without loss; the order of runs does not matter.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, fields
from statistics import NormalDist
from typing import TypeVar

from pydantic import Field

from sluice.contracts.base import Value
from sluice.contracts.learning.run_outcome import RunOutcome

Key = TypeVar("Key", bound=Hashable)
Z_95 = NormalDist().inv_cdf(0.975)
"""Normal quantile for a two-sided interval of 95 %."""


class Interval(Value):
    """An estimate of `count` observations and the ends of its interval."""

    estimate: float
    low: float
    high: float
    count: int


def wilson_interval(total: float, count: int) -> Interval | None:
    """Return the interval of the mean of `count` values in [0, 1] with the sum `total`; None without values.

    Wilson's score interval (Probable inference, JASA 22, 1927). It is made for values that are 0 or 1; those between
    vary less, so for them it is wider than necessary.
    """
    if count <= 0:
        return None
    share = min(max(total / count, 0.0), 1.0)
    squared = Z_95 * Z_95 / count
    middle = (share + squared / 2) / (1 + squared)
    half = Z_95 * math.sqrt(share * (1 - share) / count + squared / (4 * count)) / (1 + squared)
    return Interval(estimate=share, low=max(0.0, middle - half), high=min(1.0, middle + half), count=count)


def mean_interval(total: float, squares: float, count: int) -> Interval | None:
    """Return the interval of the mean of `count` values, from their sum and sum of squares; None below two values.

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
    """Return the interval of a ratio of two sums over the same `count` observations (x, y): Σx / Σy.

    The arguments are Σx, Σx², Σy, Σy², Σxy. By the delta method (Cochran, Sampling Techniques, 1977, ch. 6): with r =
    Σx / Σy its variance is Σ(x - r·y)² / (count - 1) · count / (Σy)². None where Σy is 0 or count below 2.
    """
    if count < 2 or below <= 0:
        return None
    ratio = above / below
    residuals = max(0.0, above_squares - 2 * ratio * products + ratio * ratio * below_squares)
    half = Z_95 * math.sqrt(residuals / (count - 1) * count) / below
    return Interval(estimate=ratio, low=max(0.0, ratio - half), high=ratio + half, count=count)


def percentile_95(values: Sequence[float]) -> float:
    """Return the nearest-rank 95th percentile; 0 without values."""
    ordered = sorted(values)
    return ordered[math.ceil(0.95 * len(ordered)) - 1] if ordered else 0.0


ACCURACY = 0.01
_GROWTH = (1 + ACCURACY) / (1 - ACCURACY)
_LOG_GROWTH = math.log(_GROWTH)
SMALLEST, LARGEST = 1e-3, 1e10
"""Values beyond these count as these: some 1,500 buckets at most."""


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
        """Add the counts of the other."""
        self._buckets.update(other._buckets)
        self.count += other.count

    @property
    def size(self) -> int:
        """Return the number of buckets."""
        return len(self._buckets)

    def quantile(self, share: float) -> float | None:
        """Return the number that `share` of all do not exceed; None without numbers."""
        if not self.count:
            return None
        wanted, seen = max(1, math.ceil(share * self.count)), 0
        for bucket in sorted(self._buckets):
            seen += self._buckets[bucket]
            if seen >= wanted:
                break
        return 2 * _GROWTH**bucket / (_GROWTH + 1)


@dataclass(slots=True)
class Moments:
    """Count, sum and sum of squares of some numbers."""

    count: int = 0
    total: float = 0.0
    squares: float = 0.0

    def add(self, value: float) -> None:
        """Count one number."""
        self.count += 1
        self.total += value
        self.squares += value * value

    def merge(self, other: Moments) -> None:
        """Add the sums of the other."""
        self.count += other.count
        self.total += other.total
        self.squares += other.squares

    @property
    def mean(self) -> float | None:
        """Return the mean of the numbers; None without numbers."""
        return self.total / self.count if self.count else None

    def mean_interval(self) -> Interval | None:
        """Return the 95 % interval of the mean."""
        return mean_interval(self.total, self.squares, self.count)

    def share_interval(self) -> Interval | None:
        """Return the 95 % interval of the mean of numbers in [0, 1]."""
        return wilson_interval(self.total, self.count)


@dataclass(slots=True)
class RunTotals:
    """Sums over runs.

    `satisfaction` and `judged_usd` cover the judged runs alone, `usd_of_success` sums cost times satisfaction over
    them; `usd`, `tokens` and `external_calls` cover all runs; `milliseconds` those that have ended;
    `freshness_gain_seconds` those whose citations' ages are known; `precision` those whose used passages are.
    """

    runs: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    satisfaction: Moments = field(default_factory=Moments)
    signals: dict[str, Moments] = field(default_factory=dict)
    judged_usd: Moments = field(default_factory=Moments)
    usd_of_success: float = 0.0
    usd: Moments = field(default_factory=Moments)
    tokens: Moments = field(default_factory=Moments)
    milliseconds: Moments = field(default_factory=Moments)
    latency: Quantiles = field(default_factory=Quantiles)
    external_calls: Moments = field(default_factory=Moments)
    freshness_gain_seconds: Moments = field(default_factory=Moments)
    cited_age_seconds: Moments = field(default_factory=Moments)
    precision: Moments = field(default_factory=Moments)
    pages_asked: int = 0
    pages_read: int = 0

    def add(self, run: RunOutcome, *, judged: bool = True) -> None:
        """Count one run; without its feedback if `judged` is False."""
        self.runs += 1
        self.statuses[run.status] += 1
        self.usd.add(run.usd)
        self.tokens.add(run.tokens)
        self.external_calls.add(run.external_calls)
        self.pages_asked += run.pages_asked
        self.pages_read += run.pages_read
        if run.milliseconds is not None:
            self.milliseconds.add(run.milliseconds)
            self.latency.add(run.milliseconds)
        if run.cited_age_seconds is not None:
            self.cited_age_seconds.add(run.cited_age_seconds)
        if (gain := run.freshness_gain_seconds) is not None:
            self.freshness_gain_seconds.add(gain)
        if judged and run.precision is not None:
            self.precision.add(run.precision)
        if judged and (satisfaction := run.satisfaction) is not None:
            self.satisfaction.add(satisfaction)
            self.judged_usd.add(run.usd)
            self.usd_of_success += run.usd * satisfaction
            for name, value in run.signals.items():
                self.signals.setdefault(name, Moments()).add(value)

    def merge(self, other: RunTotals) -> None:
        """Add the sums of the other."""
        self.statuses.update(other.statuses)
        for name, moments in other.signals.items():
            self.signals.setdefault(name, Moments()).merge(moments)
        for name in (one.name for one in fields(self)):
            mine, theirs = getattr(self, name), getattr(other, name)
            if isinstance(mine, Moments | Quantiles):
                mine.merge(theirs)
            elif isinstance(mine, int | float):
                setattr(self, name, mine + theirs)


def total_by(
    runs: Iterable[RunOutcome], key_of: Callable[[RunOutcome], Key], *, judged: bool = True
) -> dict[Key, RunTotals]:
    """Return the sums over the runs of each key; without their feedback if not `judged`."""
    totals_of: dict[Key, RunTotals] = {}
    for run in runs:
        totals_of.setdefault(key_of(run), RunTotals()).add(run, judged=judged)
    return totals_of


class Summary(Value):
    """The figures of some runs. A figure is None if no run has it; intervals are of 95 %.

    `coverage` is the share of the runs that were judged. `usd_per_success` is the cost of the judged runs divided by
    the sum of their satisfaction. `precision_at_k` is the mean share of the k cited passages that were used,
    `token_spend` the mean of the tokens per run, `crawl_success_rate` the share of the requested pages that were read.
    """

    runs: int = 0
    judged: int = 0
    coverage: float = 0.0
    satisfaction: Interval | None = None
    signals: dict[str, Interval] = Field(default_factory=dict)
    freshness_gain_seconds: Interval | None = None
    cited_age_seconds: float | None = None
    usd: Interval | None = None
    total_usd: float = 0.0
    usd_per_success: Interval | None = None
    mean_milliseconds: Interval | None = None
    p50_milliseconds: float | None = None
    p95_milliseconds: float | None = None
    external_calls: Interval | None = None
    precision_at_k: Interval | None = None
    token_spend: float | None = None
    crawl_success_rate: Interval | None = None
    failed: int = 0


def summarise(totals: RunTotals) -> Summary:
    """Return the figures of the totals."""
    satisfaction, judged_usd = totals.satisfaction, totals.judged_usd
    signals = {name: moments.share_interval() for name, moments in sorted(totals.signals.items())}
    return Summary(
        runs=totals.runs,
        judged=satisfaction.count,
        coverage=satisfaction.count / totals.runs if totals.runs else 0.0,
        satisfaction=satisfaction.share_interval(),
        signals={name: interval for name, interval in signals.items() if interval},
        freshness_gain_seconds=totals.freshness_gain_seconds.mean_interval(),
        cited_age_seconds=totals.cited_age_seconds.mean,
        usd=totals.usd.mean_interval(),
        total_usd=totals.usd.total,
        usd_per_success=ratio_interval(
            judged_usd.total,
            judged_usd.squares,
            satisfaction.total,
            satisfaction.squares,
            totals.usd_of_success,
            satisfaction.count,
        ),
        mean_milliseconds=totals.milliseconds.mean_interval(),
        p50_milliseconds=totals.latency.quantile(0.5),
        p95_milliseconds=totals.latency.quantile(0.95),
        external_calls=totals.external_calls.mean_interval(),
        precision_at_k=totals.precision.share_interval(),
        token_spend=totals.tokens.mean,
        crawl_success_rate=wilson_interval(min(totals.pages_read, totals.pages_asked), totals.pages_asked),
        failed=totals.statuses["failed"],
    )
