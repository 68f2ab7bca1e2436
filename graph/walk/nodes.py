"""Nodes for people: their names and kinds, the search for a name, and the neighbours of a node."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from enum import Enum
from typing import Literal

from sluice.contracts.errors import InvalidInput, NotFound
from sluice.contracts.graph.api import Neighbours, NeighbourView, NodeView
from sluice.contracts.graph.model import UNKNOWN, EdgeType, Node, NodeLabel
from sluice.graph.generations.stated import ORIGINS
from sluice.graph.generations.view import GraphView, StatedEdge, short_name

_TEST_FILE = re.compile(
    r"(?:^|/)(?:tests?|specs?|__tests__)/|(?:^|/)(?:test_[^/]*|conftest\.py)$|(?:_test|_spec|\.test|\.spec|Tests?)\.\w+$"
)
_PAGE_FILE = re.compile(r"\.(?:md|mdx|rst|txt|html?|adoc|ipynb|pdf)$", re.IGNORECASE)


class Kind(Enum):
    """Kinds of documents: of tests, of prose, or other code."""

    TEST = "test"
    PAGE = "page"
    CODE = "code"


def kind_of(view: GraphView, vertex: int) -> Kind | None:
    """Return the kind of the document in which a vertex stands; None: it stands in none."""
    document = document_of(view, vertex)
    if document is None:
        return None
    path = view.path(document)
    if path is None or _PAGE_FILE.search(path):
        return Kind.PAGE
    return Kind.TEST if _TEST_FILE.search(path) else Kind.CODE


def document_of(view: GraphView, vertex: int) -> int | None:
    """Return the place of the document in which a vertex stands; None: it stands in none."""
    if vertex >= view.nodes:
        return view.definition(vertex).document
    return vertex if vertex < view.documents else None


def node_id(node: Node) -> str:
    """Return a node's id in interfaces: `Symbol:python:shop.cart.Cart`."""
    return f"{node.label}:{node.key}"


def node_view(view: GraphView, place: int) -> NodeView:
    """Return a node as interfaces show it."""
    node = view.node(place)
    if node.label is not NodeLabel.DOCUMENT:
        return NodeView(id=node_id(node), label=node.label, name=short_name(node))
    return NodeView(
        id=node_id(node),
        label=node.label,
        name=document_name(view, place),
        path=view.path(place),
        url=view.url(place),
        title=view.title(place),
    )


def document_name(view: GraphView, document: int) -> str:
    """Return a document's name for people."""
    return view.path(document) or view.title(document) or view.url(document) or view.node(document).key


MOST_NAMED = 10
"""Most nodes listed where a name means several."""
_MOST_LOOKED_AT = 512


def find_node(view: GraphView, text: str, field: str = "id") -> int:
    """Return the node that a text names: label and key; a key; a document's path; the end of a symbol's or tool's name.

    Raises `NotFound`, or `InvalidInput` if several nodes bear that name; the remedy lists them.
    """
    found = (
        _by_id(view, text)
        or _found(view, NodeLabel, text)
        or documents_at(view, keys_of_path(text))
        or _by_name(view, text)
    )
    if not found:
        raise NotFound(f"the graph has no node {text!r}: name its label and key, as Symbol:python:shop.cart.Cart")
    if len(found) > 1:
        listed = ", ".join(sorted(_shown(view, place) for place in found)[:MOST_NAMED])
        more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
        raise InvalidInput(field, f"{text!r} names {len(found)} nodes", f"one of {listed}{more}")
    return found[0]


def _by_id(view: GraphView, text: str) -> list[int]:
    label, _, key = text.partition(":")
    return _found(view, [NodeLabel(label)], key) if label in set(NodeLabel) else []


def documents_at(view: GraphView, keys: Iterable[str]) -> list[int]:
    """Return the documents at the first of these addresses that has any."""
    for key in keys:
        place = view.find(NodeLabel.URL, key)
        if place is not None and (found := {view.edge(number).target for number in view.edges_from(place)}):
            return sorted(found)
    return []


def keys_of_path(path: str) -> tuple[str, str]:
    """Return the addresses of a path: as it is (also of its ends), and as a file in an unknown folder."""
    return f"path:{path}", f"path:{UNKNOWN}/{path}"


def _by_name(view: GraphView, text: str) -> list[int]:
    """Return symbols and tools whose name is or ends with the text; defined ones come before merely used ones."""
    last = text.replace("/", ".").rpartition(".")[2]
    ending = [place for place in view.named(last, _MOST_LOOKED_AT) if is_called(view.node(place), text)]
    whole = [place for place in ending if short_name(view.node(place)) == text]
    known = [place for place in ending if f":{UNKNOWN}." not in view.node(place).key]
    defined = [place for place in known if view.definitions_of(place)]
    plain = [place for place in whole if place in defined]
    return plain or defined or known or ending


def _shown(view: GraphView, place: int) -> str:
    """Return a name of the node for people."""
    node = view.node(place)
    return (view.path(place) if node.label is NodeLabel.DOCUMENT else None) or node_id(node)


def _found(view: GraphView, labels: Iterable[NodeLabel], key: str) -> list[int]:
    places = (view.find(label, key) for label in labels)
    return [place for place in places if place is not None]


def is_called(node: Node, text: str) -> bool:
    """Return whether the text is the name of a symbol or a tool, or its last parts."""
    separator = "/" if node.label is NodeLabel.TOOL else "."
    name = node.key if node.label is NodeLabel.TOOL else node.key.partition(":")[2]
    return name == text or name.endswith(f"{separator}{text}")


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
    """Return the node that `named` finds, and at most `limit` neighbours, the surest first. Raises as `find_node`.

    `direction` and `types` restrict the neighbours; `total` counts all that fit. For a symbol or a document, documents
    that refer to it under another name (a re-export, a module path without its first folders, an unknown receiver)
    count, with the number of definitions that the name can mean.
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
    """Yield references that mean a definition of the node, or the document, under any name."""
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
