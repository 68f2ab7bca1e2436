"""What stands in a module, a package or a file that is named by people."""

from __future__ import annotations

import re

from sluice.contracts.errors import NotFound
from sluice.contracts.graph.model import NodeLabel
from sluice.graph.generations.view import GraphView
from sluice.graph.walk.lookup import find_node

_LANGUAGES = ("python", "javascript", "go", "rust", "java", "c")
_MOST_NAMED = 256
_LABELLED = re.compile(rf"(?:{'|'.join(NodeLabel)}):.")


def vertices_of(view: GraphView, module: str) -> list[int]:
    """The vertices of a module and all that is defined in it.

    `module` is a dotted name (`shop.cart`, also its end: `cart` for `shop.cart`), a package, a class or a function, a
    path, or the id of a node.

    Raises `NotFound` where the graph knows nothing of that name.
    """
    found = _by_id(view, module) if _LABELLED.match(module) else _by_path(view, module) or _by_name(view, module)
    vertices = dict.fromkeys(found)
    for vertex in found:
        if vertex < view.documents:
            vertices.update(dict.fromkeys(view.definitions_in(vertex)))
    if not vertices:
        raise NotFound(f"the graph knows no module, package or file {module!r}")
    return list(vertices)


def _by_id(view: GraphView, node_id: str) -> list[int]:
    place = find_node(view, node_id)
    return [place] if place < view.documents else _under(view, place)


def _under(view: GraphView, place: int) -> list[int]:
    node = view.node(place)
    if node.label is NodeLabel.URL:
        return [view.edge(number).target for number in view.edges_from(place)]
    return view.definitions_of(place) + _inner(view, node.key)


def _by_path(view: GraphView, module: str) -> list[int]:
    path = module.strip("/").removeprefix("./")
    for key in (f"path:{path}", f"path:?/{path}"):
        place = view.find(NodeLabel.URL, key)
        if place is not None and (found := _under(view, place)):
            return found
    return []


def _by_name(view: GraphView, module: str) -> list[int]:
    name = module.partition(":")[2] or module
    ends = [
        node
        for node in view.named(name.rpartition(".")[2], _MOST_NAMED)
        if f".{view.node(node).key.partition(':')[2]}".endswith(f".{name}")
    ]
    exact = [node for node in ends if view.node(node).key.partition(":")[2] == name]
    defined = [vertex for node in exact for vertex in _under(view, node)]
    defined = defined or [vertex for node in ends for vertex in _under(view, node)]
    return defined or [vertex for language in _LANGUAGES for vertex in _inner(view, f"{language}:{name}")]


def _inner(view: GraphView, key: str) -> list[int]:
    """The definitions whose names begin with that of a package or a class."""
    return [vertex for node in view.beginning(NodeLabel.SYMBOL, f"{key}.") for vertex in view.definitions_of(node)]
