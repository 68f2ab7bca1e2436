"""What prose names: symbols, tests and files."""

from __future__ import annotations

import pytest

from sluice.contracts.graph.model import EdgeType, GraphDocument, Origin
from sluice.graph.extract.extract import extract_edges


def mentions(text: str, path: str = "main/docs/cart.md", language: str = "en") -> set[str]:
    edges = extract_edges(GraphDocument("d1", path, None, None, language, text, {}))
    return {edge.target.key for edge in edges if edge.origin is Origin.MENTION}


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("`IndexReader`", "python:?.IndexReader"),
        ("`Session`", "python:?.Session"),
        ("`gate.decide`", "python:gate.decide"),
        ("`decide()`", "python:?.decide"),
        ("`Cart.add(item, 2)`", "python:Cart.add"),
        ("`open_cart`", "python:?.open_cart"),
        ("`from shop.cart import Cart`", "python:shop.cart.Cart"),
        ("`tests/test_cart.py::TestCart::test_add`", "python:tests.test_cart.TestCart.test_add"),
        ("`workers/handlers.py`", "path:workers/handlers.py"),
        ("in workers/handlers.py:12, see", "path:workers/handlers.py"),
        ("in ../shop/cart.py", "path:main/shop/cart.py"),
        ("`handlers.py`", "path:?/handlers.py"),
    ],
)
def test_what_looks_like_a_symbol_or_a_file_is_named(words: str, named: str) -> None:
    assert named in mentions(words)


@pytest.mark.parametrize(
    "words",
    ["`run`", "`default`", "`None`", "`print()`", "`__init__`", "`two words`", "`TODO`", "`shop.example`", "`--flag`"],
)
def test_words_that_are_in_backquotes_for_another_reason_name_nothing(words: str) -> None:
    assert mentions(words) == set()


@pytest.mark.parametrize("words", ["and/or.", "handlers.py", "https://shop.example/a/b.py", "1/2.5", "a/b.c.d/e"])
def test_what_only_resembles_a_path_in_plain_words_names_nothing(words: str) -> None:
    assert mentions(words) == set()


def test_the_language_of_a_name_is_that_of_the_code_blocks_beside_it() -> None:
    assert mentions("`openCart()`\n\n```ts\nlet x\n```\n") == {"javascript:?.openCart"}
    assert "rust:Cart.add" in mentions("`Cart::add`")


def test_roles_and_directives_of_sphinx_name_symbols() -> None:
    text = """
.. module:: shop.cart

.. class:: Cart(owner)

   .. method:: add(item)

Use :func:`~shop.pay.pay`, :class:`the pot <shop.pot.Pot>`, :meth:`Cart.total` and ``open_cart``.
"""
    assert mentions(text, "main/docs/cart.rst") == {
        "python:shop.cart",
        "python:shop.cart.Cart",
        "python:shop.cart.Cart.add",
        "python:shop.pay.pay",
        "python:shop.pot.Pot",
        "python:Cart.total",
        "python:?.open_cart",
    }


def test_data_names_files() -> None:
    assert mentions("run: pytest tests/unit/test_cart.py\n", "main/ci.yml", "yaml") == {"path:tests/unit/test_cart.py"}


def test_a_report_refers_to_its_failing_tests_and_links_to_their_files() -> None:
    text = """Test report report.xml: 2 of 9 tests fail.

FAILED tests/test_cart.py::TestCart::test_add[a::b] - assert 1 == 2
FAILED tests/test_pay/TestPay::test_pay - KeyError: 'card'
"""
    edges = extract_edges(GraphDocument("d1", "report.xml", None, None, None, text, {"repository_facts": "tests"}))
    said = {(edge.type, edge.target.key, edge.lines) for edge in edges if edge.origin is Origin.TEST}
    assert said == {
        (EdgeType.REFERS_TO, "python:tests.test_cart.TestCart.test_add", (3,)),
        (EdgeType.LINKS_TO, "path:tests/test_cart.py", (3,)),
        (EdgeType.REFERS_TO, "python:tests.test_pay.TestPay.test_pay", (4,)),
        (EdgeType.LINKS_TO, "path:tests/test_pay.py", (4,)),
    }


def test_a_member_of_a_class_names_the_class_too_and_a_call_on_a_value_the_method() -> None:
    assert mentions("`Cart.add`") == {"python:Cart.add", "python:?.Cart"}
    assert mentions("`cart.add()`") == {"python:cart.add", "python:?.add"}
    assert mentions("`cart.add`") == {"python:cart.add"}


def test_what_samples_of_python_import_is_named_at_its_line() -> None:
    text = "Buy:\n\n```python\nfrom shop.cart import Cart\n\nCart().add(1)\n```\n\n```sh\nimport shop.no\n```\n"
    edges = extract_edges(GraphDocument("d1", "main/docs/cart.md", None, None, "en", text, {}))
    found = {edge.target.key: edge.lines for edge in edges if edge.origin is Origin.MENTION}
    assert found["python:shop.cart.Cart"] == (4, 6)
    assert "python:shop.no" not in found


def test_samples_with_prompts_and_literal_blocks_are_read() -> None:
    text = "Buy::\n\n    >>> from shop.cart import Cart\n    >>> Cart()\n    <Cart>\n\nDone.\n"
    assert "python:shop.cart.Cart" in mentions(text, "main/docs/cart.rst")
