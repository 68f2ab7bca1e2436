from __future__ import annotations

from sluice.contracts.graph.model import Edge, EdgeType, NodeLabel
from tests.support.graph.python_file import edges_of, pairs

SHOP = """
import dataclasses
RATE: float = 2
class Cart(Base):
    size = 3
    def __init__(self):
        self.items = []
    @dataclasses.wraps
    async def add(self):
        local = 1
        def inner(): ...
"""


def _defined(text: str, path: str = "shop/cart.py") -> dict[str, Edge]:
    return {
        edge.source.key.removeprefix("python:"): edge
        for edge in edges_of(text, path)
        if edge.type is EdgeType.DEFINED_IN and edge.source.label is NodeLabel.SYMBOL
    }


def test_functions_classes_methods_variables_and_attributes_are_defined_by_their_qualified_names() -> None:
    kinds = {name: edge.detail for name, edge in _defined(SHOP).items() if not name.startswith("?")}

    assert kinds == {
        "shop.cart": "module",
        "shop.cart.RATE": "variable",
        "shop.cart.Cart": "class",
        "shop.cart.Cart.size": "attribute",
        "shop.cart.Cart.__init__": "method",
        "shop.cart.Cart.items": "attribute",
        "shop.cart.Cart.add": "method",
        "shop.cart.Cart.add.inner": "function",
    }


def test_all_but_variables_of_the_module_answer_to_their_bare_names_too() -> None:
    bare = {name for name in _defined(SHOP) if name.startswith("?.")}

    assert bare == {"?.Cart", "?.size", "?.__init__", "?.items", "?.add", "?.inner"}


def test_a_definition_has_its_first_and_last_line_decorators_included() -> None:
    assert _defined(SHOP)["shop.cart.Cart.add"].lines == (8, 11)
    assert _defined(SHOP)["shop.cart.RATE"].lines == (3,)


def test_what_is_defined_twice_has_two_pairs_of_lines_and_overloads_none() -> None:
    text = """
    from typing import overload
    if x:
        def f():
            return 1
    else:
        def f():
            return 2
    @overload
    def g(a): ...
    def g(a):
        return a
    """
    assert _defined(text)["shop.cart.f"].lines == (4, 5, 7, 8)
    assert _defined(text)["shop.cart.g"].lines == (11, 12)


def test_a_module_is_named_by_its_whole_path() -> None:
    for path, name in [
        ("main/workers/handlers.py", "main.workers.handlers"),
        ("shop/__init__.py", "shop"),
        ("/shop\\cart.pyi", "shop.cart"),
        ("setup.py", "setup"),
        ("__init__.py", "__init__"),
    ]:
        assert _defined("", path).keys() == {name}


def test_a_renamed_module_renames_all_that_it_defines() -> None:
    before, after = _defined(SHOP, "shop/cart.py"), _defined(SHOP, "shop/basket.py")

    assert {name.replace("shop.cart", "shop.basket") for name in before} == after.keys()
    assert not before.keys() & after.keys() - {name for name in before if name.startswith("?.")}


def test_bases_are_inherited_from_where_they_are_imported_from() -> None:
    text = """
    import a.b
    from c import Base as B, Generic
    class Own: ...
    class Cart(Own, a.b.Mixin, B, Generic[T], ValueError, metaclass=Meta): ...
    """
    assert pairs(text, EdgeType.INHERITS) == {
        ("shop.cart.Cart", "shop.cart.Own"),
        ("shop.cart.Cart", "a.b.Mixin"),
        ("shop.cart.Cart", "c.Base"),
        ("shop.cart.Cart", "c.Generic"),
    }


def test_members_of_a_typed_value_are_looked_for_in_its_type() -> None:
    text = """
    from a import Client
    client: Client = make()
    class Cart:
        owner: "Owner | None"
        def __init__(self): self.client = Client()
        def first(self) -> Client: ...
        @property
        def last(self): return Client()
    class Owner: ...
    """
    assert pairs(text, EdgeType.HAS_TYPE) == {
        ("shop.cart.client", "a.Client"),
        ("shop.cart.Cart.owner", "shop.cart.Owner"),
        ("shop.cart.Cart.client", "a.Client"),
        ("shop.cart.Cart.first", "a.Client"),
        ("shop.cart.Cart.last", "a.Client"),
    }


def test_what_a_module_imports_is_known_by_its_own_name_too() -> None:
    text = """
    import a.b, c.d as e
    from . import models
    from ..db.core import session as s
    from x import *
    def f():
        from y import z
    """
    assert pairs(text, EdgeType.ALIAS_OF, "main/shop/cart.py") == {
        ("main.shop.cart.a", "a"),
        ("main.shop.cart.e", "c.d"),
        ("main.shop.cart.models", "main.shop.models"),
        ("main.shop.cart.s", "main.db.core.session"),
        ("main.shop.cart.*", "x.*"),
    }


def test_a_relative_import_of_a_package_begins_at_the_package() -> None:
    found = pairs("from .cart import Cart\n", EdgeType.ALIAS_OF, "shop/__init__.py")
    assert found == {("shop.Cart", "shop.cart.Cart")}
