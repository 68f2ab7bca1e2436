"""Feature flags: everybody reads them, operators of the whole instance change them."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import APIRouter, Request

from sluice.api.access import AnyCaller, Operator, instance_of
from sluice.api.problems import problem_responses
from sluice.api.replays import Note
from sluice.api.tracing import request_span
from sluice.contracts.learning.control import FlagState
from sluice.contracts.learning.flags import FlagRequest, FlagResult
from sluice.contracts.operations.dead_letters import OperatorAction

router = APIRouter(prefix="/v1/flags", tags=["flags"])


@router.get("", responses=problem_responses(503), summary="Every flag, and who decides it")
def every(request: Request, caller: AnyCaller) -> Sequence[FlagState]:
    """Kill switch before policy before environment before stored value before default, as this server sees them."""
    return instance_of(request).flags.states(caller)


@router.get("/{name}/history", responses=problem_responses(404, 503), summary="What operators did to a flag")
def history(request: Request, name: str, operator: Operator) -> Sequence[OperatorAction]:
    """Who, when, what and why, the first one first."""
    return instance_of(request).flags.history(name)


@router.put("/{name}", responses=problem_responses(404, 409, 503), summary="Switch a flag on or off")
def put(request: Request, name: str, body: FlagRequest, operator: Operator) -> FlagResult:
    """Takes effect within a second, everywhere. Off for search or crawl cancels what waits for it."""
    with request_span(request, "PUT /v1/flags"):
        return instance_of(request).flags.change(name, body.action, operator, body.note)


@router.delete("/{name}", responses=problem_responses(404, 503), summary="Take back what is stored of a flag")
def reset(request: Request, name: str, operator: Operator, note: Note = "") -> FlagResult:
    """Its kill switch and its stored value: environment or default decide then."""
    with request_span(request, "DELETE /v1/flags"):
        return instance_of(request).flags.change(name, "reset", operator, note)
