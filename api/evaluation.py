"""How the gate's runs did, for operators of all corpora."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Query, Request

from sluice.api.access import InstanceOperator, instance_of
from sluice.api.problems import problem_responses
from sluice.workers.service.learning.evaluation import By, Evaluation

router = APIRouter(prefix="/v1/evaluation", tags=["operations"])

SHOWN = timedelta(days=7)
"""How far back runs are looked at where the caller does not say."""


@router.get("", responses=problem_responses(503), summary="How the runs did: satisfaction, cost, latency, freshness")
def evaluation(
    request: Request,
    _operator: InstanceOperator,
    since: Annotated[datetime | None, Query(description="Decided since then; without it, in the last 7 days")] = None,
    by: Annotated[By, Query(description="What a row is of")] = "plan",
    profile: Annotated[str | None, Query(max_length=32, description="Of one profile alone")] = None,
) -> Evaluation:
    """Counts, satisfaction, freshness gain, cost per successful task, latency and more, with intervals of 95 %."""
    now = datetime.now(UTC)
    begin = now - SHOWN if since is None else since.replace(tzinfo=since.tzinfo or UTC)
    return instance_of(request).evaluation(begin, now, by, profile)
