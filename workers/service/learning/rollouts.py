"""Models of the gate on their way: what operators do with them, and how they do.

Every change is one transaction with the event that tells of it. It counts from the next decision on, in every process.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from sluice.contracts.errors import NotFound
from sluice.contracts.learning.control import Arm
from sluice.contracts.learning.rollout import Cause, Rollout, RolloutRequest
from sluice.evaluation.rollout.ab_report import AbReport, compare_plans, make_report
from sluice.evaluation.rollout.arm_figures import ArmFigures, fold
from sluice.evaluation.rollout.canary import Judging, StageVerdict, expected_runs, judge_stage, read_judging
from sluice.gate.learned.model import GateModel
from sluice.gate.learned.rollout import advance, begin, check_stages, event_of, stop
from sluice.ledger.events.control_runs import ControlChange
from sluice.workers.context import Context
from sluice.workers.runtime.gate_models import read_model_file
from sluice.workers.service.learning.control import announce_control

__all__ = ["AbReport", "JudgedStage", "RolloutDesk", "change_rollout", "judge_rollout"]

JUDGED_BEFORE_DAYS = 30
"""How far back it is looked how many runs get feedback, to say how long a canary lasts."""
MOST_COMPARED = 10_000
"""Decisions whose plans a report compares, the latest: seconds of work."""


class RolloutDesk:
    """The rollouts of one instance.

    Every method that changes one raises `Conflict` where its state, or another active model, does not allow it.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._rollouts = context.ledger.rollouts

    def all(self) -> Sequence[Rollout]:
        """Every model that was tried, the one with a part in decisions first."""
        return sorted(self._rollouts.list(), key=lambda one: not one.is_active)

    def find(self, version: str | None) -> Rollout:
        """The rollout of a model; without a version that of the active one.

        Raises:
            NotFound: the model was never tried, or none is active.
        """
        if version is None:
            active = self._rollouts.active()
            if active is None:
                raise NotFound("no model has a part in decisions: `sluice gate rollout VERSION --shadow` gives it one")
            version = active.model_version
        found = self._rollouts.find(version)
        if found is None:
            raise NotFound(f"model {version!r} was never rolled out")
        return found

    def apply(self, request: RolloutRequest, operator: str) -> Rollout:
        """Do what a request asks for.

        Raises:
            NotFound: there is no such model, or none is active.
            InvalidInput: the stages are none, or the model's file cannot be used.
        """
        match request.action:
            case "shadow":
                return self.shadow(self._named(request), operator, request.note)
            case "canary":
                return self.start_canary(request, operator)
            case "promote":
                return self.promote(request.version, operator, request.note)
            case "stop" | "rollback":
                return self.stop(request.version, operator, request.note)

    def shadow(self, version: str, operator: str, note: str = "") -> Rollout:
        """Let a model decide beside the gate; its plans are recorded and not carried out."""
        was, model = self._rollouts.find(version), self._read(version)
        return self._change(begin(was, version, model.sha256, self._cause(operator, note)), was, "shadow")

    def start_canary(self, request: RolloutRequest, operator: str) -> Rollout:
        """Let a model decide for a share of the units, against a control of equal size."""
        version, stages = self._named(request), check_stages(request.stages)
        was, model = self._rollouts.find(version), self._read(version)
        judging = self.judging()
        lengths = expected_runs(stages, satisfaction=judging.satisfaction, coverage=judging.coverage)
        cause = self._cause(operator, request.note or judging.told)
        begun = begin(was, version, model.sha256, cause, stages=stages, expected_runs=lengths, unit=request.unit)
        return self._change(begun, was, "canary")

    def promote(self, version: str | None, operator: str, note: str = "") -> Rollout:
        """Let a model decide every run, without waiting for the canary's verdict."""
        was = self.find(version)
        return self._change(advance(was, self._cause(operator, note), share=1.0), was, "promote")

    def stop(self, version: str | None, operator: str, note: str = "") -> Rollout:
        """End a model's part in decisions: the profile's weights decide again."""
        was = self.find(version)
        return self._change(stop(was, self._cause(operator, note)), was, "stop")

    def report(self, version: str | None) -> AbReport:
        """The report on a model: the arms side by side since it began, and where its plans differ.

        Raises:
            NotFound: as `find`.
        """
        rollout, context = self.find(version), self._context
        judged, since = judge_rollout(context, rollout), rollout.began_at.timestamp()
        decisions = context.ledger.rollouts.decisions(rollout.model_version, since, MOST_COMPARED)
        costs = context.ledger.outcomes.usd_of_plans(since - JUDGED_BEFORE_DAYS * 86_400)
        plans = compare_plans(decisions, rollout.model_version, costs)
        return make_report(rollout, judged.verdict, judged.arms, plans, judged.stage_runs, judged.expected_runs)

    def judging(self) -> Judging:
        """How many of the latest runs were judged, and how well they did."""
        since = self._context.ledger.clock() - JUDGED_BEFORE_DAYS * 86_400
        return read_judging(run.satisfaction for run in self._context.ledger.outcomes.decided_between(since))

    def _read(self, version: str) -> GateModel:
        """The model of a version, kept among the blobs from now on: the file's, else the one that was rolled out."""
        raw = read_model_file(version, self._context.settings.data_dir)
        return self._context.gate_models.keep(raw)

    def _named(self, request: RolloutRequest) -> str:
        return request.version if request.version is not None else self.find(None).model_version

    def _cause(self, operator: str, note: str) -> Cause:
        return Cause(at=datetime.fromtimestamp(self._context.ledger.clock(), UTC), operator=operator, why=note)

    def _change(self, becomes: Rollout, was: Rollout | None, action: str) -> Rollout:
        change_rollout(self._context, becomes, was, action)
        return becomes


@dataclass(frozen=True, slots=True)
class JudgedStage:
    """The verdict on a canary's present stage, the figures of each arm, and how many gate runs the stage has had."""

    verdict: StageVerdict
    arms: dict[Arm, ArmFigures]
    stage_runs: int
    expected_runs: int | None

    @property
    def is_over(self) -> bool:
        """Whether the stage has lasted as long as was said when it began."""
        return self.expected_runs is not None and self.stage_runs >= self.expected_runs

    @property
    def is_worth_telling(self) -> bool:
        """Whether a verdict without an end says more than that feedback has not come yet."""
        satisfaction = self.verdict.of("satisfaction")
        return self.is_over or bool(satisfaction.canary_count and satisfaction.control_count)


def judge_rollout(context: Context, rollout: Rollout) -> JudgedStage:
    """The verdict on a rollout by the runs that were decided since it began."""
    outcomes = context.ledger.outcomes
    stage_runs = outcomes.count_of_model(rollout.model_version, rollout.stage_began_at.timestamp())
    today = datetime.fromtimestamp(context.ledger.clock(), UTC).date()
    runs = outcomes.compared(rollout.model_version, rollout.began_at.timestamp())
    arms = fold(runs, rollout.model_version, today)
    stage, day_usd = rollout.stage, context.settings.budget.day_usd
    expected = None if stage is None or stage >= len(rollout.expected_runs) else rollout.expected_runs[stage]
    verdict = judge_stage(
        arms.get("canary", ArmFigures()),
        arms.get("control", ArmFigures()),
        is_last=rollout.next_share == 1,
        stage_is_over=expected is not None and stage_runs >= expected,
        usd_of_day=None if day_usd is None else day_usd * rollout.share,
    )
    return JudgedStage(verdict, arms, stage_runs, expected)


def change_rollout(context: Context, becomes: Rollout, was: Rollout | None, action: str) -> None:
    """Record a step of a rollout with its event and the audit's entry, and announce it.

    Raises:
        Conflict: the rollout was changed since it was read, or another model is active.
    """
    step = becomes.history[-1]
    subject = f"model:{becomes.model_version}"
    change = ControlChange((event_of(becomes, was),), f"rollout_{action}", subject, step.operator, step.why)
    announce_control(context, context.ledger.rollouts.change(becomes, was, change))
