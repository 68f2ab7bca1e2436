"""Bulk replays of dead letters, for operators. A key of some corpora begins and sees those of these corpora alone."""

from __future__ import annotations

from typing import Annotated, TypeVar

from fastapi import APIRouter, Query, Request, Response

from api.access import Caller, Operator
from api.problems import problem_responses
from contracts.dead_letters import DeadLetterFilter, OperatorAction, ReplayPlan, ReplayRequest, ReplayView
from contracts.errors import NotFound
from ledger.dead_letters.bulk_replay import Replays
from workers.context import Context

router = APIRouter(prefix="/v1/replays", tags=["dead letters"])

MOST = 100
"""Replays that one answer lists."""

Note = Annotated[str, Query(max_length=1_000, description="Why, for whoever looks later")]
Narrowable = TypeVar("Narrowable", bound=DeadLetterFilter)


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
    asked = body.model_copy(update={"filter": narrowed(body.filter, operator)})
    if body.dry_run:
        response.status_code = 200
        return _replays(request).plan(asked.filter, force=body.force)
    return _replays(request).begin(asked, operator.owner)


@router.get("", responses=problem_responses(503), summary="Bulk replays, the newest first")
def every(
    request: Request,
    operator: Operator,
    limit: Annotated[int, Query(ge=1, le=MOST)] = 50,
    before: str | None = None,
) -> list[ReplayView]:
    """Each with how far it is; the next page is `before` the last id."""
    shown: list[ReplayView] = []
    while page := _replays(request).latest(MOST, before):
        shown += [view for view in page if _may_see(operator, view)]
        if len(shown) >= limit:
            break
        before = page[-1].id
    return shown[:limit]


@router.get("/{replay_id}", responses=problem_responses(404, 503), summary="How far one is")
def one(request: Request, replay_id: str, operator: Operator) -> ReplayView:
    """How many came back, were left out and why, are under way, succeeded, are parked again."""
    return _visible(request, replay_id, operator)


@router.get("/{replay_id}/actions", responses=problem_responses(404, 503), summary="What operators did with one")
def actions(request: Request, replay_id: str, operator: Operator) -> list[OperatorAction]:
    """Who, when, what and why, in order."""
    _visible(request, replay_id, operator)
    return list(_replays(request).actions(replay_id))


@router.post(
    "/{replay_id}/pause", responses=problem_responses(404, 409, 503, 507), summary="Bring back no more for now"
)
def pause(request: Request, replay_id: str, operator: Operator, note: Note = "") -> ReplayView:
    """What is under way goes on."""
    _visible(request, replay_id, operator)
    return _replays(request).pause(replay_id, operator.owner, note)


@router.post("/{replay_id}/resume", responses=problem_responses(404, 409, 503, 507), summary="Go on with a paused one")
def resume(request: Request, replay_id: str, operator: Operator, note: Note = "") -> ReplayView:
    """From where it was, at its rate."""
    _visible(request, replay_id, operator)
    return _replays(request).resume(replay_id, operator.owner, note)


@router.post(
    "/{replay_id}/abort", responses=problem_responses(404, 409, 503, 507), summary="Bring back no more, for good"
)
def abort(request: Request, replay_id: str, operator: Operator, note: Note = "") -> ReplayView:
    """What is under way goes on; the rest stays parked."""
    _visible(request, replay_id, operator)
    return _replays(request).abort(replay_id, operator.owner, note)


def narrowed(wanted: Narrowable, operator: Caller) -> Narrowable:
    """The filter, of the operator's corpora alone.

    Raises:
        Forbidden: it names another.
    """
    for corpus in wanted.corpora or ():
        operator.may_touch(corpus)
    return wanted.within(operator.corpora)


def _visible(request: Request, replay_id: str, operator: Caller) -> ReplayView:
    view = _replays(request).show(replay_id)
    if not _may_see(operator, view):
        raise NotFound(f"no replay {replay_id}")
    return view


def _may_see(operator: Caller, view: ReplayView) -> bool:
    corpora = view.filter.corpora
    return operator.corpora is None or (corpora is not None and operator.corpora.issuperset(corpora))


def _replays(request: Request) -> Replays:
    context: Context = request.app.state.context
    return context.ledger.replays
