"""The report on a model that is rolled out: the arms side by side, and where its plans differ from the gate's.

A report says plainly what is shown. The intervals of the differences hold at every look, at 95 %; the numbers of units
and the shares of judged runs are tested before any of them is read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from sluice.contracts.base import Moment, Value
from sluice.contracts.gate import GateDecided
from sluice.contracts.learning.control import Arm
from sluice.contracts.learning.rollout import Rollout
from sluice.contracts.plan import Plan
from sluice.evaluation.rollout.arm_figures import ArmFigures, Metric
from sluice.evaluation.rollout.canary import SAMPLE_RATIO_P, MetricComparison, StageVerdict

_NAMES: dict[Metric, str] = {
    "satisfaction": "satisfaction",
    "usd": "cost, USD per run",
    "milliseconds": "latency, ms per run",
    "external_calls": "external calls per run",
}


class ArmSize(Value):
    """How large an arm is: its runs, the units that were drawn, and the runs that ended, failed and were judged."""

    runs: int
    units: int
    ended: int
    failed: int
    judged: int


class PlanDifference(Value):
    """Runs where the gate's weights choose one plan and the model another."""

    heuristic: Plan
    model: Plan
    runs: int


class PlanDifferences(Value):
    """What the model chose, beside what the profile's weights chose for the same runs.

    `asked` are the runs that it was asked for. `usd_difference` is what these runs would have cost more by the model's
    plans, by the mean cost of a run of each plan: an estimate, None where a plan's cost was never seen.
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
    """The report on a rollout, of the figures since it began."""
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
        arms={
            name: ArmSize(runs=arm.runs, units=arm.units, ended=arm.ended, failed=arm.failed, judged=arm.judged)
            for name, arm in sorted(arms.items())
        },
        plans=plans,
    )


def compare_plans(
    decisions: Iterable[GateDecided], model_version: str, usd_of_plan: Mapping[Plan, float]
) -> PlanDifferences:
    """Where a model's plans differ from those of the weights, over decisions that it was asked for."""
    pairs: Counter[tuple[Plan, Plan]] = Counter()
    for decided in decisions:
        use = decided.control.model if decided.control else None
        if use is not None and use.version == model_version and use.plan is not None:
            pairs[decided.scored_plan, use.plan] += 1
    differing = {pair: runs for pair, runs in pairs.items() if pair[0] != pair[1]}
    known = all(plan in usd_of_plan for pair in differing for plan in pair)
    return PlanDifferences(
        asked=pairs.total(),
        alike=pairs.total() - sum(differing.values()),
        differences=tuple(
            PlanDifference(heuristic=pair[0], model=pair[1], runs=runs)
            for pair, runs in sorted(differing.items(), key=lambda one: (-one[1], one[0]))
        ),
        usd_difference=sum(runs * (usd_of_plan[b] - usd_of_plan[a]) for (a, b), runs in differing.items())
        if known
        else None,
    )


def to_markdown(report: AbReport) -> str:
    """The report as a page."""
    verdict = report.verdict
    lines = [
        f"# Model {report.model_version} against the gate's weights",
        "",
        f"**{report.headline}**",
        "",
        f"{report.status} at {report.share:.0%} since {report.since:%Y-%m-%d %H:%M} UTC; "
        f"verdict: **{verdict.kind}** ({verdict.why}).",
        _length(report),
        "",
        "| arm | runs | units | ended | failed | judged |",
        "|---|--:|--:|--:|--:|--:|",
        *(
            f"| {name} | {a.runs} | {a.units} | {a.ended} | {a.failed} | {a.judged} |"
            for name, a in report.arms.items()
        ),
        "",
        f"Arms of equal size: p = {verdict.sample_ratio_p:.3g}. Judged alike: p = {verdict.feedback_ratio_p:.3g}. "
        f"Below {SAMPLE_RATIO_P} no verdict is given.",
        "",
        "| metric | canary | control | difference, 95 % at every look | relative |",
        "|---|--:|--:|---|---|",
        *(_row(one) for one in verdict.metrics),
        "",
        *_plans(report.plans),
    ]
    return "\n".join(lines) + "\n"


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


def _length(report: AbReport) -> str:
    if report.expected_runs is None:
        return f"{report.stage_runs} gate runs so far."
    return f"{report.stage_runs} gate runs in this stage, which takes {report.expected_runs} at most."


def _row(one: MetricComparison) -> str:
    name = _NAMES[one.metric]
    if one.canary is None or one.control is None:
        return f"| {name} | {_number(one.canary)} | {_number(one.control)} | | |"
    difference = relative = ""
    if one.difference is not None and one.low is not None and one.high is not None:
        difference = f"{one.difference:+.4g} ({one.low:+.4g} to {one.high:+.4g})"
    if one.relative is not None and one.relative_low is not None and one.relative_high is not None:
        relative = f"{one.relative:+.1%} ({one.relative_low:+.1%} to {one.relative_high:+.1%})"
    return f"| {name} | {_number(one.canary)} | {_number(one.control)} | {difference} | {relative} |"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"


def _plans(plans: PlanDifferences) -> list[str]:
    if not plans.asked:
        return ["The model was asked for no run."]
    usd = plans.usd_difference
    cost = "a sum that is not known, as one of the plans was never run" if usd is None else f"{usd:+.4f} USD"
    return [
        f"Its plan is that of the weights in {plans.alike} of the {plans.asked} runs that it was asked for. "
        f"By its plans these change their cost by {cost}, at the mean cost of a run of each plan.",
        "",
        "| by the weights | by the model | runs |",
        "|---|---|--:|",
        *(f"| {one.heuristic} | {one.model} | {one.runs} |" for one in plans.differences),
    ]
