"""Bulk replays of dead letters, for operators. A key of some corpora begins and sees those of these corpora alone."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from sluice.api.access import Operator, instance_of
from sluice.api.problems import problem_responses
from sluice.contracts.operations.dead_letters import OperatorAction, ReplayPlan, ReplayRequest, ReplayView

router = APIRouter(prefix="/v1/replays", tags=["dead letters"])

MOST = 100
"""Replays that one answer lists."""

Note = Annotated[str, Query(max_length=1_000, description="Why, for the record")]


@router.post(
    "",
    status_code=202,
    responses={
        200: {"model": ReplayPlan, "description": "With `dry_run`: what it would do"},
        **problem_responses(503, 507),
    },
    summary="Put many letters back to work",
)
def begin(request: Request, response: Response, operator: Operator, body: ReplayRequest) -> ReplayView | ReplayPlan:
    """The reconciler brings back what the filter matches now, at the rate given; recorded with who and when.

    It aborts itself when more than a fifth of what came to an end is parked again.
    """
    replays = instance_of(request).replays
    if body.dry_run:
        response.status_code = 200
        return replays.plan(body, operator)
    return replays.begin(body, operator)


@router.get("", responses=problem_responses(503), summary="Bulk replays, the newest first")
def every(
    request: Request,
    operator: Operator,
    limit: Annotated[int, Query(ge=1, le=MOST)] = 50,
    before: str | None = None,
) -> list[ReplayView]:
    """Each with how far it is; the next page is `before` the last id."""
    return instance_of(request).replays.latest(operator, limit, before)


@router.get("/{replay_id}", responses=problem_responses(404, 503), summary="How far one is")
def one(request: Request, replay_id: str, operator: Operator) -> ReplayView:
    """How many came back, were left out and why, are under way, succeeded, are parked again."""
    return instance_of(request).replays.one(replay_id, operator)


@router.get("/{replay_id}/actions", responses=problem_responses(404, 503), summary="What operators did with one")
def actions(request: Request, replay_id: str, operator: Operator) -> list[OperatorAction]:
    """Who, when, what and why, in order."""
    return list(instance_of(request).replays.actions(replay_id, operator))


@router.post(
    "/{replay_id}/pause", responses=problem_responses(404, 409, 503, 507), summary="Bring back no more for now"
)
def pause(request: Request, replay_id: str, operator: Operator, note: Note = "") -> ReplayView:
    """What is under way goes on."""
    return instance_of(request).replays.pause(replay_id, operator, note)


@router.post("/{replay_id}/resume", responses=problem_responses(404, 409, 503, 507), summary="Go on with a paused one")
def resume(request: Request, replay_id: str, operator: Operator, note: Note = "") -> ReplayView:
    """From where it was, at its rate."""
    return instance_of(request).replays.resume(replay_id, operator, note)


@router.post(
    "/{replay_id}/abort", responses=problem_responses(404, 409, 503, 507), summary="Bring back no more, for good"
)
def abort(request: Request, replay_id: str, operator: Operator, note: Note = "") -> ReplayView:
    """What is under way goes on; the rest stays parked."""
    return instance_of(request).replays.abort(replay_id, operator, note)
