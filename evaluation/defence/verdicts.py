"""What a closed window shows of one defence: bad, good, neither, or void where it holds too few runs.

Intervals are of 95 % (`evaluation.intervals`): Wilson's for satisfaction and for the share of slow runs, the normal one
for the gain in freshness.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from sluice.contracts.base import LaterText, Value
from sluice.evaluation.defence.windows import LEAST, Window
from sluice.evaluation.intervals import mean_interval, wilson_interval

Verdict = Literal["bad", "good", "neither", "void"]

FLOOR = 0.7
"""Satisfaction below which the gate steps back."""
HEAL_MARGIN = 0.03
"""How far above the floor satisfaction must be to come forward again."""
LEAST_GAIN = 0.05
"""The gain in freshness is none below this share of the age that the cited text would have without the crawl."""
SLOW_SHARE = 0.05
"""Runs that may be slower than the threshold of the 95th percentile."""
BASELINE_FACTOR = 1.2
"""How much slower than its first windows a profile may become."""


class Closed(Value):
    """A closed window and what it shows. `low` and `high` are the ends of the interval of `value`."""

    closed_at: float
    runs: Annotated[int, Field(ge=0)]
    value: float
    low: float
    high: float
    verdict: Verdict
    why: LaterText = None


def judge_satisfaction(window: Window, closed_at: float) -> Closed:
    """Bad where the interval ends below 0.7; good where it begins above 0.73."""
    runs = len(window.values)
    total = math.fsum(window.values)
    low, high = _share(total, runs)
    verdict: Verdict = "bad" if high < FLOOR else "good" if low > FLOOR + HEAL_MARGIN else "neither"
    value = total / runs if runs else 0.0
    why = f"satisfaction {value:.2f} ({low:.2f} to {high:.2f}) of {runs} judged runs"
    return _closed(closed_at, runs, (value, low, high), verdict, why)


def judge_freshness(window: Window, closed_at: float, before: Closed | None, stale_seconds: float) -> Closed:
    """Bad where crawling gains nothing though the text is old, and does not begin to; good where it gains.

    It gains nothing where the interval of the gain ends below `LEAST_GAIN` of the age without the crawl, and the
    slope from the window before has an interval that does not lie above 0. Text that is younger than `stale_seconds`
    leaves nothing to gain: that is good, whatever the gain.
    """
    runs = len(window.values)
    gain = mean_interval(math.fsum(window.values), math.fsum(value * value for value in window.values), runs)
    if gain is None or runs < LEAST:
        return _closed(closed_at, runs, (0.0, 0.0, 0.0), "void", f"{runs} runs went outside")
    value, low, high = gain.estimate, gain.low, gain.high
    age = math.fsum(window.ages) / runs
    least = LEAST_GAIN * age
    rises = before is not None and value - before.value > math.hypot(value - low, before.value - before.low)
    if age < stale_seconds or low > least:
        verdict: Verdict = "good"
    else:
        verdict = "bad" if high < least and not rises else "neither"
    why = f"crawling made text of {_told(age)} younger by {_told(value)} ({_told(low)} to {_told(high)}) in {runs} runs"
    return _closed(closed_at, runs, (value, low, high), verdict, why)


def judge_latency(window: Window, closed_at: float, threshold_ms: float) -> Closed:
    """Bad where surely more than one run in twenty is slower than the threshold; good where no more are.

    `value`, `low` and `high` are the share of runs that are slower.
    """
    runs = len(window.values)
    slow = sum(value > threshold_ms for value in window.values)
    low, high = _share(slow, runs)
    value = slow / runs if runs else 0.0
    verdict: Verdict = "bad" if low > SLOW_SHARE else "good" if value <= SLOW_SHARE else "neither"
    threshold = f"threshold {threshold_ms / 1_000:.1f} s" if math.isfinite(threshold_ms) else "of the baseline"
    why = f"p95 of {runs} runs {percentile_95(window.values) / 1_000:.1f} s, {threshold}"
    return _closed(closed_at, runs, (value, low, high), verdict, why)


def percentile_95(values: Sequence[float]) -> float:
    """The nearest-rank 95th percentile; 0 of nothing."""
    ordered = sorted(values)
    return ordered[math.ceil(0.95 * len(ordered)) - 1] if ordered else 0.0


def _closed(closed_at: float, runs: int, figures: tuple[float, float, float], verdict: Verdict, why: str) -> Closed:
    value, low, high = (round(figure, 6) for figure in figures)
    told: Verdict = "void" if runs < LEAST else verdict
    return Closed(closed_at=closed_at, runs=runs, value=value, low=low, high=high, verdict=told, why=why)


def _share(total: float, count: int) -> tuple[float, float]:
    interval = wilson_interval(total, count)
    return (interval.low, interval.high) if interval else (0.0, 1.0)


def _told(seconds: float) -> str:
    return f"{seconds / 86_400:.1f} days" if abs(seconds) >= 86_400 else f"{seconds / 3_600:.1f} hours"
