from __future__ import annotations

import pytest

from sluice.contracts.graph.model import Origin
from tests.support.graph.python_file import references

CLASSES = """
import shop.db as db
from a import Client, make
class Item:
    client: Client
    def price(self) -> int: ...
    def again(self): return self
    def other(self) -> "Item": ...
    @property
    def twin(self) -> Item: ...
    def __enter__(self) -> Item: ...
"""


@pytest.mark.parametrize(
    "code",
    [
        "x = Item(); x.price()",
        "Item().price()",
        "Item().again().price()",
        "Item().other().twin.price()",
        "x: Item = make(); x.price()",
        "y = Item(); x = y; x.price()",
        "x = Item() if make else None; x.price()",
        "with Item() as x: x.price()",
        "def f(x: Item): x.price()",
        "def f(x: Item | None = None): x.price()",
        "def f(x: 'Item'): x.price()",
        "from typing import *\ndef f(x: Optional[Item]): x.price()",
        "def g() -> Item: ...\ng().price()",
        "def g(): return Item()\nx = g(); x.price()",
        "async def g() -> Item: ...\nasync def f(): (await g()).price()",
        "class Sub(Item):\n    def f(self): self.twin.price()",
        "class Cart:\n    def __init__(self, x: Item): self.x = x\n    def f(self): self.x.price()",
        "class Cart:\n    def __init__(self): self.x = Item()\ndef f(c: Cart): c.x.price()",
        "if (x := Item()): x.price()",
        "bound = Item.price\nbound()",
    ],
)
def test_a_method_of_a_value_of_a_known_class_is_that_class_s(code: str) -> None:
    found = references(f"{CLASSES}\n{code}\n")
    assert found["shop.cart.Item.price"] in (Origin.SCOPE, Origin.SELF)
    assert "?.price" not in found


def test_what_is_made_by_something_imported_is_named_by_it() -> None:
    found = references(CLASSES + "c = Client(); c.send()\nm = make(); m.run()\ndb.engine.connect()\n")
    assert found["a.Client.send"] is Origin.IMPORT
    assert found["a.make.run"] is Origin.IMPORT
    assert found["shop.db.engine.connect"] is Origin.IMPORT


def test_members_of_self_and_cls_are_of_the_class_whether_it_has_them_or_not() -> None:
    found = references(
        """
        class Cart:
            def f(self):
                self.g()
                def inner(): self.h()
            @classmethod
            def make(cls): cls.k(); cls().l()
            @staticmethod
            def free(self): self.m()
        """
    )
    assert found == {
        "shop.cart.Cart": Origin.SELF,
        "shop.cart.Cart.g": Origin.SELF,
        "shop.cart.Cart.h": Origin.SELF,
        "shop.cart.Cart.k": Origin.SELF,
        "shop.cart.Cart.l": Origin.SELF,
        "?.m": Origin.NAME,
    }


def test_super_is_each_base() -> None:
    found = references("from a import B\nclass Cart(B, Exception):\n    def f(self): super().f()\n")
    assert found["a.B.f"] is Origin.SELF


def test_a_variable_with_one_unknown_value_is_unknown() -> None:
    found = references(f"{CLASSES}\ndef f(y):\n    x = Item()\n    x = y\n    x.price()\n")
    assert found["?.price"] is Origin.NAME


def test_a_call_of_an_instance_is_a_call_of_its_class_s_method() -> None:
    assert "shop.cart.Item.__call__" in references(f"{CLASSES}\nx = Item()\nx(1)\n")


def test_names_of_a_star_import_are_looked_for_through_it() -> None:
    assert references("from a import *\nrun()\n")["shop.cart.run"] is Origin.IMPORT


def test_an_import_within_a_function_counts_there_alone() -> None:
    found = references("def f():\n    from a import b\n    b()\ndef g():\n    b()\n")
    assert found["a.b"] is Origin.IMPORT
    assert found["?.b"] is Origin.NAME
