"""Dead letters, for operators."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request

from contracts.api import DeadLetterView, Replayed
from contracts.errors import NotFound
from contracts.event import decode
from workers.dead_letters import ParkedLetter
from workers.http.access import Caller, Operator
from workers.http.problems import problem_responses
from workers.ledger import Ledger
from workers.parts import Parts

router = APIRouter(prefix="/v1/dead-letters", tags=["dead letters"])

MOST = 1_000
"""Letters that one answer lists, and among which those of an operator's corpora are looked for."""


@router.get("", responses=problem_responses(503), summary="Parked events, the latest first")
def some(
    request: Request,
    operator: Operator,
    stage: str | None = None,
    reason: str | None = None,
    fingerprint: str | None = None,
    run_id: str | None = None,
    status: str | None = "parked",
    limit: Annotated[int, Query(ge=1, le=MOST)] = 100,
) -> list[DeadLetterView]:
    """Dead letters that meet every filter given."""
    letters = _ledger(request).dead_letters.list(
        stage=stage,
        reason=reason,
        fingerprint=fingerprint,
        run_id=run_id,
        status=status,
        limit=limit if operator.corpora is None else MOST,
    )
    shown = [letter for letter in letters if _may_see(operator, letter)]
    return [DeadLetterView.model_validate(letter) for letter in shown[:limit]]


@router.get("/{letter_id}", responses=problem_responses(404, 503), summary="One dead letter, whole")
def one(request: Request, letter_id: str, operator: Operator) -> DeadLetterView:
    """The envelope, the error with its stack, and the counts."""
    return DeadLetterView.model_validate(_visible(request, letter_id, operator))


@router.post(
    "/{letter_id}/replay", status_code=202, responses=problem_responses(404, 409, 429, 503), summary="Try it again"
)
def replay(
    request: Request,
    letter_id: str,
    operator: Operator,
    force: bool = False,
    note: Annotated[str, Query(max_length=1_000)] = "",
) -> Replayed:
    """Make the event ready again under its own id; recorded with who and when. Refused after three times."""
    _visible(request, letter_id, operator)
    parts: Parts = request.app.state.parts
    event = parts.ledger.dead_letters.replay(letter_id, operator.owner, force=force, note=note)
    parts.transport.publish([event])
    return Replayed(dead_letter_id=letter_id, event_id=event.id, run_id=event.run_id)


def _visible(request: Request, letter_id: str, operator: Caller) -> ParkedLetter:
    letter = _ledger(request).dead_letters.show(letter_id)
    if not _may_see(operator, letter):
        raise NotFound(f"no dead letter {letter_id}")
    return letter


def _may_see(operator: Caller, letter: ParkedLetter) -> bool:
    """Whether the letter is of a corpus of the operator's. One that is no event is of none."""
    if operator.corpora is None:
        return True
    return letter.event_id is not None and decode(letter.payload).corpus in operator.corpora


def _ledger(request: Request) -> Ledger:
    ledger: Ledger = request.app.state.ledger
    return ledger
