"""Health and metrics."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from contracts.api import Health
from otel.metrics import CONTENT_TYPE, render_metrics
from workers.health import check_health
from workers.http.access import Operator
from workers.http.problems import problem_responses

router = APIRouter(tags=["operations"])


@router.get("/healthz", responses={503: {"model": Health, "description": "A part is not well"}}, summary="Is it well?")
def healthz(request: Request, response: Response) -> Health:
    """Broker, ledger, embedder and snapshots, each with what was measured."""
    health = check_health(request.app.state.parts)
    response.status_code = 200 if health.ok else 503
    return health


@router.get(
    "/metrics", responses=problem_responses(), response_class=Response, summary="Prometheus metrics of all processes"
)
def metrics(_caller: Operator) -> Response:
    """Prometheus text format 0.0.4."""
    return Response(render_metrics(), media_type=CONTENT_TYPE)
