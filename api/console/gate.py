"""The gate: its decisions by the hour, what it weighs, its flags, its defences, and the models on trial."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, get_args

from fastapi import Query, Response

from sluice.api.console.figures import stacked
from sluice.api.console.frame import OperatingAll, pages
from sluice.contracts.errors import InvalidInput, checked
from sluice.contracts.learning.control import FlagAction, FlagRequest, RolloutRequest
from sluice.contracts.plan import Plan
from sluice.workers.service.learning.control import lift_defence, list_defences
from sluice.workers.service.learning.evaluation import By, evaluate, plans_by_hour
from sluice.workers.service.runs import list_profiles

gate = pages()
HOURS = 24
MOST_EVALUATED = 5_000
"""Runs that a page evaluates: a hundred milliseconds or so."""
EVERY = "*"
"""What a defence of no certain profile or corpus names."""
PLANS = tuple(plan.value for plan in Plan)


@gate.get("/gate")
def show(visit: OperatingAll) -> Response:
    """Show what the gate decided lately, and what steers it."""
    context, hours = visit.instance.context, plans_by_hour(visit.instance.context.ledger, HOURS)
    columns = [(f"{one.at:%H:%M}", {plan.value: count for plan, count in one.plans.items()}) for one in hours]
    return visit.show(
        "gate.html",
        hours=hours,
        bars=stacked(columns, PLANS),
        plans=PLANS,
        profiles=list_profiles(context),
        rollouts=visit.instance.rollouts.all(),
        defences=list_defences(context.ledger),
        flags=visit.instance.flags.states(visit.caller),
        flag_actions=get_args(FlagAction),
    )


@gate.get("/gate/evaluation")
def evaluation(visit: OperatingAll, hours: Annotated[int, Query(ge=1, le=48)] = HOURS, by: By = "plan") -> Response:
    """Show how the runs of some hours did; where these are too many for a page, how to ask for it."""
    ledger, now = visit.instance.context.ledger, datetime.now(UTC)
    decided = sum(sum(one.plans.values()) for one in plans_by_hour(ledger, hours))
    found = evaluate(ledger, now - timedelta(hours=hours), now, by) if decided <= MOST_EVALUATED else None
    return visit.show("evaluation.html", hours=hours, by=by, groups=get_args(By), decided=decided, found=found)


@gate.get("/gate/models/{version}")
def model(visit: OperatingAll, version: str) -> Response:
    """Show one model on trial: where its plans differ, and the verdict on it."""
    rollouts = visit.instance.rollouts
    return visit.show("model.html", rollout=rollouts.find(version), report=rollouts.report(version))


@gate.post("/gate/flags/{name}")
def change_flag(visit: OperatingAll, name: str) -> Response:
    """Switch a flag on or off, kill it, or take back what is stored."""
    action = visit.form.get("action", "")
    if action not in get_args(FlagAction):
        raise InvalidInput("action", f"one of {', '.join(get_args(FlagAction))}")
    note = visit.note(why=": whoever finds it changed reads it")
    checked(FlagRequest, enabled=True, note=note)
    done = visit.instance.flags.change(name, action, visit.caller, note)  # type: ignore[arg-type]
    purged = f"; {done.purged} directives that waited for it are cancelled" if done.purged else ""
    state = f"{'on' if done.state.enabled else 'off'}, decided by {done.state.decided_by.replace('_', ' ')}"
    return visit.done(f"The flag {name} is {state}{purged}.")


@gate.post("/gate/defences/lift")
def lift(visit: OperatingAll) -> Response:
    """End a step back before it heals."""
    told = {name: value for name in ("profile", "corpus") if (value := visit.form.get(name, EVERY)) != EVERY}
    name, context = visit.form.get("name", ""), visit.instance.context
    lift_defence(context, name, visit.caller.owner, **told, note=visit.note())  # type: ignore[arg-type]
    return visit.done(f"The step back {name} is lifted; its windows begin anew.")


@gate.post("/gate/models/{version}/stop")
def stop(visit: OperatingAll, version: str) -> Response:
    """End a model's part in decisions."""
    request = checked(RolloutRequest, action="stop", version=version, note=visit.note())
    visit.instance.rollouts.apply(request, visit.caller.owner)
    return visit.done(f"Model {version} has no part in decisions any more.")


ROUTERS = (gate,)
