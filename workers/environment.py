"""Variables of the environment that are not called `SLUICE_*`: feature flags, and the graph server's address."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sluice.contracts.errors import InvalidSetting
from sluice.contracts.learning.control import FlagName
from sluice.graph.settings import problem_of_address

FLAG_VARIABLES: Mapping[FlagName, str] = {
    "gate_weights": "FEATURE_GATE_WEIGHTS",
    "search": "FEATURE_SEARCH",
    "crawl": "FEATURE_CRAWL",
    "hybrid": "FEATURE_HYBRID_RETRIEVAL",
    "rerank": "FEATURE_RERANK",
    "learned_gate": "FEATURE_LEARNED_GATE",
    "ragas": "FEATURE_RAGAS_EVAL",
    "graph": "FEATURE_GRAPH",
    "memory": "FEATURE_MEMORY",
}
GRAPH_VARIABLES = {"url": "NEO4J_URI", "user": "NEO4J_USER", "password": "NEO4J_PASSWORD"}
"""Variables that Neo4j's programs read, by the `[graph]` setting that each gives. A setting overrides its variable."""

_WORDS = {"true": True, "1": True, "on": True, "yes": True, "false": False, "0": False, "off": False, "no": False}


def read_flags(environment: Mapping[str, str]) -> dict[FlagName, bool]:
    """Return each flag that a non-empty variable sets. Raises `InvalidSetting` if one is neither true nor false."""
    flags: dict[FlagName, bool] = {}
    for name, variable in FLAG_VARIABLES.items():
        word = environment.get(variable, "").strip().lower()
        if word and word not in _WORDS:
            raise InvalidSetting(variable, f"{word!r} is neither true nor false", f"write {variable}=true or =false")
        if word:
            flags[name] = _WORDS[word]
    return flags


def read_graph_server(environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings of the graph server, `{"graph": {...}}`. An empty variable sets nothing.

    Raises:
        InvalidSetting: NEO4J_URI is no address of a graph server. The address is not shown.
    """
    stripped = {name: environment.get(variable, "").strip() for name, variable in GRAPH_VARIABLES.items()}
    found = {name: value for name, value in stripped.items() if value}
    problem = problem_of_address(found["url"]) if "url" in found else None
    if problem:
        raise InvalidSetting(GRAPH_VARIABLES["url"], problem, "like bolt://localhost:7687")
    return {"graph": found} if found else {}
