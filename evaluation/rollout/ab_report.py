"""The report on a model's rollout: the arms side by side, and the differences of its plans from the gate's.

The headline states the finding. The intervals of the differences hold at every look, at 95 %; the numbers of units and
the shares of judged runs are tested before any of them is read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from sluice.contracts.base import Moment, Value
from sluice.contracts.gate import GateDecided
from sluice.contracts.learning.control import Arm, Rollout
from sluice.contracts.plan import Plan
from sluice.evaluation.decision_replay import difference_in_cost
from sluice.evaluation.report import Block, Table, say_number, say_spread
from sluice.evaluation.rollout.arm_figures import ArmFigures, Metric
from sluice.evaluation.rollout.canary import SAMPLE_RATIO_P, MetricComparison, StageVerdict

_NAMES: dict[Metric, str] = {
    "satisfaction": "satisfaction",
    "usd": "cost, USD per run",
    "milliseconds": "latency, ms per run",
    "external_calls": "external calls per run",
}


class ArmSize(Value):
    """The size of an arm: its runs, its units of the draw, and the runs that ended, failed and were judged."""

    runs: int
    units: int
    ended: int
    failed: int
    judged: int


class PlanDifference(Value):
    """Runs for which the gate's weights choose one plan and the model another."""

    heuristic: Plan
    model: Plan
    runs: int


class PlanDifferences(Value):
    """The model's plans compared with those of the profile's weights for the same runs.

    `asked` counts the runs with a model's plan. `usd_difference` is the extra cost of these runs by the model's plans,
    by the mean cost of a run of each plan: an estimate, None if a plan's cost is unknown.
    """

    asked: int = 0
    alike: int = 0
    differences: tuple[PlanDifference, ...] = ()
    usd_difference: float | None = None


class AbReport(Value):
    """One model's report. `headline` is the finding in a sentence."""

    model_version: str
    model_sha256: str
    status: str
    share: float
    since: Moment
    headline: str
    verdict: StageVerdict
    stage_runs: int
    expected_runs: int | None
    arms: dict[Arm, ArmSize]
    plans: PlanDifferences


def make_report(
    rollout: Rollout,
    verdict: StageVerdict,
    arms: Mapping[Arm, ArmFigures],
    plans: PlanDifferences,
    stage_runs: int,
    expected_runs: int | None,
) -> AbReport:
    """Return the report on a rollout, from the figures since it began."""
    return AbReport(
        model_version=rollout.model_version,
        model_sha256=rollout.model_sha256,
        status=rollout.status,
        share=rollout.share,
        since=rollout.began_at,
        headline=_headline(rollout, verdict, plans),
        verdict=verdict,
        stage_runs=stage_runs,
        expected_runs=expected_runs,
        arms={name: ArmSize.model_validate(arm, from_attributes=True) for name, arm in sorted(arms.items())},
        plans=plans,
    )


def compare_plans(
    decisions: Iterable[GateDecided], model_version: str, usd_of_plan: Mapping[Plan, float]
) -> PlanDifferences:
    """Compare a model's plans with those of the weights, over the decisions that have a plan of the model."""
    pairs: Counter[tuple[Plan, Plan]] = Counter()
    for decided in decisions:
        use = decided.control.model if decided.control else None
        if use is not None and use.version == model_version and use.plan is not None:
            pairs[decided.scored_plan, use.plan] += 1
    differing = {pair: runs for pair, runs in pairs.items() if pair[0] != pair[1]}
    return PlanDifferences(
        asked=pairs.total(),
        alike=pairs.total() - sum(differing.values()),
        differences=tuple(
            PlanDifference(heuristic=pair[0], model=pair[1], runs=runs)
            for pair, runs in sorted(differing.items(), key=lambda one: (-one[1], one[0]))
        ),
        usd_difference=difference_in_cost(differing, usd_of_plan.get),
    )


def list_blocks(report: AbReport) -> Iterator[Block]:
    """Yield the report's blocks for readers."""
    verdict = report.verdict
    yield f"# Model {report.model_version} against the gate's weights"
    yield f"**{report.headline}**"
    most = "so far" if report.expected_runs is None else f"in this stage, which takes {report.expected_runs} at most"
    yield (
        f"{report.status} at {report.share:.0%} since {report.since:%Y-%m-%d %H:%M} UTC; "
        f"verdict: **{verdict.kind}** ({verdict.why}).\n{report.stage_runs} gate runs {most}."
    )
    rows = [(name, *(str(count) for _, count in size)) for name, size in report.arms.items()]
    yield Table("", ("arm", *ArmSize.model_fields), rows)
    yield (
        f"Arms of equal size: p = {verdict.sample_ratio_p:.3g}. Judged alike: p = {verdict.feedback_ratio_p:.3g}. "
        f"Below {SAMPLE_RATIO_P} no verdict is given."
    )
    columns = ("metric", "canary", "control", "difference, 95 % at every look", "relative")
    yield Table("", columns, [_row(one) for one in verdict.metrics])
    yield from _plans(report.plans)


def _headline(rollout: Rollout, verdict: StageVerdict, plans: PlanDifferences) -> str:
    name = f"Model {rollout.model_version}"
    one = verdict.of("satisfaction")
    if one.canary is None or one.control is None:
        if rollout.status == "shadow" and plans.asked:
            return f"{name} would have chosen another plan in {plans.asked - plans.alike} of {plans.asked} runs."
        return f"{name}: nothing is known of its satisfaction yet."
    told = f"satisfaction {one.canary:.3f} against {one.control:.3f}"
    if one.relative is not None and one.relative_low is not None and one.relative_high is not None:
        told += f", {one.relative:+.1%} (95 % interval {one.relative_low:+.1%} to {one.relative_high:+.1%})"
        if one.relative_high < 0:
            return f"{name} is WORSE than the gate's weights: {told}."
        if one.relative_low > 0:
            return f"{name} is better than the gate's weights: {told}."
    return f"{name} is not shown to be better or worse: {told}."


def _row(one: MetricComparison) -> tuple[str, ...]:
    difference = say_spread(one.difference, one.low, one.high, "+.4g")
    relative = say_spread(one.relative, one.relative_low, one.relative_high, "+.1%")
    return _NAMES[one.metric], say_number(one.canary), say_number(one.control), difference, relative


def _plans(plans: PlanDifferences) -> Iterator[Block]:
    if not plans.asked:
        yield "The model was asked for no run."
        return
    usd = plans.usd_difference
    cost = "a sum that is not known, as one of the plans was never run" if usd is None else f"{usd:+.4f} USD"
    yield (
        f"Its plan is that of the weights in {plans.alike} of the {plans.asked} runs that it was asked for. "
        f"By its plans these change their cost by {cost}, at the mean cost of a run of each plan."
    )
    rows = [(one.heuristic, one.model, str(one.runs)) for one in plans.differences]
    yield Table("", ("by the weights", "by the model", "runs"), rows)
