"""Hosts, for operators of all corpora: which hosts the crawl visits, how often, and with what success."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request

from sluice.api.access import InstanceOperator, instance_of
from sluice.api.problems import problem_responses
from sluice.contracts.operations.hosts import HostView
from sluice.workers.service.instance import MOST_DAYS

router = APIRouter(prefix="/v1/hosts", tags=["operations"])


@router.get("", responses=problem_responses(503), summary="What the crawl did to each host")
def hosts(
    request: Request,
    _operator: InstanceOperator,
    days: Annotated[int, Query(ge=1, le=MOST_DAYS)] = 1,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
) -> list[HostView]:
    """Requests, success, refusals, bytes and render share by host, the most asked first; UTC days, today included."""
    return instance_of(request).hosts(days, limit)
