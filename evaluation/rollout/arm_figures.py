"""What is known of the arms of a canary: their sizes, their failures, and the moments of what is compared."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Literal, get_args

from sluice.contracts.learning.control import Arm
from sluice.contracts.learning.run_outcome import RunOutcome
from sluice.evaluation.rollout.sequential import Moments

Metric = Literal["satisfaction", "usd", "milliseconds", "external_calls"]
METRICS: tuple[Metric, ...] = get_args(Metric)
WINDOW_RUNS = 100
"""Runs of a window of latencies."""


@dataclass(frozen=True, slots=True)
class ArmFigures:
    """One arm. `units` are what was drawn: sessions, or runs.

    `failed_checks` counts gates of severity P0 that answers did not pass. `latest_milliseconds` are those of the
    latest ended runs, oldest first, and `usd_of_day` what the runs of the latest UTC day cost.
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
        """The moments of a metric; empty ones where nothing is known."""
        return self.moments.get(metric, Moments())

    @property
    def judged(self) -> int:
        """Runs of which somebody said how they did."""
        return self.of("satisfaction").count

    @property
    def failed_share(self) -> float:
        """Failed runs among those that ended."""
        return self.failed / self.ended if self.ended else 0.0


def fold(runs: Iterable[RunOutcome], model_version: str, today: date | None = None) -> dict[Arm, ArmFigures]:
    """The figures of each arm that a model's runs are of, from runs in the order in which they were decided.

    Runs without a draw are a unit each. One pass; what is kept is two numbers for each unit and metric.
    """
    arms: dict[Arm, _Arm] = defaultdict(_Arm)
    for run in runs:
        if run.model_version == model_version and run.arm is not None:
            arms[run.arm].add(run, today)
    return {arm: built.figures() for arm, built in arms.items()}


def p95(values: Sequence[float]) -> float:
    """The value that 95 % of them do not exceed (nearest rank)."""
    return sorted(values)[-(-95 * len(values) // 100) - 1]


class _Arm:
    """One arm while its runs are read."""

    def __init__(self) -> None:
        self._runs = self._ended = self._failed = self._failed_checks = 0
        self._usd_of_day = 0.0
        self._units: set[float | str] = set()
        self._latest: deque[float] = deque(maxlen=2 * WINDOW_RUNS)
        self._sums: dict[Metric, dict[float | str, tuple[int, float]]] = {metric: {} for metric in METRICS}

    def add(self, run: RunOutcome, today: date | None) -> None:
        """One more run."""
        unit = run.run_id if run.bucket is None else run.bucket
        self._runs += 1
        self._units.add(unit)
        self._failed_checks += run.failed_checks
        if run.decided_at.date() == today:
            self._usd_of_day += run.usd
        values: dict[Metric, float | None] = {"satisfaction": run.satisfaction}
        if run.finished_at is not None:
            self._ended += 1
            self._failed += run.status == "failed"
            values |= {"usd": run.usd, "milliseconds": run.milliseconds, "external_calls": float(run.external_calls)}
        if (milliseconds := values.get("milliseconds")) is not None:
            self._latest.append(milliseconds)
        for metric, value in values.items():
            if value is not None:
                count, total = self._sums[metric].get(unit, (0, 0.0))
                self._sums[metric][unit] = count + 1, total + value

    def figures(self) -> ArmFigures:
        """All that was added."""
        return ArmFigures(
            runs=self._runs,
            units=len(self._units),
            ended=self._ended,
            failed=self._failed,
            failed_checks=self._failed_checks,
            moments={metric: Moments.of(sums.values()) for metric, sums in self._sums.items()},
            latest_milliseconds=tuple(self._latest),
            usd_of_day=self._usd_of_day,
        )
