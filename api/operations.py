"""Routes for health and metrics; for operators of all corpora also for the pipeline's stages and the crawled hosts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from sluice.api.access import InstanceOperator, WholeCaller, instance_of
from sluice.api.problems import MEANINGS, problem_responses, problem_responses_of_stream
from sluice.contracts.api import Health, Problem, StageView
from sluice.contracts.event import Queue
from sluice.contracts.ingest import HostView
from sluice.otel.metrics import negotiate_metrics
from sluice.workers.service.instance import MOST_DAYS, check_health

health = APIRouter(tags=["operations"])
stages = APIRouter(prefix="/v1/stages", tags=["stages"])
crawled = APIRouter(prefix="/v1/hosts", tags=["operations"])
ROUTERS = (stages, crawled, health)

HEALTH_RESPONSES: dict[int | str, dict[str, Any]] = {
    500: {"model": Problem, "description": MEANINGS[500]},
    503: {"model": Health, "description": "A part is not well"},
}


@health.get("/healthz", responses=HEALTH_RESPONSES, summary="Is it well?")
def healthz(request: Request, response: Response, caller: WholeCaller) -> Health:
    """Check broker, ledger, disk, workers, embedder, snapshots and graphs. Details only for a caller of all corpora."""
    health = check_health(instance_of(request).context)
    response.status_code = 200 if health.ok else 503
    return health if caller else health.without_facts()


@health.get(
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
    """Return Prometheus' text format 0.0.4, or OpenMetrics with exemplars (trace ids) if `Accept` names it."""
    shown, content_type = negotiate_metrics(request.headers.get("accept", ""))
    return Response(shown, media_type=content_type)


@stages.get("", responses=problem_responses(503), summary="Every stage: what waits, and whether it is paused")
def every(request: Request, _operator: InstanceOperator) -> list[StageView]:
    """Return the stages in the order of the pipeline."""
    return instance_of(request).context.ledger.stages()


@stages.post("/{stage}/pause", responses=problem_responses(503, 507), summary="Stop handing out work of a stage")
def pause(
    request: Request,
    stage: Queue,
    operator: InstanceOperator,
    why: Annotated[str, Query(min_length=1, max_length=1_000)],
) -> list[StageView]:
    """Pause a stage: its events stay ready until it is resumed; those in hand finish. Recorded with who and when."""
    ledger = instance_of(request).context.ledger
    ledger.pause(stage, why, operator=operator.owner)
    return ledger.stages()


@stages.post("/{stage}/resume", responses=problem_responses(503, 507), summary="Go on with a stage")
def resume(request: Request, stage: Queue, operator: InstanceOperator) -> list[StageView]:
    """End a pause, the circuit breaker's too. Recorded with who and when."""
    ledger = instance_of(request).context.ledger
    ledger.resume(stage, operator=operator.owner)
    return ledger.stages()


@crawled.get("", responses=problem_responses(503), summary="What the crawl did to each host")
def hosts(
    request: Request,
    _operator: InstanceOperator,
    days: Annotated[int, Query(ge=1, le=MOST_DAYS)] = 1,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
) -> list[HostView]:
    """Return requests, success, refusals, bytes and render share by host, busiest first; UTC days, today included."""
    since = (datetime.now(UTC) - timedelta(days=days - 1)).date()
    return list(instance_of(request).context.host_stats.top(limit, since))
