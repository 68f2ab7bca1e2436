"""Passages that the graph adds to a search, each with the path that leads to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, NamedTuple, Protocol

from pydantic import Field

from sluice.contracts.base import Switch, Value, is_none
from sluice.contracts.graph.model import EdgeType, NodeLabel, Origin


class PathStep(Value):
    """One edge of a path, in reading direction: from the previous node to `name`. `is_reverse`: the edge points the
    other way. `candidates` is the number of definitions that the name may refer to; 1 if unambiguous."""

    edge: EdgeType
    is_reverse: Switch = False
    origin: Origin
    label: NodeLabel
    name: str
    line: Annotated[int | None, Field(ge=1, exclude_if=is_none)] = None
    candidates: Annotated[int, Field(ge=1, exclude_if=lambda count: count == 1)] = 1


class GraphPath(Value):
    """The edges that connect a result with the start of the walk: a retrieved passage, or a node of the question."""

    start: str
    start_label: NodeLabel
    steps: tuple[PathStep, ...]

    def __str__(self) -> str:
        """Return the path like `test_login.py REFERS_TO Session DEFINED_IN session.py`."""
        told = [self.start]
        for step in self.steps:
            arrow = f"<-{step.edge}-" if step.is_reverse else step.edge
            told += [arrow, step.name + (f" (1 of {step.candidates})" if step.candidates > 1 else "")]
        return " ".join(told)


class GraphHit(NamedTuple):
    """A passage that other retrievers found: a possible start of a walk."""

    document_id: str
    start_line: int
    end_line: int
    score: float


class GraphCandidate(NamedTuple):
    """A passage that the walk reached: the one with `line` of the document; without a line, the document as a whole.
    `score` is in (0, 1], higher for nearer and surer passages. `tell_path` computes the path on demand, as most
    candidates do not become results."""

    document_id: str
    line: int | None
    score: float
    tell_path: Callable[[], GraphPath]

    @property
    def path(self) -> GraphPath:
        """Return the path of the walk to it."""
        return self.tell_path()


class Expansion(NamedTuple):
    """The passages that a walk reached, best first, each once; or the reason why there are none. `is_asked_for`: the
    question requests things related to its subject, so the subject itself is not the answer."""

    candidates: Sequence[GraphCandidate] = ()
    abstained: str = ""
    generation: str | None = None
    is_asked_for: bool = False


class GraphUse(Value):
    """The graph's contribution to one search. `candidates` counts the passages that it reached. `abstained` is the
    reason why there are none; if `generation` is also None, there was no graph to walk."""

    candidates: Annotated[int, Field(ge=0)] = 0
    abstained: str = ""
    generation: str | None = None
    duration_ms: float = 0.0


class GraphArm(Protocol):
    """Walks the graph of one corpus. Safe for threads."""

    def expand(self, question: str, hits: Sequence[GraphHit]) -> Expansion:
        """Walk from the hits and from the nodes that the question names. Raises nothing: without a graph, or with a
        damaged one, it abstains and gives the reason."""
        ...
