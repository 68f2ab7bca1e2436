"""What is kept of many runs: sums, from which every figure follows. Their size is the same, whatever was counted."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from sluice.contracts.learning.run_outcome import RunOutcome
from sluice.evaluation.intervals import Interval, mean_interval, wilson_interval
from sluice.evaluation.quantiles import Quantiles


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
        """Count what the other has counted."""
        self.count += other.count
        self.total += other.total
        self.squares += other.squares

    @property
    def mean(self) -> float | None:
        """Of the numbers; None where there are none."""
        return self.total / self.count if self.count else None

    def mean_interval(self) -> Interval | None:
        """95 % interval of the mean."""
        return mean_interval(self.total, self.squares, self.count)

    def share_interval(self) -> Interval | None:
        """95 % interval of the mean of numbers in [0, 1]."""
        return wilson_interval(self.total, self.count)


@dataclass(slots=True)
class RunTotals:
    """Sums over runs.

    `satisfaction` and `judged_usd` are of the judged runs alone, `usd_of_success` the sum of cost times satisfaction
    over them; `usd`, `tokens` and `external_calls` of all; `milliseconds` of those that have ended;
    `freshness_gain_seconds` of those whose citations' ages are known; `precision` of those whose used passages are.
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
        """Count one run; without what was said of it where `judged` is False."""
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
            gain = run.freshness_gain_seconds
            if gain is not None:
                self.freshness_gain_seconds.add(gain)
        if judged:
            self._add_judgement(run)

    def _add_judgement(self, run: RunOutcome) -> None:
        if run.precision is not None:
            self.precision.add(run.precision)
        satisfaction = run.satisfaction
        if satisfaction is None:
            return
        self.satisfaction.add(satisfaction)
        self.judged_usd.add(run.usd)
        self.usd_of_success += run.usd * satisfaction
        for name, value in run.signals.items():
            self.signals.setdefault(name, Moments()).add(value)

    def merge(self, other: RunTotals) -> None:
        """Count what the other has counted."""
        self.runs += other.runs
        self.statuses.update(other.statuses)
        self.usd_of_success += other.usd_of_success
        self.pages_asked += other.pages_asked
        self.pages_read += other.pages_read
        self.latency.merge(other.latency)
        for name, moments in other.signals.items():
            self.signals.setdefault(name, Moments()).merge(moments)
        for name in _MOMENTS:
            getattr(self, name).merge(getattr(other, name))


_MOMENTS = (
    "satisfaction",
    "judged_usd",
    "usd",
    "tokens",
    "milliseconds",
    "external_calls",
    "freshness_gain_seconds",
    "cited_age_seconds",
    "precision",
)
