"""Dead letters, for operators. A key of some corpora sees the letters of those alone."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request

from sluice.api import replays
from sluice.api.access import Operator, instance_of
from sluice.api.problems import problem_responses
from sluice.api.replays import Note
from sluice.api.tracing import request_span
from sluice.contracts.operations.dead_letters import (
    DeadLetterGroup,
    DeadLetterPage,
    DeadLetterSummary,
    DeadLetterView,
    Purged,
    PurgeRequest,
    Replayed,
)

router = APIRouter()
letters = APIRouter(prefix="/v1/dead-letters", tags=["dead letters"])

Listed = Annotated[DeadLetterPage, Query()]


async def _body(request: Request) -> bytes:
    return await request.body()


@letters.get("", responses=problem_responses(503), summary="Letters one by one, the latest first")
def some(request: Request, operator: Operator, wanted: Listed) -> list[DeadLetterSummary]:
    """Letters that meet every filter given; the next page is `before` the `position` of the last one."""
    return list(instance_of(request).dead_letters.some(wanted, operator))


@letters.get("/groups", responses=problem_responses(503), summary="What fails: a line per fingerprint")
def groups(request: Request, operator: Operator, wanted: Listed) -> list[DeadLetterGroup]:
    """Letters that failed alike, counted, with an example; paged like the letters."""
    return list(instance_of(request).dead_letters.groups(wanted, operator))


@letters.post("/purge", responses=problem_responses(409, 503, 507), summary="Empty many letters")
def purge_all(request: Request, operator: Operator, body: PurgeRequest) -> Purged:
    """Payloads and stacks go, facts stay; recorded with who and when. Ask with `dry_run` first, confirm its count."""
    return instance_of(request).dead_letters.purge_all(body, operator)


@letters.get("/{letter_id}", responses=problem_responses(404, 503), summary="One letter, whole")
def one(request: Request, letter_id: str, operator: Operator) -> DeadLetterView:
    """The envelope, the error with its stack, the counts, past payloads, and what operators did."""
    return instance_of(request).dead_letters.one(letter_id, operator)


@letters.put(
    "/{letter_id}/payload",
    responses=problem_responses(404, 409, 413, 503, 507),
    openapi_extra={"requestBody": {"required": True, "content": {"application/json": {"schema": {"type": "object"}}}}},
    summary="Put another payload in place",
)
def edit(
    request: Request,
    letter_id: str,
    operator: Operator,
    payload: Annotated[bytes, Depends(_body)],
    note: Note = "",
) -> DeadLetterView:
    """The body is the whole event, kept as it is sent; the old payload is kept too. A replay brings a new event."""
    return instance_of(request).dead_letters.edit(letter_id, payload, operator, note)


@letters.post(
    "/{letter_id}/replay", status_code=202, responses=problem_responses(404, 409, 429, 503, 507), summary="Try it again"
)
def replay(request: Request, letter_id: str, operator: Operator, force: bool = False, note: Note = "") -> Replayed:
    """Make the event ready again under its own id; recorded with who and when. Refused after three times."""
    with request_span(request, "POST /v1/dead-letters/replay"):
        return instance_of(request).dead_letters.replay(letter_id, operator, note, force=force)


@letters.delete("/{letter_id}", responses=problem_responses(404, 409, 503, 507), summary="Empty one letter")
def purge(request: Request, letter_id: str, operator: Operator, note: Note = "") -> Purged:
    """Its payload, stack and past payloads go, the facts stay; recorded with who and when."""
    return instance_of(request).dead_letters.purge(letter_id, operator, note)


router.include_router(letters)
router.include_router(replays.router)
