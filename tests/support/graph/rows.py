"""Rows of the graph for tests, with edges that are made up."""

from __future__ import annotations

import hashlib

from sluice.contracts.graph.model import Edge, EdgeType, Node, NodeLabel, Origin, document_node, symbol
from sluice.ledger.graph.reading import GraphRow, Identity


def refers(document_id: str, name: str, *lines: int, origin: Origin = Origin.IMPORT) -> Edge:
    """The document uses a symbol of Python."""
    return Edge(EdgeType.REFERS_TO, document_node(document_id), symbol("python", name), origin, lines)


def defines(document_id: str, name: str, *lines: int, detail: str = "function") -> Edge:
    """The document defines a symbol of Python."""
    source = symbol("python", name)
    return Edge(EdgeType.DEFINED_IN, source, document_node(document_id), Origin.DEFINITION, lines, detail)


def links(document_id: str, url: str, text: str = "") -> Edge:
    """The document links to an address."""
    return Edge(EdgeType.LINKS_TO, document_node(document_id), Node(NodeLabel.URL, url), Origin.LINK, (1,), text)


def graph_row(
    document_id: str, *edges: Edge, content: str = "text", path: str | None = None, parser: str = "1"
) -> GraphRow:
    """A document with these edges."""
    sha256 = hashlib.sha256(content.encode()).hexdigest()
    return GraphRow(document_id, Identity(sha256, "", parser, path or f"{document_id}.py"), edges)
