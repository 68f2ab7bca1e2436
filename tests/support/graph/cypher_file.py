"""A published graph with a file of the Cypher engine, for tests: the tiny corpus, or rows that are made up."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

from sluice.contracts.graph.model import (
    CitationRow,
    DocumentRow,
    Edge,
    EdgeType,
    Node,
    NodeLabel,
    Origin,
    document_node,
    symbol,
)
from sluice.graph.cypher.build import DocumentFacts, build
from sluice.graph.generations.publish import publish


def _defines(document: str, name: str, lines: tuple[int, int], kind: str) -> Edge:
    return Edge(EdgeType.DEFINED_IN, symbol("python", name), document_node(document), Origin.DEFINITION, lines, kind)


def _uses(document: str, name: str, *lines: int, origin: Origin = Origin.IMPORT) -> Edge:
    return Edge(EdgeType.REFERS_TO, document_node(document), symbol("python", name), origin, lines)


def _links(document: str, url: str, text: str) -> Edge:
    return Edge(EdgeType.LINKS_TO, document_node(document), Node(NodeLabel.URL, url), Origin.LINK, (2,), text)


def _is_at(document: str, url: str) -> Edge:
    return Edge(EdgeType.RESOLVES_TO, Node(NodeLabel.URL, url), document_node(document), Origin.DEFINITION)


def _between(kind: EdgeType, source: str, target: str) -> Edge:
    return Edge(kind, symbol("python", source), symbol("python", target), Origin.SCOPE, (1,))


SHOP = (
    DocumentRow(
        "cart", "shop/cart.py", None, "cart.py",
        (
            _defines("cart", "shop.cart", (1, 30), "module"),
            _defines("cart", "shop.cart.Cart", (4, 20), "class"),
            _defines("cart", "shop.cart.Cart.add", (6, 9), "method"),
            _defines("cart", "shop.cart.total", (22, 30), "function"),
            _between(EdgeType.INHERITS, "shop.cart.Cart", "shop.base.Stored"),
            _uses("cart", "shop.base.Stored", 1, 4),
            _is_at("cart", "path:shop/cart.py"),
        ),
    ),
    DocumentRow(
        "base", "shop/base.py", None, "base.py",
        (
            _defines("base", "shop.base", (1, 9), "module"),
            _defines("base", "shop.base.Stored", (1, 9), "class"),
            _is_at("base", "path:shop/base.py"),
        ),
    ),
    DocumentRow(
        "test", "tests/test_cart.py", None, "test_cart.py",
        (
            _uses("test", "shop.cart.Cart", 1, 5),
            _uses("test", "shop.cart.total", 6),
            _uses("test", "?.save", 7, origin=Origin.NAME),
            _defines("test", "tests.test_cart.test_total", (4, 8), "function"),
        ),
    ),
    DocumentRow(
        "guide", "docs/cart.md", None, "Carts",
        (
            _links("guide", "path:shop/cart.py", "the code"),
            _links("guide", "https://example.org/payments", "payments"),
            _uses("guide", "shop.cart.total", 3, origin=Origin.MENTION),
        ),
    ),
    DocumentRow(
        "server", "server/tools.json", None, None,
        (
            Edge(EdgeType.DEFINED_IN, Node(NodeLabel.TOOL, "shop/pay"), document_node("server"), Origin.TOOL, (1,)),
        ),
    ),
    DocumentRow("orphan", "docs/old.md", None, "Old", ()),
)  # fmt: skip
"""A shop: six documents, with every type of edge but ALIAS_OF."""

FACTS = {"cart": DocumentFacts("python", "c0ffee", "minilm", "2026-01-02T03:04:05Z")}


def publish_shop(folder: Path, corpus: str = "default", version: int = 3) -> None:
    """Publish the shop in a folder, without a file of the engine."""
    cited = [CitationRow("guide", "session-1", (2,)), CitationRow("cart", "session-1", (22,))]
    publish(folder, SHOP, cited, version=version, now=datetime(2026, 1, 2, tzinfo=UTC), seconds=time.monotonic)


def shop_with_cypher(folder: Path, corpus: str = "default") -> None:
    """Publish the shop in a folder, with a file of the engine."""
    publish_shop(folder, corpus)
    build(folder, corpus, FACTS)
