"""The verdict on a stage of a canary: promote, stop, continue, or inconclusive. Pure functions.

Two lines of defence. Hard stops need no statistics: a gate of severity P0 that an answer failed, its share of the day's
budget exceeded, many more failed runs than in the control, two windows running with many runs over twice the control's
p95 latency. Then satisfaction decides by a test that holds at every look (`evaluation.rollout.arm_figures`):

    stop          the canary is shown to be worse by more than 5 %: 0.95 x control - canary > 0
    promote       it is shown not to be worse by more than the stage's margin: 5 % at the last share with a control,
                  10 % at earlier ones, where few units are exposed
    inconclusive  no data; arms whose sizes or whose feedback show that the draw or the judging went wrong; the stage
                  is at its end and neither is shown; or a guard holds the promotion back
    continue      else

Cost and latency guard: only an operator promotes a canary that is shown to take 20 % more of either. One metric
decides, so no level is split. All runs since the canary began count, also those of earlier stages: both arms were of
equal size at every time, so their comparison is fair whatever the share was (a pool of unequal arms would not be). An
inconclusive stage holds its share and is evaluated further, which the test allows.

A stage is long enough to separate, with the required power, a model that is no different from one that is worse by the
margin, and one that is 10 % worse from one that is 5 % worse: whichever takes longer. Runs without feedback have no
information, so both are divided by the share of judged runs. Looks before the end find most differences earlier.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Annotated

from pydantic import Field

from sluice.contracts.base import Value
from sluice.contracts.errors import InvalidInput
from sluice.contracts.learning.control import VerdictKind
from sluice.evaluation.rollout.arm_figures import (
    A_SUCCESS_AND_A_FAILURE,
    METRICS,
    WINDOW_RUNS,
    ArmFigures,
    Interval,
    Metric,
    Moments,
    confidence_sequence,
    equal_rates_p,
    half_width,
    sample_ratio_p,
)
from sluice.evaluation.run_totals import percentile_95

ALPHA = 0.05
"""Level of all looks together: a canary that is worse by 5 % or less is stopped in at most this share of cases."""
MARGIN = 0.05
EARLY_MARGIN = 0.10
GUARD_MARGIN = 0.20
"""The seed's bound for latency (p95 within 1.2 of the baseline), for cost too."""
SCALE = 0.05
"""tau of satisfaction, in its own unit: about the size of the differences that matter."""
RELATIVE_SCALE = 0.10
"""tau of cost and latency, as a share of the control's mean."""
LEAST_JUDGED_UNITS = 100
"""Units in each arm before satisfaction is read: with fewer the test's normal limit is not reached."""
SAMPLE_RATIO_P = 0.001
LEAST_FAILED = 10
FAILED_MORE = 0.10
"""Excess of the failed share over the control's that is a hard stop, from ten failures of fifty runs on."""
LEAST_ENDED = 50
P95_TIMES = 2.0
SLOW_SHARE = 0.15
"""Share of runs over twice the control's p95, in each of two windows: three times the expected one. A bare p95 over
twice the other would trip by chance, as one run of twenty is slow by nature in either arm."""


class MetricComparison(Value):
    """One metric in both arms. The interval of the difference (canary - control) holds at every look, at 95 %.

    `relative` is the difference as a share of the control's mean, with its interval; None where that mean is 0.
    """

    metric: Metric
    canary: float | None
    control: float | None
    canary_count: int
    control_count: int
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    relative: float | None = None
    relative_low: float | None = None
    relative_high: float | None = None


class StageVerdict(Value):
    """The verdict on a stage, with its reason and figures.

    `sample_ratio_p` is of the numbers of units in both arms, `feedback_ratio_p` of the shares of judged runs.
    """

    kind: VerdictKind
    why: str
    canary_runs: int
    control_runs: int
    sample_ratio_p: Annotated[float, Field(ge=0, le=1)]
    feedback_ratio_p: Annotated[float, Field(ge=0, le=1)]
    metrics: tuple[MetricComparison, ...]

    def of(self, metric: Metric) -> MetricComparison:
        """Return the comparison of one metric."""
        return next(one for one in self.metrics if one.metric == metric)


def judge_stage(
    canary: ArmFigures,
    control: ArmFigures,
    *,
    is_last: bool,
    stage_is_over: bool = False,
    usd_of_day: float | None = None,
) -> StageVerdict:
    """Return the verdict on a canary's current stage, over all runs since the canary began.

    `is_last`: the next share is 1. `stage_is_over`: it has reached its planned length. `usd_of_day`: the most the
    canary may spend in a UTC day, its share of the day's ceiling; None without one.
    """
    metrics = tuple(compare_metric(metric, canary.of(metric), control.of(metric)) for metric in METRICS)
    kind, why = _judge(canary, control, metrics, is_last, stage_is_over, usd_of_day)
    return StageVerdict(
        kind=kind,
        why=why,
        canary_runs=canary.runs,
        control_runs=control.runs,
        sample_ratio_p=sample_ratio_p(canary.units, control.units),
        feedback_ratio_p=equal_rates_p((canary.judged, canary.runs), (control.judged, control.runs)),
        metrics=metrics,
    )


def _judge(
    canary: ArmFigures,
    control: ArmFigures,
    metrics: Sequence[MetricComparison],
    is_last: bool,
    stage_is_over: bool,
    usd_of_day: float | None,
) -> tuple[VerdictKind, str]:
    if hard := hard_stop(canary, control, usd_of_day):
        return "stop", hard
    if invalid := _invalid(canary, control):
        return "inconclusive", invalid
    margin = MARGIN if is_last else EARLY_MARGIN
    judged = canary.of("satisfaction"), control.of("satisfaction")
    if min(one.units for one in judged) >= LEAST_JUDGED_UNITS:
        worse = loss_beyond(*judged, MARGIN)
        if worse.low > 0:
            return "stop", f"satisfaction is worse by more than {MARGIN:.0%}: {_told(metrics[0])}"
        if loss_beyond(*judged, margin).high < 0:
            if guard := _guard(metrics):
                return "inconclusive", guard
            return "promote", f"satisfaction is not worse by more than {margin:.0%}: {_told(metrics[0])}"
    if stage_is_over:
        return "inconclusive", f"the stage is at its end, and neither better nor worse is shown: {_told(metrics[0])}"
    return "continue", f"not enough runs yet: {_told(metrics[0])}"


def hard_stop(canary: ArmFigures, control: ArmFigures, usd_of_day: float | None = None) -> str | None:
    """Return the reason to stop a canary without statistics; None without a reason.

    The budget stops a canary that has spent its share of the day's ceiling while the control has not.
    """
    if canary.failed_checks:
        return f"{canary.failed_checks} gates of severity P0 were not passed by answers of the canary"
    if usd_of_day is not None and canary.usd_of_day > usd_of_day >= control.usd_of_day:
        spent = f"{canary.usd_of_day:.4f} USD today, the control {control.usd_of_day:.4f} USD"
        return f"its runs exceed their share of the day's budget, {usd_of_day:.4f} USD: they took {spent}"
    more = canary.failed_share - control.failed_share
    if canary.ended >= LEAST_ENDED and canary.failed >= LEAST_FAILED and more > FAILED_MORE:
        return f"{canary.failed_share:.1%} of its runs failed, of the control {control.failed_share:.1%}"
    mine, theirs = canary.latest_milliseconds, control.latest_milliseconds
    if len(mine) < 2 * WINDOW_RUNS or len(theirs) < 2 * WINDOW_RUNS:
        return None
    limit = P95_TIMES * percentile_95(theirs)
    earlier, later = (sum(one > limit for one in mine[at:][:WINDOW_RUNS]) / WINDOW_RUNS for at in (0, WINDOW_RUNS))
    if min(earlier, later) > SLOW_SHARE:
        told = f"{earlier:.0%} and {later:.0%} of the runs of two windows running take over {limit:.0f} ms"
        return f"its latency is out of bounds: {told}, {P95_TIMES:g} times the control's p95"
    return None


def loss_beyond(canary: Moments, control: Moments, margin: float) -> Interval:
    """Return by how much the canary's satisfaction falls short of (1 - margin) x the control's, in its own unit.

    Above 0 is worse. Each end of the interval is read alone, so each is wrong in at most `ALPHA` of the cases.
    """
    mine, theirs = canary + A_SUCCESS_AND_A_FAILURE, control + A_SUCCESS_AND_A_FAILURE
    loss = (1 - margin) * (theirs.mean or 0.0) - (mine.mean or 0.0)
    variance = (1 - margin) ** 2 * (theirs.variance_of_mean or 0.0) + (mine.variance_of_mean or 0.0)
    return confidence_sequence(loss, variance, SCALE, 2 * ALPHA)


def compare_metric(metric: Metric, canary: Moments, control: Moments) -> MetricComparison:
    """Compare a metric in both arms, with the intervals of its difference if both have at least two units."""
    found = MetricComparison(
        metric=metric, canary=canary.mean, control=control.mean, canary_count=canary.count, control_count=control.count
    )
    if canary.variance_of_mean is None or control.variance_of_mean is None:
        return found
    if metric == "satisfaction":
        canary, control = canary + A_SUCCESS_AND_A_FAILURE, control + A_SUCCESS_AND_A_FAILURE
    mean, usual = canary.mean or 0.0, control.mean or 0.0
    variance, usual_variance = canary.variance_of_mean or 0.0, control.variance_of_mean or 0.0
    scale = SCALE if metric == "satisfaction" else RELATIVE_SCALE * abs(usual)
    sequence = _sequence(mean - usual, variance + usual_variance, scale)
    facts = {"difference": sequence.estimate, "low": sequence.low, "high": sequence.high}
    if usual:
        relative_variance = variance / usual**2 + mean**2 * usual_variance / usual**4  # the delta method
        relative = _sequence(mean / usual - 1, relative_variance, RELATIVE_SCALE)
        facts |= {"relative": relative.estimate, "relative_low": relative.low, "relative_high": relative.high}
    return found.model_copy(update=facts)


def _sequence(estimate: float, variance: float, scale: float) -> Interval:
    """Return the interval; if the control has only zeros its scale is that of the difference's own error."""
    return confidence_sequence(estimate, variance, scale or variance**0.5 or 1.0, ALPHA)


def _invalid(canary: ArmFigures, control: ArmFigures) -> str | None:
    """Return the reason why the arms are not comparable; None if they are."""
    if not canary.judged or not control.judged:
        lacking = "the canary" if not canary.judged else "the control"
        return f"no data: nobody has said how a run of {lacking} did"
    if sample_ratio_p(canary.units, control.units) < SAMPLE_RATIO_P:
        return f"the arms are of {canary.units} and {control.units} units and should be equal: the draw went wrong"
    if equal_rates_p((canary.judged, canary.runs), (control.judged, control.runs)) < SAMPLE_RATIO_P:
        told = f"{canary.judged} of {canary.runs} and {control.judged} of {control.runs} runs"
        return f"the arms are not judged alike ({told}): their satisfaction cannot be compared"
    return None


def _guard(metrics: Sequence[MetricComparison]) -> str | None:
    for one in metrics:
        if one.metric in ("usd", "milliseconds") and one.relative_low is not None and one.relative_low > GUARD_MARGIN:
            what = "cost" if one.metric == "usd" else "latency"
            return f"satisfaction would do, but {what} is over {GUARD_MARGIN:.0%} more: {_told(one)}"
    return None


def _told(one: MetricComparison) -> str:
    if one.canary is None or one.control is None:
        return "no figures yet"
    told = f"{one.canary:.4g} against {one.control:.4g}"
    if one.relative is None or one.relative_low is None or one.relative_high is None:
        return told
    return f"{told} ({one.relative:+.1%}, 95 % interval {one.relative_low:+.1%} to {one.relative_high:+.1%})"


POWER = 0.97
"""Power at the stage's end: above the goal of 95 %, as the variance is only estimated."""
WORSE = 0.10
"""The loss of satisfaction, as a share, that a stage is long enough to detect."""
ASSUMED_SATISFACTION = 0.8
ASSUMED_COVERAGE = 0.2
LEAST_JUDGED = 50
MOST_RUNS = 100_000_000


def expected_runs(
    stages: Sequence[float], *, satisfaction: float = ASSUMED_SATISFACTION, coverage: float = 1.0
) -> tuple[int, ...]:
    """Return the most gate runs of each stage with a control: all stages but the last, which has none.

    `satisfaction` is the mean of the current gate, `coverage` the share of its runs that get feedback. A later stage
    also has the runs of earlier ones, but its length ignores them, as they may have been few. Raises `InvalidInput` if
    `coverage` or `satisfaction` is not above 0 and at most 1.
    """
    for name, value in (("coverage", coverage), ("satisfaction", satisfaction)):
        if not 0 < value <= 1:
            raise InvalidInput(name, f"{value} is not above 0 and at most 1", "the share of runs with feedback")
    lengths = []
    for number, share in enumerate(stages[:-1]):
        margin = MARGIN if number == len(stages) - 2 else EARLY_MARGIN
        alike, worse = satisfaction, (1 - WORSE) * satisfaction
        needed = max(judged_units(satisfaction, alike, margin), judged_units(satisfaction, worse, WORSE - MARGIN))
        lengths.append(math.ceil(needed / share / coverage))
    return tuple(lengths)


def judged_units(satisfaction: float, canary: float, excess: float, power: float = POWER) -> int:
    """Return the judged units per arm to detect a difference of `excess` x satisfaction beyond the tested one.

    `power` is the probability of the detection, `canary` the canary's satisfaction. The variances are those of values
    of 0 and 1, the largest that values in [0, 1] with these means can have.
    """
    distance = excess * satisfaction
    variance = _variance(canary) + (1 - MARGIN) ** 2 * _variance(satisfaction)
    spread = NormalDist().inv_cdf(power)

    def is_enough(units: int) -> bool:
        of_mean = variance / units
        return distance - spread * math.sqrt(of_mean) >= half_width(of_mean, SCALE, 2 * ALPHA)

    return bisect_left(range(MOST_RUNS), True, lo=1, key=is_enough)


def _variance(mean: float) -> float:
    return max(mean * (1 - mean), 0.01)


@dataclass(frozen=True, slots=True)
class Judging:
    """The expected share of judged runs and their satisfaction, and the source of both in words."""

    satisfaction: float
    coverage: float
    told: str


def read_judging(satisfactions: Iterable[float | None]) -> Judging:
    """Estimate the figures of future runs from those of earlier ones; None is a run that was not judged.

    With fewer than fifty judged runs satisfaction and coverage are assumed, and `told` reports it.
    """
    runs, judged, total = 0, 0, 0.0
    for satisfaction in satisfactions:
        runs += 1
        if satisfaction is not None:
            judged, total = judged + 1, total + satisfaction
    if judged < LEAST_JUDGED:
        told = f"only {judged} of {runs} runs before were judged: assumed are a satisfaction of {ASSUMED_SATISFACTION}"
        return Judging(ASSUMED_SATISFACTION, ASSUMED_COVERAGE, f"{told} and feedback on {ASSUMED_COVERAGE:.0%}")
    mean, coverage = max(total / judged, 0.01), judged / runs
    told = f"of {runs} runs before {coverage:.1%} were judged, with a satisfaction of {mean:.3f}"
    return Judging(mean, coverage, told)
