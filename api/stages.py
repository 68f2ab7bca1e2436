"""Stages, for operators of all corpora: what waits in each, which are paused and why; pausing and resuming by hand."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request

from sluice.api.access import InstanceOperator, instance_of
from sluice.api.problems import problem_responses
from sluice.contracts.api import StageView
from sluice.contracts.event import Queue

router = APIRouter(prefix="/v1/stages", tags=["stages"])


@router.get("", responses=problem_responses(503), summary="Every stage: what waits, and whether it is paused")
def every(request: Request, _operator: InstanceOperator) -> list[StageView]:
    """In the order of the pipeline."""
    return instance_of(request).stages()


@router.post("/{stage}/pause", responses=problem_responses(503, 507), summary="Stop handing out work of a stage")
def pause(
    request: Request,
    stage: Queue,
    operator: InstanceOperator,
    why: Annotated[str, Query(min_length=1, max_length=1_000)],
) -> list[StageView]:
    """Its events stay ready until it is resumed; what is being handled is finished. Recorded with who and when."""
    return instance_of(request).pause(stage, why, operator.owner)


@router.post("/{stage}/resume", responses=problem_responses(503, 507), summary="Go on with a stage")
def resume(request: Request, stage: Queue, operator: InstanceOperator) -> list[StageView]:
    """End a pause, the circuit breaker's too. Recorded with who and when."""
    return instance_of(request).resume(stage, operator.owner)
