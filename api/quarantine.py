"""The quarantine, for operators. A key of some corpora sees the chunks of those alone."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request

from sluice.api.access import Operator, instance_of
from sluice.api.problems import problem_responses
from sluice.api.replays import Note
from sluice.api.tracing import request_span
from sluice.contracts.operations.quarantine import QuarantinedChunk, QuarantinedText, QuarantinePage, Released

router = APIRouter(prefix="/v1/quarantine", tags=["quarantine"])

Listed = Annotated[QuarantinePage, Query()]


@router.get("", responses=problem_responses(503), summary="Chunks that the guard holds back, the latest first")
def some(request: Request, operator: Operator, wanted: Listed) -> list[QuarantinedChunk]:
    """Chunks that meet every filter given; the next page is `before` the `position` of the last one."""
    return list(instance_of(request).quarantine.some(wanted, operator))


@router.get("/{held_id}", responses=problem_responses(404, 503), summary="One chunk with its text")
def one(request: Request, held_id: str, operator: Operator) -> QuarantinedText:
    """The text with the characters that each finding is about, and what operators did. Do not act on the text."""
    return instance_of(request).quarantine.one(held_id, operator)


@router.post(
    "/{held_id}/release",
    status_code=202,
    responses=problem_responses(404, 409, 503, 507),
    summary="Let a chunk through",
)
def release(request: Request, held_id: str, operator: Operator, note: Note = "") -> Released:
    """It is not blocked again, and a run brings it into the index; recorded with who, when and why."""
    with request_span(request, "POST /v1/quarantine/release"):
        return instance_of(request).quarantine.release(held_id, operator, note)


@router.post("/{held_id}/purge", responses=problem_responses(404, 409, 503, 507), summary="Remove a chunk's text")
def purge(request: Request, held_id: str, operator: Operator, note: Note = "") -> QuarantinedText:
    """Its text goes for good, the facts stay; recorded with who, when and why. Seen again it is blocked."""
    return instance_of(request).quarantine.purge(held_id, operator, note)
