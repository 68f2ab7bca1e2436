"""A node is found by its label and key, by its key, by a path, and by a name where that is plain."""

from __future__ import annotations

import pytest

from sluice.contracts.errors import InvalidInput, NotFound
from sluice.contracts.graph.model import Origin
from sluice.graph.generations.fold import fold
from sluice.graph.generations.view import GraphView
from sluice.graph.walk.nodes import find_node, node_id, node_view
from tests.support.graph_rows import File, rows, view_of


@pytest.fixture
def view() -> GraphView:
    stated = rows(
        File("shop/cart.py").defines("Cart", 1, 20, "class").defines("Cart.add", 5, 9, "method"),
        File("shop/list.py").defines("List.add", 2, 3, "method"),
        File("shop/view.py").refers("shop.cart.Cart", 4).refers("?.remove", 5).refers("os.remove", 6),
        File("docs/cart.md").links("https://example.org/cart", 7, text="the cart"),
    )
    return GraphView(fold(stated, ()), "graph-1", 1)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Symbol:python:shop.cart.Cart", "Symbol:python:shop.cart.Cart"),
        ("python:shop.cart.Cart", "Symbol:python:shop.cart.Cart"),
        ("shop.cart.Cart", "Symbol:python:shop.cart.Cart"),
        ("Cart", "Symbol:python:shop.cart.Cart"),
        ("Cart.add", "Symbol:python:shop.cart.Cart.add"),
        ("remove", "Symbol:python:os.remove"),
        ("shop/cart.py", "Document:shop/cart.py"),
        ("cart.md", "Document:docs/cart.md"),
        ("https://example.org/cart", "URL:https://example.org/cart"),
    ],
)
def test_a_node_is_found_by_what_names_it(view: GraphView, text: str, found: str) -> None:
    assert node_id(view.node(find_node(view, text))) == found


def test_a_name_of_several_is_refused_and_the_remedy_lists_them(view: GraphView) -> None:
    with pytest.raises(InvalidInput, match="'add' names 2 nodes") as refused:
        find_node(view, "add")
    assert refused.value.remedy == "one of Symbol:python:shop.cart.Cart.add, Symbol:python:shop.list.List.add"


@pytest.mark.parametrize("text", ["Symbol:python:shop.Cart", "Nothing:x", "Document:", "art", "", "shop/none.py"])
def test_what_is_not_there_is_not_found(view: GraphView, text: str) -> None:
    with pytest.raises(NotFound, match="the graph has no node"):
        find_node(view, text)


def test_a_document_is_shown_by_its_path_and_a_symbol_without_its_language(view: GraphView) -> None:
    document = node_view(view, find_node(view, "shop/cart.py"))
    assert (document.name, document.path, document.label) == ("shop/cart.py", "shop/cart.py", "Document")
    symbol = node_view(view, find_node(view, "Cart"))
    assert (symbol.id, symbol.name, symbol.path) == ("Symbol:python:shop.cart.Cart", "shop.cart.Cart", None)


def test_the_document_at_a_path_is_meant_before_those_whose_path_ends_so() -> None:
    view = view_of(File("shop/cart.py"), File("web/shop/cart.py"), File("web/cart.py"))
    assert node_id(view.node(find_node(view, "shop/cart.py"))) == "Document:shop/cart.py"
    with pytest.raises(InvalidInput) as refused:
        find_node(view, "cart.py")
    assert refused.value.remedy == "one of shop/cart.py, web/cart.py, web/shop/cart.py"


def checkout() -> GraphView:
    """A checkout whose package lies in `src`, is imported by its tests, and is written about."""
    return view_of(
        File("shop-1.0/src/shop/__init__.py").aliases("Cart", "shop-1.0.src.shop.cart.Cart"),
        File("shop-1.0/src/shop/cart.py").defines("Cart", 1, 20, "class").defines("Cart.add", 5, 9, "method"),
        File("shop-1.0/tests/test_cart.py")
        .defines("test_add", 3, 9)
        .refers("shop.cart.Cart", 4)
        .refers("shop.Cart", 5),
        File("shop-1.0/docs/cart.md").refers("Cart.add", 7, origin=Origin.MENTION),
    )


@pytest.mark.parametrize("name", ["shop.cart.Cart.add", "shop.Cart.add", "Cart.add", "shop-1.0.src.shop.cart.Cart.add"])
@pytest.mark.parametrize("begin", ["", "python:", "Symbol:python:"])
def test_a_symbol_is_found_by_its_import_path_its_tail_and_the_long_id_of_earlier_versions(
    begin: str, name: str
) -> None:
    view = checkout()
    found = node_view(view, find_node(view, begin + name))
    assert (found.id, found.name) == ("Symbol:python:shop.cart.Cart.add", "shop.cart.Cart.add")


def test_a_file_of_the_checkout_outside_its_package_is_named_without_the_checkout() -> None:
    view = checkout()
    assert node_view(view, find_node(view, "test_add")).id == "Symbol:python:tests.test_cart.test_add"


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("shop.cart.Crt.add", "shop.cart.Cart.add"),
        ("shop.cart.Cart.ad", "shop.cart.Cart.add"),
        ("docs/card.md", "docs/cart.md"),
    ],
)
def test_what_is_not_found_is_told_with_what_comes_near(text: str, near: str) -> None:
    with pytest.raises(NotFound, match=f"there are .*{near}"):
        find_node(checkout(), text)


def test_two_packages_of_one_name_keep_their_long_ids() -> None:
    view = view_of(
        *(File(f"{root}/shop/__init__.py") for root in ("one", "two")),
        *(File(f"{root}/shop/cart.py").defines("Cart", 1, 9, "class") for root in ("one", "two")),
    )
    with pytest.raises(InvalidInput) as refused:
        find_node(view, "shop.cart.Cart")
    assert refused.value.remedy == "one of Symbol:python:one.shop.cart.Cart, Symbol:python:two.shop.cart.Cart"
