"""Nodes as people name them, and as interfaces show them."""

from __future__ import annotations

from contracts.errors import InvalidInput, NotFound
from contracts.graph.api import NodeView
from contracts.graph.model import NodeLabel
from graph.generations.view import GraphView, short_name
from graph.walk.paths import document_name


def find_node(view: GraphView, node_id: str) -> int:
    """The place of the node with an id like `Symbol:python:shop.cart.Cart`.

    Raises:
        InvalidInput: it begins with no label of a node.
        NotFound: the graph has no such node.
    """
    label, colon, key = node_id.partition(":")
    labels = [entry.value for entry in NodeLabel]
    if label not in labels or not colon or not key:
        raise InvalidInput("id", f"{node_id!r} is no node; write a label and a key: {':…, '.join(labels)}:…")
    place = view.find(NodeLabel(label), key)
    if place is None:
        raise NotFound(f"the graph has no node {node_id}")
    return place


def node_view(view: GraphView, place: int) -> NodeView:
    """A node as interfaces show it."""
    node = view.node(place)
    if node.label is not NodeLabel.DOCUMENT:
        return NodeView(id=f"{node.label}:{node.key}", label=node.label, name=short_name(node))
    return NodeView(
        id=f"{node.label}:{node.key}",
        label=node.label,
        name=document_name(view, place),
        path=view.path(place),
        url=view.url(place),
        title=view.title(place),
    )
