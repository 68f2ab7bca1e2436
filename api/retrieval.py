"""Direct queries: a search of the corpus as it is, without the gate."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from api.access import AnyCaller
from api.problems import problem_responses
from api.tracing import request_span
from contracts.retrieval import Query, Retrieval
from otel.context import current_traceparent
from workers.broker.direct_query import ask_query_pool

router = APIRouter(prefix="/v1", tags=["retrieval"])


@router.post(
    "/query",
    response_model=Retrieval,
    responses=problem_responses(404, 409, 413, 503, 504),
    summary="Search the corpus as it is",
)
def query(request: Request, body: Query, caller: AnyCaller) -> Response:
    """Ranked chunks with every score, rank and source, and the generation that they came from."""
    caller.may_touch(body.corpus)
    state = request.app.state
    with request_span(request, "POST /v1/query"):
        raw = ask_query_pool(state.transport, body, current_traceparent(), state.settings.query_timeout_seconds)
    return Response(raw, media_type="application/json")
