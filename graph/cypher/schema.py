"""Labels, edges and properties as Cypher sees them: in the file of the engine, and on a server of graphs.

The names are those of the decision record on the graph. Each node has `id` (unique for its label in a corpus) and
`corpus`. An id is the node's key; see contracts/graph/model.py for how keys are written.
"""

from __future__ import annotations

from contracts.graph.model import EdgeType, NodeLabel

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
"""Of every edge, with the type in the engine's words. `line` is the first of `lines`, null where there is none;
`candidates` is between how many definitions a name leaves the choice, 1 where it is plain."""

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
"""From which label to which. A file that is written adds the pairs that its edges have besides."""

PROPERTIES = frozenset(EDGE_PROPERTIES).union(*NODE_PROPERTIES.values())
"""What a question may name after a dot or in a pattern."""


def described() -> str:
    """The schema in some lines of text, for a person or a model that is to write a question."""
    nodes = [f"(:{label} {{{', '.join(names)}}})" for label, names in NODE_PROPERTIES.items()]
    edges = [f"(:{source})-[:{name}]->(:{target})" for name, ends in EDGE_ENDS.items() for source, target in ends]
    return "\n".join([*nodes, *edges, f"Every edge has {', '.join(EDGE_PROPERTIES)}."])


def symbol_properties(key: str) -> tuple[str, str, str]:
    """Name, qualified name and language of a symbol by its key: `python:shop.Cart.add` is `add`."""
    language, _, qualified = key.partition(":")
    return qualified.rpartition(".")[2] or qualified, qualified, language


def tool_properties(key: str) -> tuple[str, str]:
    """Name and server of a tool by its key; the server is empty where the key does not tell it."""
    server, _, name = key.rpartition("/")
    return name, server
