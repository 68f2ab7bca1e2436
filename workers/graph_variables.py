"""The graph server in the environment, by the variables that programs for Neo4j read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sluice.contracts.errors import InvalidSetting
from sluice.graph.settings import problem_of_address

VARIABLES = {"url": "NEO4J_URI", "user": "NEO4J_USER", "password": "NEO4J_PASSWORD"}
"""The environment's name of each setting of `[graph]`. A setting that is given as such counts before it."""


def read_graph_server(environment: Mapping[str, str]) -> dict[str, Any]:
    """Settings as the environment has them, `{"graph": {...}}`; an empty variable says nothing.

    Raises:
        InvalidSetting: NEO4J_URI is no address of a graph server. The address is not shown.
    """
    found = {name: value for name, variable in VARIABLES.items() if (value := environment.get(variable, "").strip())}
    problem = problem_of_address(found["url"]) if "url" in found else None
    if problem:
        raise InvalidSetting(VARIABLES["url"], problem, "like bolt://localhost:7687")
    return {"graph": found} if found else {}
