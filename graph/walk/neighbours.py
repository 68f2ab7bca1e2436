"""What is next to a node: the edges that are stated of it, and the references that mean it by another name."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Literal

from sluice.contracts.graph.api import Neighbours, NeighbourView
from sluice.contracts.graph.model import EdgeType
from sluice.graph.generations.stated import ORIGINS
from sluice.graph.generations.view import GraphView, StatedEdge
from sluice.graph.walk.nodes import find_node, node_view

MOST_NEIGHBOURS = 1_000

Direction = Literal["out", "in"]

_Found = tuple[StatedEdge, int, Direction]


def neighbours(
    view: GraphView,
    named: str,
    limit: int = 100,
    *,
    direction: Direction | None = None,
    types: Collection[EdgeType] = (),
) -> Neighbours:
    """A node by what names it (`find_node`), and at most `limit` of its neighbours, the surest first.

    Only those of a direction and of some types of edges where these are given; `total` counts them all.

    Of a symbol and of a document, documents that refer to it under another name (a re-export, a module path without
    its first folders, an unknown receiver) count, with the number of definitions that the name can mean.

    Raises:
        InvalidInput: the name means several nodes.
        NotFound: the graph has no such node.
    """
    place = find_node(view, named)
    found: dict[tuple[int, int], _Found] = {}
    for edge, other, way in (*_stated(view, place), *_meant(view, place)):
        if direction in (None, way) and (not types or edge.type in types):
            found.setdefault((edge.number, other), (edge, other, way))
    order = sorted(found.values(), key=lambda entry: _sureness(*entry))
    return Neighbours(
        node=node_view(view, place),
        neighbours=tuple(_told(view, *entry) for entry in order[: min(limit, MOST_NEIGHBOURS)]),
        total=len(order),
        generation=view.name,
    )


def _stated(view: GraphView, place: int) -> Iterator[_Found]:
    for number in view.edges_from(place):
        edge = view.edge(number)
        yield edge, edge.target, "out"
    for number in view.edges_to(place):
        edge = view.edge(number)
        yield edge, edge.source, "in"


def _meant(view: GraphView, place: int) -> Iterator[_Found]:
    """References that mean a definition of the node, or the document, whatever they call it."""
    vertices = [place] if place < view.documents else view.definitions_of(place)
    for vertex in vertices:
        for step in view.steps(vertex):
            edge = view.edge(step.edge)
            if step.is_reverse and edge.type is not EdgeType.DEFINED_IN:
                yield edge, edge.source if edge.type in (EdgeType.INHERITS, EdgeType.HAS_TYPE) else edge.owner, "in"


def _sureness(edge: StatedEdge, other: int, direction: str) -> tuple[int, int, int, str, int]:
    return edge.candidates, ORIGINS.index(edge.origin), -len(edge.lines), direction, other


def _told(view: GraphView, edge: StatedEdge, other: int, direction: Direction) -> NeighbourView:
    return NeighbourView(
        node=node_view(view, other),
        edge=edge.type,
        direction=direction,
        origin=edge.origin,
        lines=edge.lines,
        detail=edge.detail,
        candidates=max(1, edge.candidates),
    )
