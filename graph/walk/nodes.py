"""Nodes as interfaces show them."""

from __future__ import annotations

from sluice.contracts.graph.api import NodeView
from sluice.contracts.graph.model import Node, NodeLabel
from sluice.graph.generations.view import GraphView, short_name
from sluice.graph.walk.paths import document_name


def node_id(node: Node) -> str:
    """What a node is called in interfaces: `Symbol:python:shop.cart.Cart`."""
    return f"{node.label}:{node.key}"


def node_view(view: GraphView, place: int) -> NodeView:
    """A node as interfaces show it."""
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
