"""The settings of `[graph]`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, SecretStr, model_validator

from contracts.base import Value


class GraphSettings(Value):
    """The graph of what is indexed: see docs/graph.md."""

    enabled: bool = True
    """Whether documents are read into the graph when they are indexed. Off, the stage `graph` gets no work; what was
    missed is caught up with when it is on again."""
    in_retrieval: bool = True
    """Whether profiles that want it (code) search by the graph too. The flag `graph` has to be on as well."""
    cypher: bool = True
    """Whether each published graph is written for the Cypher engine as well, some seconds for 100,000 nodes."""
    url: str | None = None
    """A Neo4j or Memgraph that is kept up beside the files, like bolt://localhost:7687; NEO4J_URI counts too."""
    user: str | None = None
    """Who signs in there; NEO4J_USER counts too."""
    password: SecretStr | None = None
    """With which password; NEO4J_PASSWORD counts too."""
    timeout_seconds: Annotated[float, Field(gt=0, le=60)] = 10.0
    """Of one request to the server."""

    @model_validator(mode="after")
    def _usable_url(self) -> GraphSettings:
        schemes = ("bolt://", "bolt+s://", "bolt+ssc://", "neo4j://", "neo4j+s://", "neo4j+ssc://")
        if self.url is not None and not self.url.startswith(schemes):
            raise ValueError(f"url: is no address of a graph server; one of {', '.join(schemes)}")
        return self
