"""A name leads to where it is defined, though it is defined under a longer one: by path, re-export or inheritance."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from sluice.contracts.graph.api import CypherRequest
from sluice.contracts.graph.model import DocumentRow, GraphDocument
from sluice.graph.cypher.build import build
from sluice.graph.cypher.run import run_cypher
from sluice.graph.extract.extract import extract_edges
from sluice.graph.generations.publish import publish

SOURCES = {
    "main/src/shop/__init__.py": "from shop.cart import total\n",
    "main/src/shop/cart.py": "def total(items):\n    return sum(items)\n\n\nclass Cart:\n    def add(self, item):\n        pass\n",
    "main/src/shop/basket.py": "from shop.cart import Cart\n\n\nclass Basket(Cart):\n    pass\n",
    "main/tests/test_cart.py": "from shop.cart import total\n\n\ndef test_total():\n    assert total([1]) == 1\n",
    "main/tests/test_shop.py": "import shop\n\n\ndef test_total():\n    assert shop.total([1]) == 1\n",
    "main/tests/test_basket.py": "from shop.basket import Basket\n\n\ndef test_add():\n    Basket.add(None, 1)\n",
    "main/docs/cart.md": "See [the code](../src/shop/cart.py), and `shop.cart.total`.\n",
}
HOPS = """
MATCH (d:Document {path: $path})-[:REFERS_TO]->(s:Symbol)-[r:DEFINED_IN]->(o:Document)
WHERE s.name = $name RETURN DISTINCT o.path, r.detail ORDER BY o.path
"""


def publish_sources(folder: Path, sources: Mapping[str, str]) -> None:
    rows = []
    for path, text in sorted(sources.items()):
        language = "python" if path.endswith(".py") else None
        edges = extract_edges(GraphDocument(path, path, None, None, language, text, {}))
        rows.append(DocumentRow(path, path, None, None, edges))
    publish(folder, rows, (), version=1, now=datetime(2026, 1, 2, tzinfo=UTC), seconds=time.monotonic)
    build(folder, "default", {})


def defined(folder: Path, path: str, name: str) -> list[tuple[str, str]]:
    request = CypherRequest(query=HOPS, parameters={"path": path, "name": name})
    return [(str(where), str(detail)) for where, detail in run_cypher(request, folder).rows]


def test_what_is_imported_by_a_shorter_name_is_found_where_it_is_defined(tmp_path: Path) -> None:
    publish_sources(tmp_path, SOURCES)
    cart = "main/src/shop/cart.py"
    assert defined(tmp_path, "main/tests/test_cart.py", "total") == [(cart, "by path")]
    assert (cart, "by re-export") in defined(tmp_path, "main/tests/test_shop.py", "total")
    assert defined(tmp_path, "main/tests/test_basket.py", "add") == [(cart, "by inheritance")]
    assert defined(tmp_path, "main/docs/cart.md", "total") == [(cart, "by path")]
    linked = CypherRequest(
        query="MATCH (d:Document {path: 'main/docs/cart.md'})-[:LINKS_TO]->(u)-[:RESOLVES_TO]->(o) RETURN DISTINCT o.path"
    )
    assert run_cypher(linked, tmp_path).rows == ((cart,),)
