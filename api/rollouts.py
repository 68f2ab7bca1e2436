"""Models of the gate on their way, for operators of the whole instance: the gate is one for all corpora."""

from __future__ import annotations

from fastapi import APIRouter, Request

from sluice.api.access import InstanceOperator, instance_of
from sluice.api.problems import problem_responses
from sluice.contracts.learning.rollout import Rollout, RolloutRequest
from sluice.workers.service.learning.rollouts import AbReport

router = APIRouter(prefix="/v1/rollouts", tags=["rollouts"])


@router.get("", responses=problem_responses(503), summary="Every model that was tried, the active one first")
def some(request: Request, operator: InstanceOperator) -> list[Rollout]:
    """How each model stands, and each step that it took."""
    return list(instance_of(request).rollouts.all())


@router.post("", responses=problem_responses(404, 409, 503), summary="Try a model, promote it, or end its part")
def apply(request: Request, operator: InstanceOperator, body: RolloutRequest) -> Rollout:
    """It counts from the next decision on; recorded with who, when and why."""
    return instance_of(request).rollouts.apply(body, operator.owner)


@router.get("/{version}/report", responses=problem_responses(404, 503), summary="The A/B report on a model")
def report(request: Request, operator: InstanceOperator, version: str) -> AbReport:
    """The arms side by side since the model's trial began, and where its plans differ from those of the weights."""
    return instance_of(request).rollouts.report(version)
