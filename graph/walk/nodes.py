"""Nodes for people: their names and kinds, the search for a name, and the neighbours of a node."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from difflib import get_close_matches
from enum import StrEnum
from typing import Literal

from sluice.contracts.errors import InvalidInput, NotFound
from sluice.contracts.graph.api import DocumentKind, Neighbours, NeighbourView, NodeView
from sluice.contracts.graph.model import UNKNOWN, EdgeType, Node, NodeLabel
from sluice.graph.generations.definitions import How, is_made, is_unknown
from sluice.graph.generations.stated import ORIGINS
from sluice.graph.generations.view import GraphView, StatedEdge, short_name

_TEST_FILE = re.compile(
    r"(?:^|/)(?:tests?|specs?|__tests__)/|(?:^|/)(?:test_[^/]*|conftest\.py)$|(?:_test|_spec|\.test|\.spec|Tests?)\.\w+$"
)
_PAGE_FILE = re.compile(r"\.(?:md|mdx|rst|txt|html?|adoc|ipynb|pdf)$", re.IGNORECASE)


class Kind(StrEnum):
    """Kinds of documents: of tests, of prose, or other code."""

    TEST = "tests"
    PAGE = "docs"
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
    """Return a node's id: `Symbol:python:shop.cart.Cart`."""
    return f"{node.label}:{node.key}"


def shown_id(view: GraphView, place: int) -> str:
    """Return a node's id in interfaces: of a symbol with the path by which it is imported, where that is plain."""
    node = view.node(place)
    language, _, name = node.key.partition(":")
    shown = view.shown_name(place)
    if node.label is NodeLabel.SYMBOL and name.endswith(f".{shown}") and not is_unknown(node.key):
        short = f"{node.label}:{language}:{shown}"
        if nodes_named(view, short) == [place]:
            return short
    return node_id(node)


def node_view(view: GraphView, place: int) -> NodeView:
    """Return a node as interfaces show it."""
    node = view.node(place)
    if node.label is not NodeLabel.DOCUMENT:
        return NodeView(id=shown_id(view, place), label=node.label, name=view.shown_name(place))
    return NodeView(
        id=shown_id(view, place),
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
"""Most nodes listed where a name means several, or none and others are called nearly so."""
_MOST_LOOKED_AT = 512
_DEEPEST_ALIAS = 4


def find_node(view: GraphView, text: str, field: str = "id") -> int:
    """Return the node that a text names; see `nodes_named`.

    Raises `NotFound`, with the names that come near, or `InvalidInput` if several nodes bear the name; the remedy lists
    them.
    """
    found = nodes_named(view, text)
    if not found:
        raise NotFound(f"the graph has no node {text!r}{nearly_called(view, text)}")
    if len(found) > 1:
        listed = ", ".join(sorted(_shown(view, place) for place in found)[:MOST_NAMED])
        more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
        raise InvalidInput(field, f"{text!r} names {len(found)} nodes", f"one of {listed}{more}")
    return found[0]


def nodes_named(view: GraphView, text: str) -> list[int]:
    """Return the nodes that a text names: by label and key, each of which may be left out; by a document's path; by the
    path by which a symbol is imported; by the end of a symbol's or a tool's name.

    A re-export (`click.Context`) names its definition. Defined symbols come before merely used ones.
    """
    label, _, key = text.partition(":")
    labels, text = ([NodeLabel(label)], key) if label in set(NodeLabel) else (list(NodeLabel), text)
    places = (view.find(one, text) for one in labels)
    found = [place for place in places if place is not None]
    if not found and NodeLabel.URL in labels:
        found = documents_at(view, keys_of_path(text.strip("/").removeprefix("./")))
    if not found or _is_merely_used(view, found[0]):
        named = [place for place in _by_name(view, text) if view.node(place).label in labels]
        found = [place for place in named if not found or not _is_merely_used(view, place)] or found
    return found


def _is_merely_used(view: GraphView, place: int) -> bool:
    return view.node(place).label is NodeLabel.SYMBOL and not view.definitions_of(place)


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


def _by_name(view: GraphView, text: str, depth: int = 0) -> list[int]:
    language, _, name = text.rpartition(":")
    last = name.replace("/", ".").rpartition(".")[2]
    ending = [
        place
        for place in view.named(last, _MOST_LOOKED_AT)
        if is_called(node := view.node(place), name) and not is_made(node.key) and node.key.startswith(language)
    ]
    defined = [place for place in ending if view.definitions_of(place)]
    whole = [place for place in defined if name in (view.shown_name(place), short_name(view.node(place)))]
    found = whole or defined
    if not found and depth < _DEEPEST_ALIAS:
        keys = _originals(view, name)
        found = list(dict.fromkeys(place for key in keys for place in _by_name(view, key, depth + 1)))
    return found or [place for place in ending if f":{UNKNOWN}." not in view.node(place).key] or ending


def _originals(view: GraphView, name: str) -> list[str]:
    """Return the names that a name stands for by a re-export of it, or of what holds it: of `shop.Cart.add` that may be
    `python:shop.cart.Cart.add`."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        head, rest = ".".join(parts[:end]), "".join(f".{part}" for part in parts[end:])
        nodes = [place for place in view.named(parts[end - 1], _MOST_LOOKED_AT) if is_called(view.node(place), head)]
        edges = [view.edge(number) for place in nodes for number in view.edges_from(place)]
        keys = [view.node(edge.target).key + rest for edge in edges if edge.type is EdgeType.ALIAS_OF]
        if keys:
            return list(dict.fromkeys(keys))
    return []


def nearly_called(view: GraphView, text: str) -> str:
    """Return what comes near to a name that there is not, for the end of a message."""
    last = re.split(r"[./:]", text.removesuffix(".py"))[-1]
    same = [place for place in view.named(last, _MOST_LOOKED_AT) if view.definitions_of(place)]
    starts = view.starting(last[:_SAME_LETTERS], _MOST_LOOKED_AT)
    files = view.beginning(NodeLabel.URL, keys_of_path(text.rpartition("/")[2][:_SAME_LETTERS])[1])[:_MOST_LOOKED_AT]
    documents = [view.edge(number).target for file in files for number in view.edges_from(file)]
    places = [*same, *(place for place in starts if view.definitions_of(place)), *documents]
    names = {_shown(view, place).rpartition(":")[2]: None for place in places}
    near = get_close_matches(text, names, MOST_NAMED, _NEAR)
    return f"; there are {', '.join(near)}" if near else ": name a symbol by its import path, or a file by its path"


_SAME_LETTERS = 3
"""First letters, at most, that a name shares with those that are listed in its place."""
_NEAR = 0.5
"""Least similarity of these (Ratcliff and Metzener, 1988)."""


def _shown(view: GraphView, place: int) -> str:
    """Return a name of the node for people."""
    return (view.path(place) if place < view.documents else None) or shown_id(view, place)


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
    kind: DocumentKind | None = None,
) -> Neighbours:
    """Return the node that `named` finds, and at most `limit` neighbours, the surest first. Raises as `find_node`.

    `direction`, `types` and `kind` (of documents) restrict the neighbours; `total` counts all that fit. For a symbol or
    a document, documents that refer to it under another name (a re-export, a module path without its first folders, an
    unknown receiver) count, with the number of definitions that the name can mean. Names that the corpus does not
    define come after all others, and those of an unknown receiver last.
    """
    place = find_node(view, named)
    found: dict[tuple[int, int], _Found] = {}
    for edge, other, way in (*_stated(view, place), *_meant(view, place)):
        is_wanted = direction in (None, way) and (not types or edge.type in types) and not is_made(view.node(other).key)
        if is_wanted and kind in (None, kind_of(view, other)):
            found.setdefault((edge.number, other), (edge, other, way))
    known = _resolved_edges(view, place)
    order = sorted(found.values(), key=lambda entry: (_strangeness(view, known, *entry), *_sureness(*entry)))
    return Neighbours(
        node=node_view(view, place),
        neighbours=tuple(_told(view, *entry) for entry in order[: min(limit, MOST_NEIGHBOURS)]),
        total=len(order),
        generation=view.name,
    )


def _resolved_edges(view: GraphView, place: int) -> set[int]:
    """Return the numbers of the edges of a document that lead to definitions of the corpus by more than a bare name."""
    vertices = [place, *(view.definitions_in(place) if place < view.documents else ())]
    return {step.edge for vertex in vertices for step in view.steps(vertex) if step.how < How.NAME}


def _strangeness(view: GraphView, known: set[int], edge: StatedEdge, other: int, direction: str) -> int:
    """Return 1 for names that the corpus does not define and for a document's own addresses, 2 for a guessed name."""
    node = view.node(other)
    if edge.type is EdgeType.RESOLVES_TO and direction == "in":
        return 1
    if node.label is not NodeLabel.SYMBOL or edge.number in known or view.definitions_of(other):
        return 0
    return 2 if is_unknown(node.key) else 1


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
