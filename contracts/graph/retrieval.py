"""Passages that the graph adds to a search, each with the path that leads to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, NamedTuple, Protocol

from pydantic import Field

from sluice.contracts.base import Switch, Value, is_none
from sluice.contracts.graph.model import EdgeType, NodeLabel, Origin


class PathStep(Value):
    """One edge of a path, in the direction of reading: from the node before to `name`.

    `is_reverse`: the edge points the other way. `candidates` is between how many definitions the name leaves the
    choice; 1 where it is plain.
    """

    edge: EdgeType
    is_reverse: Switch = False
    origin: Origin
    label: NodeLabel
    name: str
    line: Annotated[int | None, Field(ge=1, exclude_if=is_none)] = None
    candidates: Annotated[int, Field(ge=1, exclude_if=lambda count: count == 1)] = 1


class GraphPath(Value):
    """By which edges a result is connected to where the walk began: a passage that was found, or what is named."""

    start: str
    start_label: NodeLabel
    steps: tuple[PathStep, ...]

    def __str__(self) -> str:
        """As `test_login.py REFERS_TO Session DEFINED_IN session.py`."""
        told = [self.start]
        for step in self.steps:
            arrow = f"<-{step.edge}-" if step.is_reverse else step.edge
            told += [arrow, step.name + (f" (1 of {step.candidates})" if step.candidates > 1 else "")]
        return " ".join(told)


class GraphHit(NamedTuple):
    """A passage that other retrievers found, best first: where a walk may begin."""

    document_id: str
    start_line: int
    end_line: int
    score: float


class GraphCandidate(NamedTuple):
    """A passage that the walk reached: the one that holds `line` of the document; None: the document as a whole.

    `score` is in (0, 1], the higher the nearer and the surer. `tell_path` tells how it came there: most candidates are
    no results, and are never asked.
    """

    document_id: str
    line: int | None
    score: float
    tell_path: Callable[[], GraphPath]

    @property
    def path(self) -> GraphPath:
        """How the walk came there."""
        return self.tell_path()


class Expansion(NamedTuple):
    """What a walk reached, best first, each passage once; or why it has nothing to say.

    `is_asked_for`: the question asks for what is related to something, so that what it is about is not the answer.
    """

    candidates: Sequence[GraphCandidate] = ()
    abstained: str = ""
    generation: str | None = None
    is_asked_for: bool = False


class GraphUse(Value):
    """What the graph had to add to one search.

    `candidates` are the passages that it led to. `abstained` says why there are none; where `generation` is None, then
    because there was no graph to walk.
    """

    candidates: Annotated[int, Field(ge=0)] = 0
    abstained: str = ""
    generation: str | None = None
    duration_ms: float = 0.0


class GraphArm(Protocol):
    """Walks the graph of one corpus. Safe for threads."""

    def expand(self, question: str, hits: Sequence[GraphHit]) -> Expansion:
        """Walk from the hits and from what the question names.

        Raises nothing: where there is no graph, or it is damaged, it abstains and says why.
        """
        ...
