"""Evaluates recorded runs: their figures, their decisions computed again, and the packet of a review."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel

from sluice.contracts.base import Moment, Value
from sluice.contracts.errors import InvalidInput, SluiceError
from sluice.contracts.gate import CoverageProbed, GateDecided, GateRequested
from sluice.contracts.learning.control import NO_CONTROL, Arm
from sluice.contracts.learning.run_outcome import RunOutcome
from sluice.contracts.plan import Plan
from sluice.evaluation.decision_replay import DecisionReplay, ReplayedDecision, cost_by_plan, summarise_replay
from sluice.evaluation.report import read_report
from sluice.evaluation.retrieval.report import read_retrieval_report
from sluice.evaluation.review import Incident, ReviewPacket, WeightChange, read_benchmarks
from sluice.evaluation.run_totals import RunTotals, Summary, summarise, total_by
from sluice.gate.decide import decide, depends_on_sentences
from sluice.gate.profile import PROFILES_DIR, Profile, choose_profile, load_profile, load_profiles
from sluice.ledger.ledger import Ledger
from sluice.trust.redteam import RedTeamReport
from sluice.workers.context import Context

_RUNS_AT_ONCE = 100
_WEIGHED = ("weights", "thresholds", "scales", "calibration")
"""The parts of a profile whose changes a review shows."""

By = Literal["plan", "profile", "model", "flags"]


class EvaluationRow(Value):
    """The runs of one profile; grouped by plan, model or flags, of one plan, of one model and its arm, or with the same
    flags off (as `flags` names them)."""

    profile: str
    plan: Plan | None = None
    model_version: str | None = None
    arm: Arm | None = None
    flags: str | None = None
    summary: Summary


class Evaluation(Value):
    """`GET /v1/evaluation`: how the runs did that were decided from `since` to before `until`."""

    since: Moment
    until: Moment
    by: By
    rows: tuple[EvaluationRow, ...]
    total: Summary


class PlanHour(Value):
    """The decisions of one hour, by plan."""

    at: Moment
    plans: dict[Plan, int]


class Rebuilt(Value):
    """The number of runs whose outcomes were made again from their events."""

    runs: int


_KEYS: dict[By, tuple[str, ...]] = {
    "plan": ("profile", "plan"),
    "profile": ("profile",),
    "model": ("profile", "model_version", "arm"),
    "flags": ("profile", "flags"),
}
"""The fields of a run that distinguish the rows."""


def evaluate(
    ledger: Ledger, since: datetime, until: datetime, by: By = "plan", profile: str | None = None
) -> Evaluation:
    """Summarise the runs of that time, of one profile or of all; feedback counts whenever it came.

    A million runs take half a minute of one processor, and the memory of one.
    """
    runs = decided_runs(ledger, since, until, profile=profile)
    totals_of = total_by(runs, lambda run: tuple(getattr(run, name) for name in _KEYS[by]))
    total = RunTotals()
    for totals in totals_of.values():
        total.merge(totals)
    rows = sorted(totals_of.items(), key=lambda pair: tuple(str(part or "") for part in pair[0]))
    return Evaluation(
        since=since,
        until=until,
        by=by,
        rows=tuple(
            EvaluationRow(**dict(zip(_KEYS[by], key, strict=True)), summary=summarise(totals)) for key, totals in rows
        ),
        total=summarise(total),
    )


def plans_by_hour(ledger: Ledger, hours: int) -> list[PlanHour]:
    """Count the decisions of each plan in each of the last hours, the present one included, the oldest first."""
    first = int(ledger.clock() // 3_600) - hours + 1
    by_hour: dict[int, dict[Plan, int]] = {first + place: {} for place in range(hours)}
    for (plan, hour), count in ledger.outcomes.plans_by_hour(3_600.0 * first).items():
        if hour in by_hour:
            by_hour[hour][plan] = count
    return [PlanHour(at=datetime.fromtimestamp(3_600 * hour, UTC), plans=plans) for hour, plans in by_hour.items()]


def decided_runs(
    ledger: Ledger,
    since: datetime,
    until: datetime | None = None,
    *,
    corpus: str | None = None,
    profile: str | None = None,
) -> Iterator[RunOutcome]:
    """Yield the runs decided from `since` to before `until` (None: now), of one corpus or profile, or of all."""
    for run in ledger.outcomes.decided_between(since.timestamp(), until.timestamp() if until else math.inf):
        if corpus in (None, run.corpus) and profile in (None, run.profile):
            yield run


def replay_decisions(
    context: Context, named: str, since: datetime, *, corpus: str | None = None, profile: str | None = None
) -> DecisionReplay:
    """Compare the plans and costs of the gate runs since then with those that the configuration `named` would decide.

    `named` is a profile by its name (its highest version), `name.vN`, or a file of one. Rules, budgets, flags and steps
    back are those of each record; a learned model takes no part, so that profiles alone are compared.

    Raises `InvalidInput` if there is no such profile, and `InvalidSetting` if its file does not fit.
    """
    new = read_profile(named, context.settings.gate.profiles_dir)
    costs, replayed = (decided_runs(context.ledger, since, corpus=corpus, profile=profile) for _ in range(2))
    decisions = (_replayed(context, run.run_id, new) for run in replayed)
    return summarise_replay(decisions, cost_by_plan(costs), f"{new.name}.v{new.version}", new.config_hash)


def read_profile(named: str, profiles_dir: Path | None) -> Profile:
    """Return a profile by its name, its name and version, or its file.

    Raises `InvalidInput` if there is none, and `InvalidSetting` if its file does not fit.
    """
    files = {path.stem: path for folder in (PROFILES_DIR, profiles_dir) if folder for path in folder.glob("*.toml")}
    if named in files:
        return load_profile(files[named], files)
    path = Path(named)
    if path.suffix == ".toml":
        if not path.is_file():
            raise InvalidInput("profile", f"no file {named}", f"a file, or one of {', '.join(sorted(files))}")
        return load_profile(path, files | {path.stem: path})
    return choose_profile(load_profiles(profiles_dir), named)


def _replayed(context: Context, run_id: str, new: Profile) -> ReplayedDecision | None:
    """Decide a run again by the new profile; None if its record does not hold all that it needs."""
    requested, probed, decided = (
        context.ledger.events_of_kind(run_id, kind.kind) for kind in (GateRequested, CoverageProbed, GateDecided)
    )
    if not (requested and probed and decided):
        return None
    request, before = requested[0].body_as(GateRequested), decided[-1].body_as(GateDecided)
    measured = probed[-1].body_as(CoverageProbed)
    is_measured = all(sentence.similarity is not None for sentence in measured.sentences)
    control = (before.control or NO_CONTROL).model_copy(update={"model": None, "fallback_from": None})
    after = decide(request, measured, new, before.policy, before.budget, before.decided_at, control)
    return ReplayedDecision(
        run_id=run_id,
        query=request.query,
        before=before.plan,
        after=after.plan,
        score_before=before.score,
        score_after=after.score,
        is_uncertain=not is_measured and depends_on_sentences(request, measured, new),
    )


def make_packet(
    context: Context, since: datetime, now: datetime, reports: Sequence[Path], redteam: Sequence[Path]
) -> ReviewPacket:
    """Make the packet from `since` to `now`. Raises `InvalidInput` if a report or a result cannot be read."""
    plans: dict[str, dict[str, Summary]] = {}
    for by in ("plan", "profile"):
        for row in evaluate(context.ledger, since, now, by=by).rows:
            plans.setdefault(row.profile, {})[str(row.plan) if by == "plan" else "all"] = row.summary
    return ReviewPacket(
        since=since,
        made_at=now,
        sluice_version=version("sluice"),
        configurations=tuple(_configurations(context, since)),
        plans=plans,
        benchmarks=read_benchmarks([(path, read_retrieval_report(path)) for path in reports]),
        incidents=tuple(_incidents(context, since)),
        red_team={
            one.channel: {"sent": one.sent, "kept out": one.kept_out, "warned": one.warned, "unmarked": one.unmarked}
            for path in redteam
            for one in read_report(path, RedTeamReport, "sluice eval redteam --json").channels
        },
    )


def _configurations(context: Context, since: datetime) -> Iterator[WeightChange]:
    """Yield the configurations that first decided since then, each with what differs from the one before."""
    last: dict[str, dict[str, str]] = {}
    for profile, config_hash, moment in context.ledger.configurations.all():
        values = _values(context, config_hash)
        before, last[profile] = last.get(profile), values
        if moment >= since.timestamp():
            names = sorted({*values, *(before or {})})
            yield WeightChange(
                profile=profile,
                config_hash=config_hash,
                since=datetime.fromtimestamp(moment, UTC),
                changed={
                    name: (before.get(name, "-"), values.get(name, "-"))
                    for name in names
                    if before is not None and before.get(name) != values.get(name)
                },
            )


def _values(context: Context, config_hash: str) -> dict[str, str]:
    """Return the weighed parts of a configuration, flat; empty if its profile is not kept any more."""
    sha256, _, model = config_hash.partition("+")
    try:
        profile = Profile.from_bytes(context.blobs.named(sha256)).model_dump(mode="json")
    except SluiceError:
        return {}
    flat = {f"{part}.{name}": str(value) for part in _WEIGHED for name, value in (profile.get(part) or {}).items()}
    return flat | ({"model": model} if model else {})


def _incidents(context: Context, since: datetime) -> Iterator[Incident]:
    """Return the incidents that steered the gate since then, the oldest first."""
    found: list[Incident] = []
    before: str | None = None
    while page := context.ledger.runs(_RUNS_AT_ONCE, before, kind="control"):
        before = page[-1].run_id
        for run in page:
            if run.created_at < since:
                return iter(reversed(found))
            for _, event in reversed(context.ledger.events_after(run.run_id)):
                if event.kind != "RunFinished":
                    said = [(name, value) for name, value in event.body if value not in (None, "", ())]
                    told = ", ".join(f"{name} {_said(value)}" for name, value in said)
                    found.append(Incident(at=event.occurred_at, kind=event.kind, told=told))
    return iter(reversed(found))


def _said(value: Any) -> str:
    if isinstance(value, BaseModel):
        return f"({', '.join(f'{name} {_said(part)}' for name, part in value)})"
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M} UTC"
    return f"{len(value)} of them" if isinstance(value, tuple) else str(value)
