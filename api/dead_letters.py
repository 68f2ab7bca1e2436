"""Dead letters, for operators. A key of some corpora sees the letters of those alone."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request

from api import replays
from api.access import Caller, Operator
from api.problems import problem_responses
from api.replays import Note, narrowed
from api.tracing import request_span
from contracts.dead_letters import (
    DeadLetterGroup,
    DeadLetterPage,
    DeadLetterSummary,
    DeadLetterView,
    Purged,
    PurgeRequest,
    Replayed,
)
from contracts.errors import InvalidInput, NotFound
from ledger.dead_letters.store import DeadLetters
from workers.context import Context

router = APIRouter()
letters = APIRouter(prefix="/v1/dead-letters", tags=["dead letters"])

Listed = Annotated[DeadLetterPage, Query()]


async def _body(request: Request) -> bytes:
    return await request.body()


@letters.get("", responses=problem_responses(503), summary="Letters one by one, the latest first")
def some(request: Request, operator: Operator, wanted: Listed) -> list[DeadLetterSummary]:
    """Letters that meet every filter given; the next page is `before` the `position` of the last one."""
    return list(_dead_letters(request).list(narrowed(wanted, operator)))


@letters.get("/groups", responses=problem_responses(503), summary="What fails: a line per fingerprint")
def groups(request: Request, operator: Operator, wanted: Listed) -> list[DeadLetterGroup]:
    """Letters that failed alike, counted, with an example; paged like the letters."""
    return list(_dead_letters(request).groups(narrowed(wanted, operator)))


@letters.post("/purge", responses=problem_responses(409, 503, 507), summary="Empty many letters")
def purge_all(request: Request, operator: Operator, body: PurgeRequest) -> Purged:
    """Payloads and stacks go, facts stay; recorded with who and when. Ask with `dry_run` first, confirm its count."""
    wanted = narrowed(body.filter, operator)
    if body.dry_run:
        return Purged(matching=_dead_letters(request).count_to_purge(wanted), purged=0)
    if body.confirm is None:
        raise InvalidInput("confirm", "missing", "send the count that the same request with dry_run gave")
    return _dead_letters(request).purge_all(wanted, operator.owner, expected=body.confirm, note=body.note)


@letters.get("/{letter_id}", responses=problem_responses(404, 503), summary="One letter, whole")
def one(request: Request, letter_id: str, operator: Operator) -> DeadLetterView:
    """The envelope, the error with its stack, the counts, past payloads, and what operators did."""
    return _visible(request, letter_id, operator)


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
    _visible(request, letter_id, operator)
    return _dead_letters(request).edit(letter_id, payload, operator.owner, note)


@letters.post(
    "/{letter_id}/replay", status_code=202, responses=problem_responses(404, 409, 429, 503, 507), summary="Try it again"
)
def replay(request: Request, letter_id: str, operator: Operator, force: bool = False, note: Note = "") -> Replayed:
    """Make the event ready again under its own id; recorded with who and when. Refused after three times."""
    _visible(request, letter_id, operator)
    context: Context = request.app.state.context
    with request_span(request, "POST /v1/dead-letters/replay"):
        event = context.ledger.dead_letters.replay(letter_id, operator.owner, force=force, note=note)
        context.transport.publish([event])
        context.transport.announce([event])
    return Replayed(dead_letter_id=letter_id, event_id=event.id, run_id=event.run_id)


@letters.delete("/{letter_id}", responses=problem_responses(404, 409, 503, 507), summary="Empty one letter")
def purge(request: Request, letter_id: str, operator: Operator, note: Note = "") -> Purged:
    """Its payload, stack and past payloads go, the facts stay; recorded with who and when."""
    _visible(request, letter_id, operator)
    _dead_letters(request).purge(letter_id, operator.owner, note)
    return Purged(matching=1, purged=1)


router.include_router(letters)
router.include_router(replays.router)


def _visible(request: Request, letter_id: str, operator: Caller) -> DeadLetterView:
    """The letter, if it is of a corpus of the operator's. One that is no event is of none."""
    letter = _dead_letters(request).show(letter_id)
    if operator.corpora is not None and letter.corpus not in operator.corpora:
        raise NotFound(f"no dead letter {letter_id}")
    return letter


def _dead_letters(request: Request) -> DeadLetters:
    context: Context = request.app.state.context
    return context.ledger.dead_letters
