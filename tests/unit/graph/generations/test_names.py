"""What a reference means: the definitions that its name can mean, and by which rule."""

from __future__ import annotations

import pytest

from tests.support.graph_rows import File, candidates_of, rows


def meant(name: str, by: str, *files: File) -> list[tuple[str, str, str]]:
    """(document, name, rule) of each definition that `name` can mean in the file `by`."""
    found = candidates_of(sorted(rows(*files)), by, f"python:{name}")
    assert not found or sum(share for *_, share in found) == pytest.approx(1)
    return [(document, entry.key.partition(":")[2], how.name) for document, entry, how, _ in found]


def test_an_exact_name_is_its_definition() -> None:
    files = File("a.py").defines("f", 1, 2), File("b.py").defines("f", 1, 2)
    assert meant("a.f", "b.py", *files) == [("a.py", "a.f", "EXACT")]


def test_a_module_path_is_found_by_its_end_nearest_to_the_referring_file() -> None:
    files = (
        File("main/shop/cart.py").defines("f", 1, 2),
        File("old/shop/cart.py").defines("f", 1, 2),
        File("main/tests/test_cart.py"),
        File("old/tests/test_cart.py"),
        File("third/x.py"),
    )
    assert meant("shop.cart.f", "main/tests/test_cart.py", *files) == [
        ("main/shop/cart.py", "main.shop.cart.f", "SUFFIX")
    ]
    assert meant("shop.cart.f", "old/tests/test_cart.py", *files) == [("old/shop/cart.py", "old.shop.cart.f", "SUFFIX")]
    assert len(meant("shop.cart.f", "third/x.py", *files)) == 2


def test_nothing_imports_the_inside_of_a_package_by_its_end() -> None:
    files = File("web/__init__.py"), File("web/json.py").defines("dumps", 1, 2), File("x.py")
    assert meant("json.dumps", "x.py", *files) == []


def test_a_module_of_the_standard_library_is_only_a_file_that_lies_beside() -> None:
    files = File("tools/json.py").defines("dumps", 1, 2), File("tools/x.py"), File("other/y.py")
    assert meant("json.dumps", "tools/x.py", *files) == [("tools/json.py", "tools.json.dumps", "SUFFIX")]
    assert meant("json.dumps", "other/y.py", *files) == []


def test_re_exports_lead_to_the_definition_also_of_what_is_in_it() -> None:
    files = (
        File("shop/__init__.py").aliases("Cart", "shop.cart.Cart").aliases("goods", "shop.items"),
        File("shop/cart.py").defines("Cart", 1, 9, "class").defines("Cart.add", 2, 4, "method"),
        File("shop/items.py").defines("price", 1, 2),
        File("x.py"),
    )
    assert meant("shop.Cart", "x.py", *files) == [("shop/cart.py", "shop.cart.Cart", "ALIAS")]
    assert meant("shop.Cart.add", "x.py", *files) == [("shop/cart.py", "shop.cart.Cart.add", "ALIAS")]
    assert meant("shop.goods.price", "x.py", *files) == [("shop/items.py", "shop.items.price", "ALIAS")]


def test_all_that_a_module_imports_by_a_star_is_its_own() -> None:
    files = (
        File("main/shop/__init__.py").aliases("*", "shop.cart.*").aliases("*", "shop.items.*"),
        File("main/shop/cart.py").defines("Cart", 1, 9, "class"),
        File("main/shop/items.py").defines("price", 1, 2),
        File("main/x.py"),
    )
    assert meant("shop.price", "main/x.py", *files) == [("main/shop/items.py", "main.shop.items.price", "ALIAS")]


def test_aliases_in_a_circle_and_aliases_of_their_own_inside_come_to_an_end() -> None:
    circle = File("a.py").aliases("f", "b.f"), File("b.py").aliases("f", "a.f"), File("x.py")
    assert meant("a.f", "x.py", *circle) == []
    stars = [File(f"m/m{n}.py").aliases("*", "m.*").aliases("m", "m.m") for n in range(12)]
    package = File("m/__init__.py").aliases("m", "m.m")
    for number in range(12):
        package.aliases("*", f"m.m{number}.*").aliases(f"m{number}", f"m.m{number}.m{number}")
    assert meant("m.m1.m2.m3.m4.unknown", "x.py", package, *stars, File("x.py")) == []


def test_a_member_is_looked_up_in_the_bases_in_the_order_of_python() -> None:
    files = (
        File("base.py").defines("Base", 1, 9, "class").defines("Base.save", 2, 3, "method"),
        File("left.py").defines("Left", 1, 9, "class").inherits("Left", "base.Base", 1),
        File("right.py").defines("Right", 1, 9, "class").inherits("Right", "base.Base", 1).defines("Right.save", 2, 3),
        File("both.py")
        .defines("Both", 1, 9, "class")
        .inherits("Both", "left.Left", 1)
        .inherits("Both", "right.Right", 1),
    )
    assert meant("both.Both.save", "both.py", *files) == [("right.py", "right.Right.save", "INHERITED")]
    assert meant("left.Left.save", "both.py", *files) == [("base.py", "base.Base.save", "INHERITED")]


def test_a_member_that_only_subclasses_have_is_theirs() -> None:
    files = (
        File("base.py").defines("Base", 1, 9, "class"),
        File("one.py").defines("One", 1, 9, "class").inherits("One", "base.Base", 1).defines("One.run", 2, 3, "method"),
        File("far.py").defines("Far", 1, 9, "class").defines("Far.run", 2, 3, "method"),
    )
    assert meant("base.Base.run", "base.py", *files) == [("one.py", "one.One.run", "INHERITED")]


def test_a_method_may_mean_those_by_which_subclasses_replace_it_with_less_weight() -> None:
    files = [
        File("base.py").defines("Base", 1, 9, "class").defines("Base.run", 2, 3, "method"),
        File("one.py").defines("One", 1, 9, "class").inherits("One", "base.Base", 1).defines("One.run", 2, 3, "method"),
        File("two.py").defines("Two", 1, 9, "class").inherits("Two", "base.Base", 1).defines("Two.run", 2, 3, "method"),
        File("user.py"),
    ]
    found = candidates_of(rows(*files), "user.py", "python:base.Base.run")
    assert [(document, how.name, round(share, 2)) for document, _, how, share in found] == [
        ("base.py", "EXACT", 0.8),
        ("one.py", "OVERRIDE", 0.1),
        ("two.py", "OVERRIDE", 0.1),
    ]


def test_a_member_that_no_relative_has_is_any_of_its_name() -> None:
    files = File("a.py").defines("A", 1, 9, "class"), File("far.py").defines("Far.run", 2, 3, "method")
    assert meant("a.A.run", "a.py", *files) == [("far.py", "far.Far.run", "NAME")]


def test_a_member_of_what_a_known_function_or_variable_gives_is_any_of_its_name() -> None:
    files = (
        File("a.py").defines("make", 1, 2).defines("logger", 3, 3, "variable"),
        File("far.py").defines("Far.run", 2, 3, "method"),
    )
    assert meant("a.make.run", "a.py", *files) == [("far.py", "far.Far.run", "NAME")]
    assert meant("a.logger.run", "a.py", *files) == [("far.py", "far.Far.run", "NAME")]
    assert meant("a.other.run", "a.py", *files) == []


def test_classes_that_inherit_from_each_other_come_to_an_end() -> None:
    files = (
        File("a.py").defines("A", 1, 9, "class").inherits("A", "b.B.Inner", 1),
        File("b.py").defines("B", 1, 9, "class").inherits("B", "a.A.Inner", 1),
    )
    assert meant("a.A.run", "b.py", *files) == []


def test_an_unknown_receiver_means_any_of_the_name_most_likely_one_that_the_file_imports() -> None:
    files = (
        File("a.py").defines("A.save", 1, 2, "method"),
        File("b.py").defines("B", 1, 9, "class").defines("B.save", 2, 3, "method"),
        File("c.py").defines("C.save", 1, 2, "method"),
        File("x.py").refers("b.B", 1),
    )
    found = candidates_of(sorted(rows(*files)), "x.py", "python:?.save")
    assert [(document, round(share, 3)) for document, *_, share in found] == [
        ("b.py", 0.8),
        ("a.py", 0.1),
        ("c.py", 0.1),
    ]


def test_names_of_other_packages_have_no_definition() -> None:
    assert meant("numpy.einsum", "a.py", File("a.py").defines("einsum", 1, 2)) == []


def test_bases_in_orders_that_contradict_each_other_and_a_class_that_is_its_own_base_come_to_an_end() -> None:
    files = (
        File("a.py").defines("A", 1, 2, "class").defines("A.run", 2, 2, "method").defines("B", 3, 4, "class"),
        File("x.py").defines("X", 1, 2, "class").inherits("X", "a.A", 1).inherits("X", "a.B", 1),
        File("y.py").defines("Y", 1, 2, "class").inherits("Y", "a.B", 1).inherits("Y", "a.A", 1),
        File("z.py").defines("Z", 1, 2, "class").inherits("Z", "x.X", 1).inherits("Z", "y.Y", 1),
        File("loop.py").defines("Loop", 1, 2, "class").inherits("Loop", "loop.Loop", 1),
    )
    assert meant("z.Z.run", "z.py", *files) == [("a.py", "a.A.run", "INHERITED")]
    assert meant("loop.Loop.walk", "loop.py", *files) == []


def test_prose_names_a_member_by_its_class_alone() -> None:
    files = (
        File("main/shop/cart.py").defines("Cart", 1, 9, "class").defines("Cart.add", 2, 3, "method"),
        File("main/shop/box.py").defines("Box", 1, 9, "class").inherits("Box", "main.shop.cart.Cart"),
        File("docs/cart.md"),
    )
    assert meant("Cart.add", "docs/cart.md", *files) == [("main/shop/cart.py", "main.shop.cart.Cart.add", "SUFFIX")]
    assert meant("Box.add", "docs/cart.md", *files) == [("main/shop/cart.py", "main.shop.cart.Cart.add", "INHERITED")]
    assert meant("Cart.remove", "docs/cart.md", *files) == []
