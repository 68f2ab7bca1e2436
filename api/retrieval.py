"""Direct queries: a search of the corpus as it is, without the gate."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from sluice.api.access import AnyCaller, instance_of
from sluice.api.problems import problem_responses
from sluice.api.tracing import request_span
from sluice.contracts.retrieval import Query, Retrieval
from sluice.otel.context import current_traceparent

router = APIRouter(prefix="/v1", tags=["retrieval"])


@router.post(
    "/query",
    response_model=Retrieval,
    responses=problem_responses(404, 409, 413, 503, 504),
    summary="Search the corpus as it is",
)
async def query(request: Request, body: Query, caller: AnyCaller) -> Response:
    """Ranked chunks with every score, rank and source, and the generation that they came from.

    With `minimum_journal_offset` the reply waits until what is served covers that offset. An offset that the corpus's
    journal does not have is refused at once (422).
    """
    caller.may_touch(body.corpus)
    with request_span(request, "POST /v1/query"):
        raw = await instance_of(request).query_pool.ask(body, current_traceparent())
    return Response(raw, media_type="application/json")
