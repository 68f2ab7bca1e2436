"""What is next to a node, whatever name others call it by."""

from __future__ import annotations

import pytest

from sluice.contracts.errors import NotFound
from sluice.contracts.graph.model import EdgeType, Origin
from sluice.graph.generations.view import GraphView
from sluice.graph.walk.nodes import Kind, neighbours
from tests.support.graph_rows import File, view_of


def shop() -> GraphView:
    return view_of(
        File("main/shop/__init__.py").aliases("Cart", "shop.cart.Cart"),
        File("main/shop/cart.py").defines("Cart", 1, 20, "class").defines("Cart.add", 5, 9, "method"),
        File("main/shop/list.py").defines("Items", 1, 9, "class").defines("Items.add", 2, 4, "method"),
        File("main/shop/view.py").defines("show", 3, 9).refers("shop.Cart", 4).refers("?.add", 5, origin=Origin.NAME),
        File("main/docs/cart.md").links("path:main/shop/cart.py", 7, text="the cart"),
    )


def test_a_class_knows_who_defines_it_and_who_uses_it_by_another_name() -> None:
    told = neighbours(shop(), "Symbol:python:main.shop.cart.Cart")
    assert (told.node.id, told.node.name) == ("Symbol:python:shop.cart.Cart", "shop.cart.Cart")
    assert [(entry.edge, entry.direction, entry.node.name) for entry in told.neighbours] == [
        (EdgeType.REFERS_TO, "in", "main/shop/view.py"),
        (EdgeType.DEFINED_IN, "out", "main/shop/cart.py"),
    ]
    assert told.neighbours[0].lines == (4,)


def test_a_call_on_an_unknown_receiver_says_how_many_definitions_it_can_mean() -> None:
    told = neighbours(shop(), "Symbol:python:main.shop.list.Items.add")
    (use,) = [entry for entry in told.neighbours if entry.edge is EdgeType.REFERS_TO]
    assert (use.node.name, use.origin, use.candidates) == ("main/shop/view.py", Origin.NAME, 2)


def test_a_document_knows_the_pages_that_link_to_it() -> None:
    told = neighbours(shop(), "Document:main/shop/cart.py")
    (link,) = [entry for entry in told.neighbours if entry.edge is EdgeType.LINKS_TO]
    assert (link.node.path, link.direction, link.detail) == ("main/docs/cart.md", "in", "the cart")


def test_a_limit_cuts_the_least_sure_and_the_total_stays() -> None:
    whole = neighbours(shop(), "Document:main/shop/view.py")
    cut = neighbours(shop(), "Document:main/shop/view.py", limit=2)
    assert cut.neighbours == whole.neighbours[:2]
    assert cut.total == whole.total > 2


def test_only_edges_of_a_direction_and_of_some_types_are_told_where_these_are_asked_for() -> None:
    whole = neighbours(shop(), "Document:main/shop/view.py")
    out = neighbours(shop(), "Document:main/shop/view.py", direction="out")
    assert {entry.direction for entry in out.neighbours} == {"out"}
    assert out.neighbours == tuple(entry for entry in whole.neighbours if entry.direction == "out")
    named = neighbours(shop(), "main/shop/view.py", types=(EdgeType.REFERS_TO,), limit=1)
    wanted = [entry for entry in whole.neighbours if entry.edge is EdgeType.REFERS_TO]
    assert (named.neighbours, named.total) == ((wanted[0],), len(wanted))


def test_names_that_the_corpus_does_not_define_come_last_and_results_of_calls_are_no_symbols() -> None:
    view = view_of(
        File("shop/cart.py").defines("Cart", 1, 20, "class"),
        File("tests/test_cart.py")
        .refers("pytest.raises", *range(1, 9))
        .refers("?.getvalue", *range(1, 9), origin=Origin.NAME)
        .refers("shop.cart.Cart", 4)
        .refers("shop.cart.Cart.<result>", 4),
    )
    told = neighbours(view, "tests/test_cart.py", types=(EdgeType.REFERS_TO,))
    assert [entry.node.name for entry in told.neighbours] == ["shop.cart.Cart", "pytest.raises", "getvalue"]
    assert told.total == 3


def test_only_documents_of_a_kind_are_told_where_it_is_asked_for() -> None:
    told = neighbours(shop(), "shop.cart.Cart", kind=Kind.CODE)
    assert {entry.node.path for entry in told.neighbours} == {"main/shop/view.py", "main/shop/cart.py"}
    assert neighbours(shop(), "main/shop/cart.py", kind=Kind.PAGE).neighbours[0].node.path == "main/docs/cart.md"


def test_an_unknown_node_is_not_found() -> None:
    with pytest.raises(NotFound, match=r"Symbol:python:shop\.Basket"):
        neighbours(shop(), "Symbol:python:shop.Basket")
