"""Health and metrics."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from sluice.api.access import InstanceOperator, WholeCaller, instance_of
from sluice.api.problems import MEANINGS, problem_responses_of_stream
from sluice.contracts.api import Health, Problem
from sluice.otel.metrics import negotiate_metrics

router = APIRouter(tags=["operations"])

HEALTH_RESPONSES: dict[int | str, dict[str, Any]] = {
    500: {"model": Problem, "description": MEANINGS[500]},
    503: {"model": Health, "description": "A part is not well"},
}


@router.get("/healthz", responses=HEALTH_RESPONSES, summary="Is it well?")
def healthz(request: Request, response: Response, caller: WholeCaller) -> Health:
    """Broker, ledger, workers, embedder and snapshots. Details only for a caller that may see every corpus."""
    health = instance_of(request).health()
    response.status_code = 200 if health.ok else 503
    return health if caller else health.without_facts()


@router.get(
    "/metrics",
    responses={
        200: {
            "content": {kind: {"schema": {"type": "string"}} for kind in ("text/plain", "application/openmetrics-text")}
        },
        **problem_responses_of_stream(),
    },
    response_class=Response,
    summary="Prometheus metrics of all processes",
)
def metrics(request: Request, _caller: InstanceOperator) -> Response:
    """Prometheus' text format 0.0.4, or OpenMetrics with exemplars (trace ids) where `Accept` asks for it."""
    shown, content_type = negotiate_metrics(request.headers.get("accept", ""))
    return Response(shown, media_type=content_type)
