from __future__ import annotations

import pytest

from sluice.contracts.graph.model import EdgeType, Origin
from tests.support.graph.python_file import edges_of, references


def test_a_name_of_the_file_is_found_by_scope() -> None:
    found = references(
        """
        RATE = 2
        def price(): return RATE
        def total(): return price()
        """
    )
    assert found == {"shop.cart.RATE": Origin.SCOPE, "shop.cart.price": Origin.SCOPE}


def test_a_class_scope_is_invisible_to_the_functions_in_it() -> None:
    found = references(
        """
        def size(): ...
        class Cart:
            def size(self): return size()
            now = size
        """
    )
    assert set(found) == {"shop.cart.size", "shop.cart.Cart.size"}


@pytest.mark.parametrize(
    "bound",
    [
        "price = 1",
        "for price in rows(): pass",
        "with rows() as price: pass",
        "(price := 1)",
        "a, (b, *price) = rows()",
        "try: pass\n    except E as price: pass",
        "match rows():\n        case [price]: pass",
        "match rows():\n        case {'a': 1, **price}: pass",
        "match rows():\n        case rows.X as price: pass",
        "del price",
        "price += 1",
    ],
)
def test_a_local_name_hides_one_of_the_module(bound: str) -> None:
    text = f"def price(): ...\ndef total():\n    {bound}\n    return price\n"
    assert "shop.cart.price" not in references(text)


@pytest.mark.parametrize("inside", ["[price for price in x]", "lambda price: price", "{price: 1 for price in x}"])
def test_comprehensions_and_lambdas_bind_within_themselves_alone(inside: str) -> None:
    assert "shop.cart.price" not in references(f"def price(): ...\nx = 1\ny = {inside}\n")
    assert "shop.cart.price" in references(f"def price(): ...\nx = 1\ny = {inside}, price\n")


def test_the_first_iterable_of_a_comprehension_is_read_outside_of_it() -> None:
    assert "shop.cart.rows" in references("def rows(): ...\nx = [rows for rows in rows()]\n")


def test_an_assignment_expression_in_a_comprehension_binds_around_it() -> None:
    found = references("def last(): ...\ndef f(x):\n    [last := y for y in x]\n    return last\n")
    assert "shop.cart.last" not in found


def test_global_and_nonlocal_names_mean_what_they_say() -> None:
    found = references(
        """
        def add(): ...
        def outer():
            def add(): ...
            def by_global():
                global add
                add()
            def by_nonlocal():
                nonlocal add
                add()
        """
    )
    assert set(found) == {"shop.cart.add", "shop.cart.outer.add"}


def test_names_that_python_has_built_in_are_left_out() -> None:
    assert references("print(len([1]), __name__, ValueError)\n") == {}
    assert set(references("def print(): ...\nprint()\n")) == {"shop.cart.print"}


def test_nothing_in_a_string_is_a_reference_but_what_an_f_string_inserts() -> None:
    found = references("def f(): ...\ndef g(): ...\nx = 'f() and f.a'\ny = f'f {g()!r:>{g}}'\n")
    assert set(found) == {"shop.cart.g"}


def test_annotations_decorators_defaults_and_bases_are_references() -> None:
    found = references(
        """
        from a import T, deco, default, Base, Meta
        @deco(1)
        def f(x: T = default) -> T: ...
        class C(Base, metaclass=Meta): ...
        """
    )
    assert {"a.T", "a.deco", "a.default", "a.Base", "a.Meta"} <= set(found)


def test_keyword_names_are_no_references() -> None:
    assert set(references("def f(size): ...\ndef size(): ...\nf(size=1)\n")) == {"shop.cart.f"}


def test_what_all_lists_is_a_reference() -> None:
    found = references('from a import b\n__all__ = ["b", "f"]\ndef f(): ...\n')
    assert found["a.b"] is Origin.IMPORT
    assert found["shop.cart.f"] is Origin.SCOPE


def test_a_receiver_that_is_not_known_is_a_question_mark() -> None:
    found = references("def f(x):\n    x.save().send\n")
    assert found == {"?.save": Origin.NAME, "?.send": Origin.NAME}


def test_methods_of_values_that_python_has_built_in_are_left_out() -> None:
    assert references("x = []\nx.append('a'.strip())\ny: dict[str, int] = {}\ny.get('a')\n") == {
        "shop.cart.x": Origin.SCOPE,
        "shop.cart.y": Origin.SCOPE,
    }


def test_a_reference_has_all_its_lines_once() -> None:
    edges = edges_of("def f(): ...\nf(); f()\nx = 1\nf()\n")
    lines = [edge.lines for edge in edges if edge.type is EdgeType.REFERS_TO]
    assert lines == [(2, 4)]
