"""The decision record's question: docs linked to a failing test that touches module X."""

from __future__ import annotations

import pytest

from sluice.contracts.errors import NotFound
from sluice.contracts.graph.model import Origin
from sluice.graph.generations.view import GraphView
from sluice.graph.walk.linked import linked
from sluice.graph.walk.nodes import Kind
from tests.support.graph_rows import File, view_of


def shop() -> GraphView:
    return view_of(
        File("main/shop/cart.py").defines("Cart", 1, 20, "class").defines("Cart.add", 5, 9, "method"),
        File("main/shop/till.py").defines("pay", 1, 9),
        File("main/tests/test_cart.py").defines("test_add", 3, 9).refers("shop.cart.Cart", 4, 5),
        File("main/tests/test_more.py")
        .defines("test_both", 3, 9)
        .refers("shop.cart.Cart", 4)
        .refers("shop.till.pay", 5),
        File("main/tests/test_till.py").defines("test_pay", 3, 9).refers("shop.till.pay", 4),
        File("main/docs/cart.md").refers("shop.cart.Cart", 7, origin=Origin.MENTION),
        File("main/docs/till.md").refers("shop.till.pay", 7, origin=Origin.MENTION),
        File("report.xml").refers("tests.test_cart.test_add", 1, origin=Origin.TEST),
    )


@pytest.mark.parametrize(
    "module", ["shop.cart", "cart", "main/shop/cart.py", "shop/cart.py", "shop.cart.Cart", "Document:main/shop/cart.py"]
)
def test_documents_linked_to_the_failing_test_of_a_module(module: str) -> None:
    found = linked(shop(), module, failing_only=True)
    assert [test.name for test in found.tests] == ["main.tests.test_cart.test_add"]
    assert [entry.document.path for entry in found.documents[:2]] == ["main/docs/cart.md", "main/shop/cart.py"]
    assert "report.xml" not in {entry.document.path for entry in found.documents}
    assert found.documents[0].score == 1.0
    (page,) = [entry for entry in found.documents if entry.document.path == "main/docs/cart.md"]
    assert str(page.path) == (
        "main.tests.test_cart.test_add DEFINED_IN main/tests/test_cart.py REFERS_TO shop.cart.Cart DEFINED_IN "
        "main/shop/cart.py <-DEFINED_IN- shop.cart.Cart <-REFERS_TO- main/docs/cart.md"
    )


def test_failing_tests_come_first_where_all_are_asked_for() -> None:
    found = linked(shop(), "shop.cart")
    assert [test.name.rpartition(".")[2] for test in found.tests] == ["test_add", "test_both"]


def test_a_package_is_all_that_is_in_it() -> None:
    found = linked(shop(), "main.shop")
    assert {test.name.rpartition(".")[2] for test in found.tests} == {"test_add", "test_both", "test_pay"}


def test_a_module_that_no_failing_test_touches_gives_no_documents() -> None:
    found = linked(shop(), "shop.till", failing_only=True)
    assert (found.tests, found.documents) == ((), ())


def test_pages_code_and_tests_are_ranked_apart_and_one_kind_may_be_asked_for() -> None:
    found = linked(shop(), "shop.cart")
    assert [(entry.document.path, entry.kind, entry.score) for entry in found.documents[:2]] == [
        ("main/docs/cart.md", "docs", 1.0),
        ("main/shop/cart.py", "code", 1.0),
    ]
    assert [entry.kind for entry in linked(shop(), "shop.cart", kind=Kind.PAGE).documents] == ["docs", "docs"]


def test_a_page_about_what_many_tests_use_does_not_lead_before_one_about_the_module() -> None:
    tests = [
        File(f"main/tests/test_{n}.py").defines("test_it", 1, 9).refers("pytest.raises", 2, 3, 4) for n in range(9)
    ]
    tests[0].refers("shop.cart.Cart", 5)
    view = view_of(
        *tests,
        File("main/shop/cart.py").defines("Cart", 1, 20, "class").defines("Cart.add", 2, 9, "method"),
        File("main/docs/testing.md").refers("pytest.raises", *range(1, 20), origin=Origin.MENTION),
        File("main/docs/cart.md").refers("Cart", 7, origin=Origin.MENTION).refers("?.Cart", 7, origin=Origin.MENTION),
    )
    found = linked(view, "shop.cart", kind=Kind.PAGE)
    assert [entry.document.path for entry in found.documents] == ["main/docs/cart.md"]


def test_top_k_bounds_the_documents() -> None:
    assert len(linked(shop(), "shop.cart", top_k=1).documents) == 1


def test_an_unknown_module_is_not_found() -> None:
    with pytest.raises(NotFound, match=r"shop\.cellar"):
        linked(shop(), "shop.cellar")


def test_a_failing_test_touches_what_its_inner_functions_and_its_fixtures_refer_to() -> None:
    view = view_of(
        File("main/shop/cart.py").defines("Cart", 1, 20, "class"),
        File("main/tests/conftest.py").defines("cart", 3, 9).refers("shop.cart.Cart", 4),
        File("main/tests/test_cart.py").defines("test_it", 3, 9).refers("?.cart", 3, origin=Origin.NAME),
        File("main/tests/test_in.py")
        .defines("test_in", 3, 9)
        .defines("test_in.inner", 4, 6)
        .refers("shop.cart.Cart", 5),
        File("report.xml")
        .refers("tests.test_cart.test_it", 1, origin=Origin.TEST)
        .refers("tests.test_in.test_in", 2, origin=Origin.TEST),
    )
    names = {test.name.rpartition(".")[2] for test in linked(view, "shop.cart", failing_only=True).tests}
    assert names == {"test_it", "test_in"}
