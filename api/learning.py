"""Routes for evaluation and control of the gate: feedback figures, flags, steps back, rollouts of models.

Everybody reads the flags. The rest is for operators of all corpora, as the gate is one for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Query, Request

from sluice.api.access import AnyCaller, InstanceOperator, Note, Operator, instance_of, request_span
from sluice.api.problems import problem_responses
from sluice.contracts.api import DefenceView
from sluice.contracts.learning.control import DefenceName, DefencePin, FlagRequest, FlagResult, FlagState
from sluice.contracts.learning.rollout import Rollout, RolloutRequest
from sluice.contracts.operations.dead_letters import OperatorAction
from sluice.workers.service.learning.control import AbReport, lift_defence, list_defences, pin_defence
from sluice.workers.service.learning.evaluation import By, Evaluation, Rebuilt, evaluate
from sluice.workers.service.runs import GateProfile, list_profiles

flags = APIRouter(prefix="/v1/flags", tags=["flags"])
outcomes = APIRouter(prefix="/v1/evaluation", tags=["operations"])
defences = APIRouter(prefix="/v1/defences", tags=["defences"])
profiles = APIRouter(prefix="/v1/profiles", tags=["operations"])
rollouts = APIRouter(prefix="/v1/rollouts", tags=["rollouts"])
ROUTERS = (defences, flags, outcomes, profiles, rollouts)

SHOWN = timedelta(days=7)
"""Period that is evaluated if the request names none."""


@flags.get("", responses=problem_responses(503), summary="Every flag, and who decides it")
def every(request: Request, caller: AnyCaller) -> Sequence[FlagState]:
    """Return every flag as this server sees it: kill switch before policy, environment, stored value, default."""
    return instance_of(request).flags.states(caller)


@flags.get("/{name}/history", responses=problem_responses(404, 503), summary="What operators did to a flag")
def history(request: Request, name: str, operator: Operator) -> Sequence[OperatorAction]:
    """Return who did what, when and why, the first one first."""
    return instance_of(request).flags.history(name)


@flags.put("/{name}", responses=problem_responses(404, 409, 503), summary="Switch a flag on or off")
def put(request: Request, name: str, body: FlagRequest, operator: Operator) -> FlagResult:
    """Change a flag; takes effect within a second, everywhere. Off for search or crawl cancels what waits for it."""
    with request_span(request, "PUT /v1/flags"):
        return instance_of(request).flags.change(name, body.action, operator, body.note)


@flags.delete("/{name}", responses=problem_responses(404, 503), summary="Take back what is stored of a flag")
def reset(request: Request, name: str, operator: Operator, note: Note = "") -> FlagResult:
    """Remove the flag's kill switch and stored value: policy, environment or default decide then."""
    with request_span(request, "DELETE /v1/flags"):
        return instance_of(request).flags.change(name, "reset", operator, note)


@outcomes.get("", responses=problem_responses(503), summary="How the runs did: satisfaction, cost, latency, freshness")
def evaluation(
    request: Request,
    _operator: InstanceOperator,
    since: Annotated[datetime | None, Query(description="Decided since then; without it, in the last 7 days")] = None,
    by: Annotated[By, Query(description="What a row is of")] = "plan",
    profile: Annotated[str | None, Query(max_length=32, description="Of one profile alone")] = None,
) -> Evaluation:
    """Return counts, satisfaction, freshness gain, cost per successful task, latency and more, with 95 % intervals."""
    now = datetime.now(UTC)
    begin = now - SHOWN if since is None else since.replace(tzinfo=since.tzinfo or UTC)
    return evaluate(instance_of(request).context.ledger, begin, now, by, profile)


@outcomes.post("/rebuild", responses=problem_responses(503, 507), summary="Make what is known of each run again")
def rebuild(request: Request, _operator: InstanceOperator) -> Rebuilt:
    """Rebuild the outcomes from the runs' events. It takes minutes where there are many; runs go on meanwhile."""
    return Rebuilt(runs=instance_of(request).context.ledger.outcomes.rebuild())


@profiles.get("", name="every", responses=problem_responses(503), summary="The profiles of the gate")
def every_profile(request: Request, _caller: AnyCaller) -> list[GateProfile]:
    """Return name, version, hash and thresholds of each profile."""
    return list_profiles(instance_of(request).context)


@defences.get(
    "",
    name="every",
    responses=problem_responses(503),
    summary="Every defence of the gate, and whether it has stepped back",
)
def every_defence(request: Request, _operator: InstanceOperator) -> list[DefenceView]:
    """Return them by name and profile, with what their latest windows showed."""
    return list_defences(instance_of(request).context.ledger)


@defences.delete("/{name}", responses=problem_responses(404, 409, 503, 507), summary="End a step back before it heals")
def lift(
    request: Request,
    name: DefenceName,
    operator: InstanceOperator,
    profile: Annotated[str | None, Query(max_length=32)] = None,
    corpus: Annotated[str | None, Query(max_length=63)] = None,
    note: Annotated[str, Query(max_length=1_000)] = "",
) -> list[DefenceView]:
    """End the steps back in a profile and a corpus, or all. Their windows begin anew. Recorded with who, when, why."""
    return list(lift_defence(instance_of(request).context, name, operator.owner, profile, note, corpus))


@defences.put("/{name}", responses=problem_responses(409, 503, 507), summary="Hold a defence on or off")
def pin(request: Request, name: DefenceName, operator: InstanceOperator, body: DefencePin) -> list[DefenceView]:
    """Hold a defence for a profile, a corpus or both, whatever the outcomes. Recorded with who, when and why."""
    return list(pin_defence(instance_of(request).context, name, body, operator.owner))


@rollouts.get("", responses=problem_responses(503), summary="Every model that was tried, the active one first")
def some(request: Request, operator: InstanceOperator) -> list[Rollout]:
    """Return the rollout of each model, with every step."""
    return list(instance_of(request).rollouts.all())


@rollouts.post("", responses=problem_responses(404, 409, 503), summary="Try a model, promote it, or end its part")
def apply(request: Request, operator: InstanceOperator, body: RolloutRequest) -> Rollout:
    """Change a model's part from the next decision on; recorded with who, when and why."""
    return instance_of(request).rollouts.apply(body, operator.owner)


@rollouts.get("/{version}/report", responses=problem_responses(404, 503), summary="The A/B report on a model")
def report(request: Request, operator: InstanceOperator, version: str) -> AbReport:
    """Compare the arms since the model's trial began, and list where its plans differ from those of the weights."""
    return instance_of(request).rollouts.report(version)
