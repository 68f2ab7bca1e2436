"""Changes what steers the gate: feature flags, steps back and rollouts. Each change is recorded in a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial

from sluice.contracts.api import DefenceView
from sluice.contracts.errors import Conflict, InvalidInput, InvalidSetting, NotFound
from sluice.contracts.learning import control
from sluice.contracts.learning.events import DefenceHealed, DefencePinned
from sluice.contracts.learning.run_outcome import RunOutcome
from sluice.contracts.operations.dead_letters import OperatorAction
from sluice.evaluation.defence import ALL, DefenceState, Scope, heal, named, stepping_back, trip
from sluice.evaluation.learned_gate import share_models
from sluice.evaluation.rollout.ab_report import AbReport, compare_plans, make_report
from sluice.evaluation.rollout.arm_figures import ArmFigures, fold
from sluice.evaluation.rollout.canary import StageVerdict, expected_runs, judge_stage, read_judging
from sluice.gate.learned.rollout import advance, begin, check_stages, event_of, stop
from sluice.ledger.audit import ControlChange
from sluice.ledger.learning.controls import DefenceRow
from sluice.ledger.ledger import CreatedRun, Ledger
from sluice.otel import metrics
from sluice.workers.context import Context
from sluice.workers.runtime.flags import NAMES
from sluice.workers.service.callers import Caller
from sluice.workers.wiring.steering import key_of, read_model_file

__all__ = ["AbReport", "FlagDesk", "JudgedStage", "RolloutDesk", "change_rollout", "judge_rollout"]


def announce_control(context: Context, created: CreatedRun) -> None:
    """Announce the run to its followers; without a broker there are none."""
    with suppress(InvalidSetting):
        context.transport.announce(created.events)


class FlagDesk:
    """Reads and changes feature flags."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def states(self, caller: Caller) -> Sequence[control.FlagState]:
        """Return every flag as it stands, and its source; only operators see who changed it, when and why."""
        states = self._context.flags.states()
        if caller.role == "operator":
            return states
        return [control.FlagState(name=one.name, enabled=one.enabled, decided_by=one.decided_by) for one in states]

    def history(self, name: str) -> Sequence[OperatorAction]:
        """Return what operators did to a flag, in order. Raises `NotFound` if there is no such flag."""
        return self._context.ledger.flags.history(known_flag(name))

    def change(
        self, name: str, action: control.FlagAction, caller: Caller, note: str, share: float | None = None
    ) -> control.FlagResult:
        """Change a flag. Switching search or crawl off cancels what waits for it, and its runs go on without.

        Raises:
            Forbidden: the caller is no operator of the whole instance.
            NotFound: there is no such flag.
            Conflict: it is killed, and must be reset before it is switched on.
            InvalidInput: a share is asked for, and it is no flag of retrieval.
        """
        caller.may_operate_instance()
        known = known_flag(name)
        if share is not None and known not in control.SHARED_FLAGS:
            remedy = f"one of {', '.join(sorted(control.SHARED_FLAGS))}"
            raise InvalidInput("share", f"{known} is on for all runs or for none", remedy)
        flags, ledger = self._context.flags, self._context.ledger
        resolve = partial(flags.resolve, known)
        change = ledger.flags.change(known, action, caller.owner, note, resolve, share)
        if change.run is not None:
            metrics.PURGED_DIRECTIVES.labels(known).inc(change.purged)
            announce_control(self._context, change.run)
            with suppress(InvalidSetting):  # no broker is known; the reconciler finds what is ready
                self._context.transport.publish(change.emitted)
        return control.FlagResult(
            state=change.state, run_id=change.run.run_id if change.run else None, purged=change.purged
        )


def known_flag(name: str) -> control.FlagName:
    """Check that the name is a flag's, and return it. Raises `NotFound` if no flag has that name."""
    if name not in NAMES:
        metrics.UNKNOWN_FLAGS.inc()
        raise NotFound(f"no flag {name!r}: there are {', '.join(NAMES)}")
    return name


_ATTEMPTS = 5
"""Tries of a change: another process may write between our reading and writing, which takes milliseconds."""


def list_defences(ledger: Ledger) -> list[DefenceView]:
    """Return the defences that stand or are held, then those that have closed a window, and that of the cost."""
    _, rows = ledger.defences.rows()
    views = [_view(row) for row in sorted(rows, key=lambda row: not row.is_at_work)]
    return [one for one in views if one.stands or one.pinned or one.windows or one.name == "cost"]


def lift_defence(
    context: Context,
    name: control.DefenceName,
    operator: str,
    profile: str | None = None,
    note: str = "",
    corpus: str | None = None,
) -> Sequence[DefenceView]:
    """End a step back, or an operator's hold, in every scope of a profile and of a corpus, or in all where none is
    named. Their windows begin anew. Recorded and audited.

    Raises:
        NotFound: no step back of that name stands.
        Conflict: other processes changed the steps back all the time; nothing was lifted.
    """
    wanted = Scope(profile or ALL, corpus or ALL)

    def changed(rows: Sequence[DefenceRow]) -> tuple[list[DefenceRow], list[ControlChange]]:
        standing = [row for row in rows if row.name == name and row.is_at_work and wanted.covers(key_of(row)[1])]
        if not standing:
            of = "".join(f" of {what} {one!r}" for what, one in wanted._asdict().items() if one != ALL)
            raise NotFound(f"no step back {name!r}{of} stands; `sluice gate defences` tells which do")
        now = context.ledger.clock()
        return [_lifted(row, now) for row in standing], [_healed(row, operator, note) for row in standing]

    return _change(context, changed)


def pin_defence(
    context: Context, name: control.DefenceName, request: control.DefencePin, operator: str
) -> Sequence[DefenceView]:
    """Hold a defence on or off for a profile and a corpus. Recorded and audited; `lift_defence` ends it.

    Held on, the gate steps back there, without a trickle; held off, nothing trips there, and what stands is lifted.

    Raises `InvalidInput` if there is no such profile, and `Conflict` as `lift_defence` does.
    """
    scope, pin, note = Scope(request.profile or ALL, request.corpus or ALL), request.pin, request.note
    if scope.profile not in (ALL, *context.profiles):
        raise InvalidInput("profile", f"there is no {scope.profile!r}", f"one of {', '.join(context.profiles)}")
    key, now = (name, scope), context.ledger.clock()
    body = DefencePinned(name=name, profile=scope.profile, corpus=scope.corpus, pin=pin, operator=operator, note=note)
    state = DefenceState()
    if pin == "on":
        lifted_by = f"`sluice gate defences {name} --lift`, with its profile and corpus"
        since, why = datetime.fromtimestamp(now, UTC), f"held by {operator}: {note or 'no reason given'}"
        step: control.Step = "lower_plan" if name == "latency" else "retrieve_only"
        state = trip(state, stepping_back(*key, step, since, why, lifted_by), None)
    becomes = DefenceRow(
        name, scope.profile, state.model_dump_json(), now if pin == "on" else None, scope.corpus, pin=pin
    )

    def changed(rows: Sequence[DefenceRow]) -> tuple[list[DefenceRow], list[ControlChange]]:
        inside = [row for row in rows if row.name == name and row.tripped_at and not row.pin]
        standing = [row for row in inside if scope.covers(key_of(row)[1])]
        others = [_lifted(row, now) for row in standing if key_of(row) != key]
        pinned = ControlChange((body,), f"defence_pin_{pin}", subject_of(*key), operator, note)
        return [becomes, *others], [*(_healed(row, operator, note or f"held {pin}") for row in standing), pinned]

    return _change(context, changed)


Changed = Callable[[Sequence[DefenceRow]], tuple[list[DefenceRow], list[ControlChange]]]


def _change(context: Context, changed: Changed) -> list[DefenceView]:
    """Write what an operator changes of the rows, and announce it."""
    for _ in range(_ATTEMPTS):
        position, rows = context.ledger.defences.rows()
        becoming, changes = changed(rows)
        created = context.ledger.defences.write(position, position, becoming, changes)
        if created is not None:
            for run in created:
                announce_control(context, run)
            return [_view(row) for row in becoming]
    raise Conflict("the steps back changed meanwhile: try again")


def _lifted(row: DefenceRow, now: float) -> DefenceRow:
    state = heal(DefenceState.model_validate_json(row.state))
    if row.name == "cost":
        state = state.model_copy(update={"lifted_day": datetime.fromtimestamp(now, UTC).date().isoformat()})
    return replace(row, state=state.model_dump_json(), tripped_at=None, pin=None)


def _healed(row: DefenceRow, operator: str, note: str) -> ControlChange:
    facts = {**named(*key_of(row)), "by": "operator", "why": note or "lifted", "operator": operator}
    healed = DefenceHealed.model_validate(facts)
    return ControlChange((healed,), "defence_lift", subject_of(*key_of(row)), operator, note)


def subject_of(name: control.DefenceName, scope: Scope) -> str:
    """Return the name of a defence in the audit: its profile, then a corpus and an owner where it is of one."""
    return ":".join(("defence", name, scope.profile, *(one for one in scope[1:] if one != ALL)))


def _view(row: DefenceRow) -> DefenceView:
    state = DefenceState.model_validate_json(row.state)
    windows = tuple(
        f"{datetime.fromtimestamp(one.closed_at, UTC):%Y-%m-%d %H:%M} {one.verdict}: {one.why}" for one in state.closed
    )
    name, scope = key_of(row)
    return DefenceView(
        name=name,
        **scope._asdict(),
        pinned=row.pin,
        stands=state.tripped,
        configuration=state.configuration,
        falls_back_to=state.falls_back_to,
        windows=windows,
    )


JUDGED_BEFORE_DAYS = 30
"""Days whose runs show how many get feedback, to predict how long a canary lasts."""
MOST_COMPARED = 10_000
"""Most decisions whose plans a report compares, the latest: seconds of work."""


class RolloutDesk:
    """The rollouts of one instance: learned models of the gate, and the parts that operators give them in decisions.

    Every change is one transaction with its event. It counts from the next decision on, in every process.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._rollouts = context.ledger.rollouts

    def all(self) -> Sequence[control.Rollout]:
        """Return the rollout of every model that was tried, the active one first."""
        return sorted(self._rollouts.list(), key=lambda one: not one.is_active)

    def find(self, version: str | None) -> control.Rollout:
        """Return a model's rollout, or the active one. Raises `NotFound` if it was never tried, or none is active."""
        if version is None:
            active = self._rollouts.active()
            if active is None:
                raise NotFound("no model has a part in decisions: `sluice gate rollout VERSION --shadow` gives it one")
            version = active.model_version
        found = self._rollouts.find(version)
        if found is None:
            raise NotFound(f"model {version!r} was never rolled out")
        return found

    def apply(self, request: control.RolloutRequest, operator: str) -> control.Rollout:
        """Give a model a part in decisions, or end it, by the request's action; return its rollout afterwards.

        `shadow` lets it decide beside the gate: its plans are recorded and not carried out. `canary` lets it decide for
        a share of the units, against a control of equal size; `promote` moves it to the next stage, in the end to every
        run, without waiting for a verdict.
        After `stop` and `rollback` the profile's weights decide again.

        Raises:
            NotFound: there is no such model, or none is active.
            InvalidInput: the stages are not valid, or the model's file cannot be used.
            Conflict: the rollout's state, or another active model, does not allow it.
        """
        now = datetime.fromtimestamp(self._context.ledger.clock(), UTC)
        cause = control.Cause(at=now, operator=operator, why=request.note)
        if request.action in ("shadow", "canary"):
            version = request.version if request.version is not None else self.find(None).model_version
            was = self._rollouts.find(version)
            becomes = self._begun(request, version, was, cause)
        else:
            was = self.find(request.version)
            becomes = advance(was, cause) if request.action == "promote" else stop(was, cause)
        action = "stop" if request.action == "rollback" else request.action
        change_rollout(self._context, becomes, was, action)
        return becomes

    def report(self, version: str | None) -> AbReport:
        """Compare a model's arms since it began, and where its plans differ. Raises `NotFound` as `find` does."""
        rollout, context = self.find(version), self._context
        judged, since = judge_rollout(context, rollout), rollout.began_at.timestamp()
        decisions = context.ledger.rollouts.decisions(rollout.model_version, since, MOST_COMPARED)
        costs = context.ledger.outcomes.usd_of_plans(since - JUDGED_BEFORE_DAYS * 86_400)
        plans = compare_plans(decisions, rollout.model_version, costs)
        return make_report(rollout, judged.verdict, judged.arms, plans, judged.stage_runs, judged.expected_runs)

    def _begun(
        self, request: control.RolloutRequest, version: str, was: control.Rollout | None, cause: control.Cause
    ) -> control.Rollout:
        """Begin a shadow or a canary, and keep the model among the blobs."""
        stages = check_stages(request.stages) if request.action == "canary" else ()
        share_models(self._context.settings.data_dir, self._context.object_store)
        model = self._context.gate_models.keep(read_model_file(version, self._context.settings.data_dir))
        if not stages:
            return begin(was, version, model.sha256, cause)
        outcomes, since = self._context.ledger.outcomes, self._context.ledger.clock() - JUDGED_BEFORE_DAYS * 86_400
        judging = read_judging(run.satisfaction for run in outcomes.decided_between(since))
        lengths = expected_runs(stages, satisfaction=judging.satisfaction, coverage=judging.coverage)
        cause = cause.model_copy(update={"why": cause.why or judging.told})
        return begin(was, version, model.sha256, cause, stages=stages, expected_runs=lengths, unit=request.unit)


@dataclass(frozen=True, slots=True)
class JudgedStage:
    """The verdict on a canary's present stage, the figures of each arm, and how many gate runs the stage has had."""

    verdict: StageVerdict
    arms: dict[control.Arm, ArmFigures]
    stage_runs: int
    expected_runs: int | None

    @property
    def is_over(self) -> bool:
        """Whether the stage has had as many runs as its beginning predicted."""
        return self.expected_runs is not None and self.stage_runs >= self.expected_runs

    @property
    def is_worth_telling(self) -> bool:
        """Whether the stage is over, or both arms have feedback."""
        satisfaction = self.verdict.of("satisfaction")
        return self.is_over or bool(satisfaction.canary_count and satisfaction.control_count)


LARGEST_OWNERS = 3
"""Owners without each of whom a verdict must hold: those with most judged runs can move it alone."""


def judge_rollout(context: Context, rollout: control.Rollout) -> JudgedStage:
    """Judge a rollout by the runs that were decided since it began.

    Where the instance has several owners (API keys), a verdict that would not hold without one of them is inconclusive:
    the model decides for all. Failed gates of severity P0 stop it, whoever asked.
    """
    outcomes = context.ledger.outcomes
    stage_runs = outcomes.count_of_model(rollout.model_version, rollout.stage_began_at.timestamp())
    today = datetime.fromtimestamp(context.ledger.clock(), UTC).date()
    stage, day_usd = rollout.stage, context.settings.budget.day_usd
    expected = None if stage is None or stage >= len(rollout.expected_runs) else rollout.expected_runs[stage]
    owners: Counter[str] = Counter()

    def judge(without: str | None = None) -> tuple[StageVerdict, dict[control.Arm, ArmFigures]]:
        owners.clear()
        runs = outcomes.compared(rollout.model_version, rollout.began_at.timestamp())
        arms = fold(_counting(runs, owners, without), rollout.model_version, today)
        return judge_stage(
            arms.get("canary", ArmFigures()),
            arms.get("control", ArmFigures()),
            is_last=rollout.next_share == 1,
            stage_is_over=expected is not None and stage_runs >= expected,
            usd_of_day=None if day_usd is None else day_usd * rollout.share,
        ), arms

    verdict, arms = judge()
    largest = [owner for owner, _ in owners.most_common(LARGEST_OWNERS)]
    is_decisive = verdict.kind in ("promote", "stop") and not arms.get("canary", ArmFigures()).failed_checks
    if is_decisive and len(context.ledger.keys.agents() | {*owners}) > 1:
        alone = next((owner for owner in largest if judge(owner)[0].kind != verdict.kind), None)
        if alone is not None:
            why = f"{verdict.kind} only by what key {alone} asked and said: {verdict.why}"
            verdict = verdict.model_copy(update={"kind": "inconclusive", "why": why})
    return JudgedStage(verdict, arms, stage_runs, expected)


def _counting(runs: Iterable[RunOutcome], owners: Counter[str], without: str | None) -> Iterator[RunOutcome]:
    """Yield the runs but those of one owner, and count the judged ones of each."""
    for run in runs:
        if without not in (run.owner, run.label_of):
            owners[run.label_of] += run.satisfaction is not None
            yield run


def change_rollout(context: Context, becomes: control.Rollout, was: control.Rollout | None, action: str) -> None:
    """Record a step of a rollout with its event and the audit's entry, and announce it.

    Raises:
        Conflict: the rollout was changed since it was read, or another model is active.
    """
    step = becomes.history[-1]
    subject = f"model:{becomes.model_version}"
    change = ControlChange((event_of(becomes, was),), f"rollout_{action}", subject, step.operator, step.why)
    announce_control(context, context.ledger.rollouts.change(becomes, was, change))
