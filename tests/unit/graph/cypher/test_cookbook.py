"""Each recipe of docs/examples/recipes.cypher runs, and gives what its heading promises; the document lists what the code allows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from sluice.contracts.graph.api import CypherRequest
from sluice.graph.cypher.guard import guard
from sluice.graph.cypher.parse import NEO4J, WRITTEN_OUT, dialect_named
from sluice.graph.cypher.run import run_cypher
from sluice.graph.schema import EDGE_ENDS, NODE_PROPERTIES
from tests.support.graph.cypher_file import shop_with_cypher

TEXT = (Path(__file__).parents[4] / "docs" / "graph-cypher.md").read_text()
FILE = Path(__file__).parents[4] / "docs" / "examples" / "recipes.cypher"
RECIPES = dict(re.findall(r"^// ([^\n]+)\n(.*?)(?=^//|\Z)", FILE.read_text(), re.DOTALL | re.MULTILINE))

EXPECTED: dict[str, tuple[dict[str, str], list[list[Any]]]] = {
    "Who uses a symbol": (
        {"symbol": "python:shop.cart.total"},
        [["docs/cart.md", [3], "mention"], ["tests/test_cart.py", [6], "import"]],
    ),
    "Where a name is defined": (
        {"name": "Cart"}, [["python:shop.cart.Cart", "class", "shop/cart.py", 4]]
    ),
    "What the tests of a module's definitions are": (
        {"path": "shop/cart.py"}, [["tests/test_cart.py", ["Cart", "total"]]]
    ),
    "Documents about the code that a test touches": ({"test": "tests/test_cart.py"}, [["docs/cart.md", 1]]),
    "What breaks when a file changes, two steps away": (
        {"path": "shop/base.py"}, [["shop/cart.py", ["docs/cart.md", "tests/test_cart.py"]]]
    ),
    "Links that lead out of the corpus": (
        {}, [["docs/cart.md", "https://example.org/payments", "payments"]]
    ),
    "Documents that nothing points at and that point at nothing": ({}, [["docs/old.md"]]),
    "Names that many definitions answer to": ({}, [["python:?.save", 1, 1]]),
    "The classes above a class": ({"symbol": "python:shop.cart.Cart"}, [["python:shop.base.Stored", 1]]),
    "What an answer was made from": ({}, [["session-1", ["docs/cart.md", "shop/cart.py"]]]),
    "Tools of servers, and where they are listed": ({}, [["shop", "pay", "server/tools.json"]]),
}  # fmt: skip


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("graph")
    shop_with_cypher(folder)
    return folder


def ordered(value: Any) -> Any:
    """Collected lists have no order."""
    return sorted(value) if isinstance(value, list) and all(isinstance(item, str) for item in value) else value


@pytest.mark.parametrize("title", EXPECTED)
def test_a_recipe_gives_what_its_heading_says(shop: Path, title: str) -> None:
    parameters, rows = EXPECTED[title]
    result = run_cypher(CypherRequest(query=RECIPES[title], parameters=dict(parameters)), shop)
    assert [[ordered(cell) for cell in row] for row in result.rows] == rows


def test_how_one_document_leads_to_another(shop: Path) -> None:
    parameters = {"from": "docs/cart.md", "to": "shop/cart.py"}
    query = RECIPES["How one document leads to another"]
    rows = run_cypher(CypherRequest(query=query, parameters=dict(parameters)), shop).rows
    steps, nodes, edges = rows[0]
    assert steps == 2
    assert nodes[0]["path"] == "docs/cart.md"
    assert {edge["type"] for edge in edges} <= {"LINKS_TO", "RESOLVES_TO", "REFERS_TO", "DEFINED_IN"}


def test_every_recipe_is_tested_and_can_be_put_to_a_server() -> None:
    assert set(RECIPES) == {*EXPECTED, "How one document leads to another"}
    given = {"symbol": "", "name": "", "path": "", "test": "", "from": "", "to": ""}
    for query in RECIPES.values():
        assert guard(query, given, "shop", 10, NEO4J).text


def test_the_document_names_the_schema_and_the_functions() -> None:
    assert all(f"    (:{label} {{{', '.join(names)}}})" in TEXT for label, names in NODE_PROPERTIES.items())
    assert all(f"    (:{a})-[:{name}]->(:{b})" in TEXT for name, ends in EDGE_ENDS.items() for a, b in ends)
    listed = re.search(r"hese functions: `([^`]+)`", TEXT)
    assert listed is not None
    assert {name.lower() for name in listed[1].split()} == dialect_named(NEO4J).functions.keys() | WRITTEN_OUT
