"""Finds the node that a person or an agent names."""

from __future__ import annotations

from collections.abc import Iterable

from sluice.contracts.errors import InvalidInput, NotFound
from sluice.contracts.graph.model import UNKNOWN, EdgeType, Node, NodeLabel
from sluice.graph.generations.view import GraphView, short_name
from sluice.graph.walk.nodes import node_id

MOST_NAMED = 10
"""Nodes that are listed where a name means several."""
_MOST_LOOKED_AT = 512


def find_node(view: GraphView, text: str, field: str = "id") -> int:
    """The node that a text names: label and key; a key alone; a document's path; the end of a symbol's or tool's name.

    Raises:
        NotFound: the graph has none.
        InvalidInput: several bear that name; the remedy lists them.
    """
    found = _by_id(view, text) or _by_key(view, text) or _by_path(view, text) or _by_name(view, text)
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


def _by_key(view: GraphView, text: str) -> list[int]:
    return _found(view, NodeLabel, text)


def _by_path(view: GraphView, text: str) -> list[int]:
    """The document at a path; else those whose path ends so, or with that file name."""
    for key in (f"path:{text}", f"path:{UNKNOWN}/{text}"):
        for place in _found(view, [NodeLabel.URL], key):
            edges = map(view.edge, view.edges_from(place))
            if at := {edge.target for edge in edges if edge.type is EdgeType.RESOLVES_TO}:
                return sorted(at)
    return []


def _by_name(view: GraphView, text: str) -> list[int]:
    """Symbols and tools whose name is or ends with the text; those that are defined before those that are only used."""
    last = text.replace("/", ".").rpartition(".")[2]
    ending = [place for place in view.named(last, _MOST_LOOKED_AT) if _ends(view.node(place), text)]
    whole = [place for place in ending if short_name(view.node(place)) == text]
    known = [place for place in ending if f":{UNKNOWN}." not in view.node(place).key]
    defined = [place for place in known if view.definitions_of(place)]
    plain = [place for place in whole if place in defined]
    return plain or defined or known or ending


def _shown(view: GraphView, place: int) -> str:
    """What names the node and means something to a person."""
    node = view.node(place)
    return (view.path(place) if node.label is NodeLabel.DOCUMENT else None) or node_id(node)


def _found(view: GraphView, labels: Iterable[NodeLabel], key: str) -> list[int]:
    places = (view.find(label, key) for label in labels)
    return [place for place in places if place is not None]


def _ends(node: Node, text: str) -> bool:
    separator = "/" if node.label is NodeLabel.TOOL else "."
    name = node.key if node.label is NodeLabel.TOOL else node.key.partition(":")[2]
    return name == text or name.endswith(f"{separator}{text}")
