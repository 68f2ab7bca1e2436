"""Dead letters, for operators."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request

from contracts.api import DeadLetterView, Replayed
from workers.http.access import Operator
from workers.http.problems import problem_responses
from workers.parts import Parts

router = APIRouter(prefix="/v1/dead-letters", tags=["dead letters"])


@router.get("", responses=problem_responses(422, 503), summary="Parked events, the latest first")
def some(
    request: Request,
    _operator: Operator,
    stage: str | None = None,
    reason: str | None = None,
    fingerprint: str | None = None,
    run_id: str | None = None,
    status: str | None = "parked",
    limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
) -> list[DeadLetterView]:
    """Dead letters that meet every filter given."""
    letters = request.app.state.ledger.dead_letters.list(
        stage=stage, reason=reason, fingerprint=fingerprint, run_id=run_id, status=status, limit=limit
    )
    return [DeadLetterView.model_validate(letter) for letter in letters]


@router.get("/{letter_id}", responses=problem_responses(404, 503), summary="One dead letter, whole")
def one(request: Request, letter_id: str, _operator: Operator) -> DeadLetterView:
    """The envelope, the error with its stack, and the counts."""
    return DeadLetterView.model_validate(request.app.state.ledger.dead_letters.show(letter_id))


@router.post("/{letter_id}/replay", status_code=202, responses=problem_responses(404, 409, 503), summary="Try it again")
def replay(
    request: Request,
    letter_id: str,
    operator: Operator,
    force: bool = False,
    note: Annotated[str, Query(max_length=1_000)] = "",
) -> Replayed:
    """Make the event ready again under its own id; recorded with who and when. Refused after three times."""
    parts: Parts = request.app.state.parts
    event = parts.ledger.dead_letters.replay(letter_id, operator.owner, force=force, note=note)
    parts.transport.publish([event])
    return Replayed(dead_letter_id=letter_id, event_id=event.id, run_id=event.run_id)
