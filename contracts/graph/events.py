"""Events of the graph. The journal of the corpus holds the truth; these say what of it the graph has to read."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from sluice.contracts.event import Body, Queue


class GraphDirected(Body):
    """Read these documents into the graph as the index has them at `journal_offset` or later.

    One that the index does not hold leaves the graph. Without documents only the published graph is brought up to date.
    """

    queue: ClassVar[Queue | None] = "graph"

    document_ids: Annotated[tuple[str, ...], Field(max_length=1_000)]
    journal_offset: Annotated[int, Field(ge=0)]


class GraphPublished(Body):
    """A generation of the graph became current. Who walks it looks at the pointer on disk."""

    generation: str
    covers: Annotated[int, Field(ge=0)]
    """Changes of the corpus's graph that it covers."""
    nodes: Annotated[int, Field(ge=0)]
    edges: Annotated[int, Field(ge=0)]
