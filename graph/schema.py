"""Labels, edges and properties in Cypher: in the engine's file, and on a graph server.

The names are those of the decision record on the graph. Each node has `id` (unique for its label in a corpus) and
`corpus`. An id is the node's key; see contracts/graph/model.py for the form of keys.
"""

from __future__ import annotations

from sluice.contracts.graph.model import EdgeType, Node, NodeLabel

NODE_PROPERTIES: dict[NodeLabel, tuple[str, ...]] = {
    NodeLabel.DOCUMENT: (
        "id", "corpus", "path", "title", "url", "language", "content_hash", "embedding_version", "updated_at",
    ),
    NodeLabel.SYMBOL: ("id", "corpus", "name", "qualified_name", "language"),
    NodeLabel.URL: ("id", "corpus", "url"),
    NodeLabel.TOOL: ("id", "corpus", "name", "server"),
    NodeLabel.CONVERSATION: ("id", "corpus"),
}  # fmt: skip
"""All are strings; `updated_at` is ISO 8601 in UTC, so that its order is that of time."""

EDGE_PROPERTIES: dict[str, str] = {
    "origin": "STRING",
    "line": "INT64",
    "lines": "INT64[]",
    "candidates": "INT64",
    "detail": "STRING",
}
"""Properties of every edge, with the type in the engine's words. `line` is the first of `lines`, null where there is
none; `candidates` counts the definitions that a name can mean, 1 where it is unambiguous."""

EDGE_ENDS: dict[EdgeType, tuple[tuple[NodeLabel, NodeLabel], ...]] = {
    EdgeType.REFERS_TO: ((NodeLabel.DOCUMENT, NodeLabel.SYMBOL),),
    EdgeType.LINKS_TO: ((NodeLabel.DOCUMENT, NodeLabel.URL),),
    EdgeType.DEFINED_IN: ((NodeLabel.SYMBOL, NodeLabel.DOCUMENT), (NodeLabel.TOOL, NodeLabel.DOCUMENT)),
    EdgeType.CITED_BY: ((NodeLabel.DOCUMENT, NodeLabel.CONVERSATION),),
    EdgeType.RESOLVES_TO: ((NodeLabel.URL, NodeLabel.DOCUMENT),),
    EdgeType.ALIAS_OF: ((NodeLabel.SYMBOL, NodeLabel.SYMBOL),),
    EdgeType.INHERITS: ((NodeLabel.SYMBOL, NodeLabel.SYMBOL),),
    EdgeType.HAS_TYPE: ((NodeLabel.SYMBOL, NodeLabel.SYMBOL),),
}
"""Labels at the ends of each type of edge. An engine's file adds the other pairs that its edges have."""

PROPERTIES = frozenset(EDGE_PROPERTIES).union(*NODE_PROPERTIES.values())
"""Names that a query may use after a dot or in a pattern."""


def named(node: Node) -> dict[str, str]:
    """Return the properties in the key of a named node: `python:shop.Cart.add` has the name `add`.

    A tool's server is empty where the key lacks it. A document's key has no properties.
    """
    match node.label:
        case NodeLabel.SYMBOL:
            language, _, qualified = node.key.partition(":")
            name = qualified.rpartition(".")[2] or qualified
            return {"name": name, "qualified_name": qualified, "language": language}
        case NodeLabel.URL:
            return {"url": node.key}
        case NodeLabel.TOOL:
            server, _, name = node.key.rpartition("/")
            return {"name": name, "server": server}
        case _:
            return {}
