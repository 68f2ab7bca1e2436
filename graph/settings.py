"""The settings of `[graph]`."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlsplit

from pydantic import SecretStr, model_validator

from sluice.contracts.base import FIXED, Value

SCHEMES = ("bolt://", "bolt+s://", "bolt+ssc://", "neo4j://", "neo4j+s://", "neo4j+ssc://")
BOLT_PORT = 7687
"""The port of a graph server whose address names none."""


class GraphSettings(Value):
    """The graph of indexed content: see docs/graph.md."""

    enabled: bool = True
    """Whether documents are read into the graph when they are indexed. While off, the stage `graph` gets no work;
    it catches up once on again."""
    in_retrieval: bool = True
    """Whether profiles that want it (code) search by the graph too. The flag `graph` has to be on as well."""
    cypher: bool = True
    """Whether each published graph is written for the Cypher engine as well, some seconds for 100,000 nodes."""
    url: str | None = None
    """A Neo4j or Memgraph that is kept up beside the files, like bolt://localhost:7687; NEO4J_URI counts too."""
    user: str | None = None
    """The user to sign in with; NEO4J_USER counts too."""
    password: SecretStr | None = None
    """The user's password; NEO4J_PASSWORD counts too."""
    timeout_seconds: Annotated[float, FIXED] = 10.0
    """Limit of one request to the server."""

    @model_validator(mode="after")
    def _usable_url(self) -> GraphSettings:
        problem = self.url and problem_of_address(self.url)
        if problem:
            raise ValueError(f"url: {problem}")
        return self


def address_of(url: str) -> tuple[str, int]:
    """Return host and port of a graph server."""
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or BOLT_PORT


def problem_of_address(url: str) -> str | None:
    """Return the fault of a graph server's address, without the address, as it may hold a password; None: none."""
    if not url.startswith(SCHEMES):
        return f"is no address of a graph server; one of {', '.join(SCHEMES)}"
    try:
        parts = urlsplit(url)
        has_host = bool(parts.hostname) and parts.port != 0
    except ValueError:
        has_host = False
    if not has_host:
        return "names no host and port, like bolt://localhost:7687"
    if "@" in parts.netloc:
        return "holds a user or password: graph.user and graph.password are for these"
    if parts.path.strip("/") or (parts.query and parts.scheme.startswith("bolt")):
        return "goes on behind the port; nothing belongs there"
    return None
