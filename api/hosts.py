"""Hosts, for operators of all corpora: which hosts the crawl visits, how often, and with what success."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Query, Request

from api.access import InstanceOperator
from api.problems import problem_responses
from contracts.hosts import HostView
from ingest.politeness.host_stats import MOST_DAYS
from workers.context import Context

router = APIRouter(prefix="/v1/hosts", tags=["operations"])


@router.get("", responses=problem_responses(503), summary="What the crawl did to each host")
def hosts(
    request: Request,
    _operator: InstanceOperator,
    days: Annotated[int, Query(ge=1, le=MOST_DAYS)] = 1,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
) -> list[HostView]:
    """Requests, success, refusals, bytes and render share by host, the most asked first; UTC days, today included."""
    context: Context = request.app.state.context
    since = (datetime.now(UTC) - timedelta(days=days - 1)).date()
    return list(context.host_figures.top(limit, since))
