"""Describes the edges by which a walk reached a vertex, and the passage at that vertex."""

from __future__ import annotations

from typing import NamedTuple

from sluice.contracts.graph.model import EdgeType, GraphPath, NodeLabel, Origin, PathStep
from sluice.graph.generations.definitions import How
from sluice.graph.generations.fold import REVERSE
from sluice.graph.generations.view import GraphView, Step
from sluice.graph.walk.nodes import document_name
from sluice.graph.walk.push import Walked
from sluice.graph.walk.seeds import Begun

_BY_RULE = {How.ALIAS: EdgeType.ALIAS_OF, How.INHERITED: EdgeType.INHERITS}


def told_step(view: GraphView, source: int, number: int) -> list[PathStep]:
    """Return one step of the walk from the vertex `source`, as the stated edges that make it up."""
    step = view.step(number)
    edge = view.edge(step.edge)
    if edge.type is EdgeType.DEFINED_IN:
        return [_to_document(view, EdgeType.DEFINED_IN, Origin.DEFINITION, step.target, None)]
    name = view.node(edge.target)
    through = PathStep(
        edge=edge.type,
        is_reverse=False,
        origin=edge.origin,
        label=name.label,
        name=view.shown_name(edge.target),
        line=step.first or None,
        candidates=edge.candidates,
    )
    if step.how is How.OUTSIDE:
        if not step.is_reverse:
            return [through]
        return [_to_document(view, edge.type, edge.origin, edge.owner, step.first or None, is_reverse=True)]
    defined = source if step.is_reverse else step.target
    told = [through, *_by_rule(view, step, defined), defined_step(view, defined, name.label)]
    return told if not step.is_reverse else _turned(view, told, edge.owner, step)


def without_loops(path: GraphPath) -> GraphPath:
    """Return the path without detours back to an earlier document; a path that ends at its start stays."""
    kept: list[PathStep] = []
    for step in path.steps:
        named = (step.label, step.name)
        been = [(path.start_label, path.start), *((one.label, one.name) for one in kept)]
        if step.label is not NodeLabel.DOCUMENT or named not in been:
            kept.append(step)
        elif at := been.index(named):
            kept = [*kept[: at - 1], kept[at - 1].model_copy(update={"line": step.line})]
        else:
            kept = []
    return path.model_copy(update={"steps": tuple(kept)}) if kept else path


def _by_rule(view: GraphView, step: Step, defined: int) -> list[PathStep]:
    """Return the re-export or inheritance between a name and its definition, where that bears another name."""
    kind = _BY_RULE.get(step.how)
    if kind is None or defined < view.nodes:
        return []
    place = view.definition(defined).node
    label, name = view.node(place).label, view.shown_name(place)
    return [PathStep(edge=kind, origin=Origin.DEFINITION, label=label, name=name)]


def defined_step(view: GraphView, vertex: int, named: NodeLabel) -> PathStep:
    """Return the edge from a name to the document in which the vertex is defined, or which is at the address."""
    if vertex >= view.nodes:
        span = view.definition(vertex)
        return _to_document(view, EdgeType.DEFINED_IN, Origin.DEFINITION, span.document, span.first or None)
    kind = EdgeType.RESOLVES_TO if named is NodeLabel.URL else EdgeType.DEFINED_IN
    return _to_document(view, kind, Origin.DEFINITION, vertex, None)


def _turned(view: GraphView, told: list[PathStep], owner: int, step: Step) -> list[PathStep]:
    """Return the same edges walked the other way, from the definition to the document that refers to it."""
    names = [(entry.label, entry.name) for entry in told[:-1]]
    turned: list[PathStep] = []
    for place, entry in enumerate(reversed(told)):
        if place < len(names):
            label, name = names[len(names) - 1 - place]
            line = None
        else:
            label, name, line = NodeLabel.DOCUMENT, document_name(view, owner), step.first or None
        turned.append(entry.model_copy(update={"is_reverse": True, "label": label, "name": name, "line": line}))
    return turned


def _to_document(
    view: GraphView, kind: EdgeType, origin: Origin, document: int, line: int | None, *, is_reverse: bool = False
) -> PathStep:
    return PathStep(
        edge=kind,
        is_reverse=is_reverse,
        origin=origin,
        label=NodeLabel.DOCUMENT,
        name=document_name(view, document) if document < view.documents else view.node(document).key,
        line=line,
    )


class Passage(NamedTuple):
    """A line of a document, which is given by its vertex; None: the document as a whole."""

    document: int
    line: int | None


class Trails:
    """The paths by which one walk reached its vertices."""

    def __init__(self, view: GraphView, begun: Begun, walked: Walked) -> None:
        self._view = view
        self._starts = begun.starts
        self._walked = walked
        self._seeds: dict[int, tuple[int, int]] = {}
        self._told: dict[int, list[PathStep]] = {}
        weights: dict[int, float] = {}
        seeds = begun.seeds
        for vertex, weight, step, origin in zip(
            seeds.vertices.tolist(),
            seeds.weights.tolist(),
            seeds.entered_by.tolist(),
            seeds.origins.tolist(),
            strict=True,
        ):
            if weight > weights.get(vertex, -1.0):
                weights[vertex] = weight
                self._seeds[vertex] = step, origin

    def passage(self, vertex: int) -> Passage | None:
        """Return the passage of a vertex; None: it stands in no document, or it is a found passage itself."""
        number, label = self._last_step(vertex)
        if number < 0 and label is NodeLabel.DOCUMENT:
            return None
        if vertex >= self._view.nodes:
            span = self._view.definition(vertex)
            step = self._view.step(number) if number >= 0 else None
            line = step.first if step is not None and step.is_reverse and step.first else span.first
            return Passage(span.document, line or None)
        if vertex < self._view.documents:
            step = self._view.step(number) if number >= 0 else None
            return Passage(vertex, (step.first or None) if step is not None and step.is_reverse else None)
        return None

    def only_step(self, vertex: int) -> Step | None:
        """Return the step by which a vertex was reached from what the question names; None where there were more."""
        step, origin = self._seeds.get(vertex, (-1, 0))
        return None if step < 0 or self._starts[origin].label is NodeLabel.DOCUMENT else self._view.step(step)

    def path(self, vertex: int) -> GraphPath:
        """Return the edges by which a vertex was reached."""
        numbers: list[tuple[int, int]] = []
        while vertex not in self._seeds:
            before, number = int(self._walked.before[vertex]), int(self._walked.by[vertex]) - 1
            numbers.append((before, number))
            vertex = before
        step, origin = self._seeds[vertex]
        start = self._starts[origin]
        told: list[PathStep] = []
        if step >= 0:
            told += self._tell(self._view.source_of(step), step)
        elif start.label is not NodeLabel.DOCUMENT:
            told.append(defined_step(self._view, vertex, start.label))
        for before, number in reversed(numbers):
            told += self._tell(before, number)
        return without_loops(GraphPath(start=start.name, start_label=start.label, steps=tuple(told)))

    def is_sure(self, vertex: int) -> bool:
        """Return whether no step of the way is a guess: a name of an unknown receiver, or one with several meanings."""
        while vertex not in self._seeds:
            if not self._is_plain(int(self._walked.by[vertex]) - 1):
                return False
            vertex = int(self._walked.before[vertex])
        number = self._seeds[vertex][0]
        return number < 0 or self._is_plain(number)

    def _is_plain(self, number: int) -> bool:
        return int(self._view.step_hows[number]) & ~REVERSE < How.OVERRIDE

    def _tell(self, source: int, number: int) -> list[PathStep]:
        told = self._told.get(number)
        if told is None:
            told = self._told[number] = told_step(self._view, source, number)
        return told

    def _last_step(self, vertex: int) -> tuple[int, NodeLabel]:
        """Return the step by which a vertex was entered (-1: none), and the label of the start of its path."""
        if vertex in self._seeds:
            number, origin = self._seeds[vertex]
            return number, self._starts[origin].label
        return int(self._walked.by[vertex]) - 1, NodeLabel.SYMBOL
