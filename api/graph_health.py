"""Whether the graph server answers, at the address that the decision record names."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from sluice.api.access import WholeCaller, instance_of
from sluice.api.problems import problem_responses
from sluice.contracts.graph.api import GraphServerHealth

router = APIRouter(tags=["operations"])

RESPONSES: dict[int | str, dict[str, Any]] = {
    **problem_responses(404),
    503: {"model": GraphServerHealth, "description": "It does not answer, or refuses"},
}


@router.get("/health/neo4j", responses=RESPONSES, summary="Does the graph server answer?")
def neo4j_health(request: Request, response: Response, caller: WholeCaller) -> GraphServerHealth:
    """Neo4j or Memgraph; 404 where none is configured. Why it fails, only for a caller that may see every corpus."""
    health = instance_of(request).graph_server_health()
    response.status_code = 200 if health.status == "healthy" else 503
    return health if caller or health.status == "healthy" else health.without_details()
