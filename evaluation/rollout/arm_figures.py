"""The arms of a canary: sizes, failures, moments of the metrics, and tests that hold at every look.

A z test at every look finds a difference in a third of the cases where there is none. The mixture sequential
probability ratio test does so in at most `alpha` of them, over all looks together. For a difference d with the variance
V, and a normal mixture of variance tau^2 over its possible values:

    ratio = sqrt(V / (V + tau^2)) * exp(tau^2 d^2 / (2 V (V + tau^2)))          d is not 0 once ratio >= 1 / alpha

(Robbins, Statistical methods related to the law of the iterated logarithm, 1970; Johari, Pekelis and Walsh, Always
valid inference, 2017.) The differences that are not rejected form an asymptotic confidence sequence, that of
Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas (Time-uniform central limit theory and asymptotic confidence sequences,
2021) with t rho^2 = tau^2 / V. Both are asymptotic: below some hundred units they promise less.

The unit is drawn at random, and a unit may have several runs. So a mean is a ratio of sums over units, and its variance
that of the ratio (Cochran, Sampling Techniques, 1977, ch. 6): runs of one session do not count as independent.
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import astuple, dataclass, field
from datetime import date
from typing import Literal, get_args

from sluice.contracts.learning.control import Arm
from sluice.contracts.learning.run_outcome import RunOutcome


@dataclass(frozen=True, slots=True)
class Moments:
    """Sums over units, each with `count` values and their `total`, from which a mean and its variance follow."""

    units: int = 0
    count: int = 0
    total: float = 0.0
    count_squared: float = 0.0
    count_times_total: float = 0.0
    total_squared: float = 0.0

    @classmethod
    def of(cls, units: Iterable[tuple[int, float]]) -> Moments:
        """Return the moments of units of (count of values, sum of values); units without a value are left out."""
        found = [(count, total) for count, total in units if count]
        return cls(
            len(found),
            sum(count for count, _ in found),
            math.fsum(total for _, total in found),
            math.fsum(count * count for count, _ in found),
            math.fsum(count * total for count, total in found),
            math.fsum(total * total for _, total in found),
        )

    def __add__(self, other: Moments) -> Moments:
        return Moments(*(mine + theirs for mine, theirs in zip(astuple(self), astuple(other), strict=True)))

    @property
    def mean(self) -> float | None:
        """Return the mean of all values; None without values."""
        return self.total / self.count if self.count else None

    @property
    def variance_of_mean(self) -> float | None:
        """Return the variance of `mean`, from the differences of units; None with fewer than two units."""
        if self.units < 2 or self.mean is None:
            return None
        spread = self.total_squared - 2 * self.mean * self.count_times_total + self.mean**2 * self.count_squared
        return max(spread, 0.0) / self.count**2 * self.units / (self.units - 1)


A_SUCCESS_AND_A_FAILURE = Moments.of([(1, 1.0), (1, 0.0)])
"""Added to values in [0, 1], so that a hundred successes in a row do not count as certainty (Agresti and Coull)."""


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate, and the ends of an interval that contains the truth at all looks with the given confidence."""

    estimate: float
    low: float
    high: float


def half_width(variance: float, scale: float, alpha: float) -> float:
    """Return half of the confidence sequence's width: larger differences have a mixture ratio over 1 / alpha.

    `scale` is tau.
    """
    wide = variance + scale**2
    return math.sqrt(2 * variance * wide / scale**2 * math.log(math.sqrt(wide / variance) / alpha))


def confidence_sequence(estimate: float, variance: float, scale: float, alpha: float) -> Interval:
    """Return the interval around an estimate of that variance; the estimate alone without variance."""
    half = half_width(variance, scale, alpha) if variance > 0 else 0.0
    return Interval(estimate, estimate - half, estimate + half)


def sample_ratio_p(first: int, second: int) -> float:
    """Return the p of these unit counts for arms of equal size, by a chi-square test of one degree of freedom."""
    if first + second == 0:
        return 1.0
    return math.erfc(math.sqrt((first - second) ** 2 / (first + second) / 2))


def equal_rates_p(first: tuple[int, int], second: tuple[int, int]) -> float:
    """Return the p that two arms have the same rate (hits of trials), by a chi-square test of one degree of freedom."""
    hits, trials = first[0] + second[0], first[1] + second[1]
    if not first[1] or not second[1] or hits in (0, trials):
        return 1.0
    rate = hits / trials
    difference = first[0] / first[1] - second[0] / second[1]
    variance = rate * (1 - rate) * (1 / first[1] + 1 / second[1])
    return math.erfc(abs(difference) / math.sqrt(2 * variance))


Metric = Literal["satisfaction", "usd", "milliseconds", "external_calls"]
METRICS: tuple[Metric, ...] = get_args(Metric)
WINDOW_RUNS = 100
"""Runs of a window of latencies."""


@dataclass(slots=True)
class ArmFigures:
    """One arm. `units` counts the units of the draw: sessions, or runs.

    `failed_checks` counts gates of severity P0 that answers did not pass. `latest_milliseconds` are those of the latest
    ended runs, oldest first, and `usd_of_day` the cost of the runs of the latest UTC day.
    """

    runs: int = 0
    units: int = 0
    ended: int = 0
    failed: int = 0
    failed_checks: int = 0
    moments: dict[Metric, Moments] = field(default_factory=dict)
    latest_milliseconds: tuple[float, ...] = ()
    usd_of_day: float = 0.0

    def of(self, metric: Metric) -> Moments:
        """Return the moments of a metric; empty ones without data."""
        return self.moments.get(metric, Moments())

    @property
    def judged(self) -> int:
        """Return the number of runs with feedback."""
        return self.of("satisfaction").count

    @property
    def failed_share(self) -> float:
        """Return the share of failed runs among those that ended."""
        return self.failed / self.ended if self.ended else 0.0


def fold(runs: Iterable[RunOutcome], model_version: str, today: date | None = None) -> dict[Arm, ArmFigures]:
    """Return the figures of each arm of a model's runs, from runs in the order in which they were decided.

    Runs without a draw are a unit each. One pass; it stores two numbers for each unit and metric.
    """
    arms: defaultdict[Arm, ArmFigures] = defaultdict(ArmFigures)
    units: defaultdict[Arm, set[float | str]] = defaultdict(set)
    sums: defaultdict[tuple[Arm, Metric], dict[float | str, tuple[int, float]]] = defaultdict(dict)
    latest: defaultdict[Arm, deque[float]] = defaultdict(lambda: deque(maxlen=2 * WINDOW_RUNS))
    for run in runs:
        if run.model_version != model_version or run.arm is None:
            continue
        arm, unit = arms[run.arm], run.run_id if run.bucket is None else run.bucket
        arm.runs += 1
        units[run.arm].add(unit)
        arm.failed_checks += run.failed_checks
        arm.usd_of_day += run.usd if run.decided_at.date() == today else 0.0
        values: dict[Metric, float | None] = {"satisfaction": run.satisfaction}
        if run.finished_at is not None:
            arm.ended += 1
            arm.failed += run.status == "failed"
            values |= {"usd": run.usd, "milliseconds": run.milliseconds, "external_calls": float(run.external_calls)}
        if (milliseconds := values.get("milliseconds")) is not None:
            latest[run.arm].append(milliseconds)
        for metric, value in values.items():
            if value is not None:
                count, total = sums[run.arm, metric].get(unit, (0, 0.0))
                sums[run.arm, metric][unit] = count + 1, total + value
    for name, arm in arms.items():
        arm.units, arm.latest_milliseconds = len(units[name]), tuple(latest[name])
        arm.moments = {metric: Moments.of(sums[name, metric].values()) for metric in METRICS}
    return dict(arms)
