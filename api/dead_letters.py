"""Dead letters and their bulk replays, for operators. A key of some corpora sees the letters of those alone."""

from __future__ import annotations

from operator import attrgetter
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response

from sluice.api.access import Note, Operator, instance_of
from sluice.api.lists import Cursor, paged, position, whole
from sluice.api.problems import problems
from sluice.api.requests import about_run
from sluice.contracts.api import Page
from sluice.contracts.operations import dead_letters as values

letters = APIRouter(prefix="/v1/dead-letters", tags=["dead letters"])
replays = APIRouter(prefix="/v1/replays", tags=["replays"])
ROUTERS = (letters, replays)

Listed = Annotated[values.DeadLetterPage, Query()]

MOST = 100
"""Replays that one answer lists."""


async def _body(request: Request) -> bytes:
    return await request.body()


@letters.get("", responses=problems(503), summary="Letters one by one, the latest first")
def some(request: Request, operator: Operator, wanted: Listed) -> Page[values.DeadLetterSummary]:
    """Return letters that meet every given filter."""
    letters = instance_of(request).dead_letters
    return paged(request, wanted.limit, lambda *part: letters.some(wanted.part(*part), operator), position)


@letters.get("/groups", responses=problems(503), summary="What fails: a line per fingerprint")
def groups(request: Request, operator: Operator, wanted: Listed) -> Page[values.DeadLetterGroup]:
    """Count letters that failed alike, each group with an example."""
    letters = instance_of(request).dead_letters
    return paged(request, wanted.limit, lambda *part: letters.groups(wanted.part(*part), operator), position)


@letters.post("/purge", responses=problems(409, 503, 507), summary="Empty many letters")
def purge_all(request: Request, operator: Operator, body: values.PurgeRequest) -> values.Purged:
    """Remove payloads and stacks, keep the facts; records who and when. Ask with `dry_run` first, confirm its count."""
    return instance_of(request).dead_letters.purge_all(body, operator)


@letters.get("/{letter_id}", responses=problems(404, 503, 507), summary="One letter, whole")
def one(request: Request, letter_id: str, operator: Operator) -> values.DeadLetterView:
    """Return the envelope, the error with its stack, the counts, the attempts, past payloads, the latest event of the
    kind that was handled, and what operators did. That somebody looked is recorded."""
    return about_run(request, instance_of(request).dead_letters.look(letter_id, operator))


@letters.put(
    "/{letter_id}/payload",
    responses=problems(404, 409, 413, 503, 507),
    openapi_extra={"requestBody": {"required": True, "content": {"application/json": {"schema": {"type": "object"}}}}},
    summary="Put another payload in place",
)
def edit(
    request: Request, letter_id: str, operator: Operator, payload: Annotated[bytes, Depends(_body)], note: Note = ""
) -> values.DeadLetterView:
    """Replace the payload by the body: a whole event, kept as sent. The old one stays. A replay brings a new event."""
    return about_run(request, instance_of(request).dead_letters.edit(letter_id, payload, operator, note))


@letters.post(
    "/{letter_id}/replay", status_code=202, responses=problems(404, 409, 429, 503, 507), summary="Try it again"
)
def replay(
    request: Request, letter_id: str, operator: Operator, force: bool = False, note: Note = ""
) -> values.Replayed:
    """Replay the event, under a new id only if it was edited. Recorded with who and when; the fourth needs `force`."""
    return about_run(request, instance_of(request).dead_letters.replay(letter_id, operator, note, force=force))


@letters.delete("/{letter_id}", responses=problems(404, 409, 503, 507), summary="Empty one letter")
def purge(request: Request, letter_id: str, operator: Operator, note: Note = "") -> values.Purged:
    """Remove its payload, stack and past payloads, and keep the facts; recorded with who and when."""
    return instance_of(request).dead_letters.purge(letter_id, operator, note)


@replays.post(
    "",
    status_code=202,
    responses={
        200: {"model": values.ReplayPlan, "description": "With `dry_run`: what it would do"},
        **problems(409, 503, 507),
    },
    summary="Put many letters back to work",
)
def begin(
    request: Request, response: Response, operator: Operator, body: values.ReplayRequest
) -> values.ReplayView | values.ReplayPlan:
    """Have the reconciler replay the letters that match now, at the given rate; recorded with who and when. The replay
    aborts itself when more than a fifth of those that came to an end are parked again."""
    if body.dry_run:
        response.status_code = 200
    return instance_of(request).dead_letters.begin_replay(body, operator)


@replays.get("", responses=problems(503), summary="Bulk replays, the newest first")
def every(
    request: Request, operator: Operator, limit: Annotated[int, Query(ge=1, le=MOST)] = 50, cursor: Cursor = None
) -> Page[values.ReplayView]:
    """Return each replay with its progress."""
    letters = instance_of(request).dead_letters
    return paged(request, limit, lambda *part: letters.latest_replays(operator, *part), attrgetter("id"))


@replays.get("/{replay_id}", name="one", responses=problems(404, 503), summary="How far one is")
def one_replay(request: Request, replay_id: str, operator: Operator) -> values.ReplayView:
    """Count the letters that came back, were left out and why, are under way, succeeded, are parked again."""
    return instance_of(request).dead_letters.show_replay(replay_id, operator)


@replays.get("/{replay_id}/actions", responses=problems(404, 503), summary="What operators did with one")
def actions(request: Request, replay_id: str, operator: Operator) -> Page[values.OperatorAction]:
    """Return who did what, when and why, in order."""
    return whole(instance_of(request).dead_letters.replay_actions(replay_id, operator))


@replays.post("/{replay_id}/pause", responses=problems(404, 409, 503, 507), summary="Bring back no more for now")
def pause(request: Request, replay_id: str, operator: Operator, note: Note = "") -> values.ReplayView:
    """Pause the replay. What is under way goes on."""
    return instance_of(request).dead_letters.change_replay(replay_id, "pause", operator, note)


@replays.post("/{replay_id}/resume", responses=problems(404, 409, 503, 507), summary="Go on with a paused one")
def resume(request: Request, replay_id: str, operator: Operator, note: Note = "") -> values.ReplayView:
    """Resume the replay from where it was, at its rate."""
    return instance_of(request).dead_letters.change_replay(replay_id, "resume", operator, note)


@replays.post("/{replay_id}/abort", responses=problems(404, 409, 503, 507), summary="Bring back no more, for good")
def abort(request: Request, replay_id: str, operator: Operator, note: Note = "") -> values.ReplayView:
    """End the replay for good. What is under way goes on; the rest stays parked."""
    return instance_of(request).dead_letters.change_replay(replay_id, "abort", operator, note)
