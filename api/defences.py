"""The gate's steps back, for operators of all corpora: which stand and why; ending one before it heals."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request

from sluice.api.access import InstanceOperator, instance_of
from sluice.api.problems import problem_responses
from sluice.contracts.api import DefenceView
from sluice.contracts.learning.control import DefenceName

router = APIRouter(prefix="/v1/defences", tags=["defences"])


@router.get("", responses=problem_responses(503), summary="Every defence of the gate, and whether it has stepped back")
def every(request: Request, _operator: InstanceOperator) -> list[DefenceView]:
    """By name and profile, with what their latest windows showed."""
    return instance_of(request).defences()


@router.delete("/{name}", responses=problem_responses(404, 409, 503, 507), summary="End a step back before it heals")
def lift(
    request: Request,
    name: DefenceName,
    operator: InstanceOperator,
    profile: Annotated[str | None, Query(max_length=32)] = None,
    note: Annotated[str, Query(max_length=1_000)] = "",
) -> list[DefenceView]:
    """Of one profile, or of all. Its windows begin anew. Recorded with who, when and why."""
    return instance_of(request).lift_defence(name, profile, note, operator.owner)
