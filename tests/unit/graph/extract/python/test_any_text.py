from __future__ import annotations

import ast
import inspect

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sluice.graph.extract.extract import put_together
from sluice.graph.extract.python.edges import python_edges
from tests.support.graph import python_file as support
from tests.support.graph.python_file import edges_of, python_file

_WORDS = [
    *("def ", "class ", "async ", "lambda ", "for ", " in ", "with ", " as ", "match ", "case ", "import ", "from "),
    *("global ", "nonlocal ", "del ", "return ", "yield ", "await ", "@", "x", "self", "super()", ".", ",", "(", ")"),
    *("[", "]", "{", "}", ":", ":=", "=", "->", "*", "**", "'", '"""', "f'{", "|", "...", "\n", "\n    ", "\n\t", "\\"),
    *("type X[T] = ", "except* E", "__all__ = ['x']", "Tool(name=", "\x00", "\ud800", "ｘ", "\r"),
]


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(_WORDS), max_size=60).map("".join) | st.text(max_size=200))
@example("def f(:\n  return self.")
@example("class A(A): x = A\nclass B(C): ...\nclass C(B): ...\nB().y.z")
@example("x = x\ny = z\nz = y\ny.a.b")
@example("def f(): return g()\ndef g(): return f()\nf().a")
def test_any_text_is_read_and_twice_the_same(text: str) -> None:
    document = python_file(text)
    edges = put_together(python_edges(document))
    assert edges == put_together(python_edges(document))
    assert list(edges) == sorted(edges)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 50_000 + "x",
        "x" + ".a" * 20_000,
        "x" + ".a()" * 5_000,
        "lambda: " * 5_000 + "x",
        "[" * 3_000 + "y for y in x" + "]" * 3_000,
        "-" * 2_000 + "x",
        "x = " * 5_000 + "y",
        "if x:\n" + "".join(" " * depth + "if x:\n" for depth in range(1, 400)) + " " * 400 + "y.z",
        "".join(" " * depth + f"def f{depth}():\n" for depth in range(400)) + " " * 400 + "f0()",
        "x: " + "list[" * 2_000 + "int" + "]" * 2_000,
        "a = b\n" + "".join(f"a{n} = a{n + 1}\n" for n in range(1_000)) + "a0.x",
    ],
    ids=lambda text: text[:12].strip(),
)
def test_very_deep_text_is_read(text: str) -> None:
    assert edges_of(text)


def test_a_half_written_file_keeps_what_is_whole() -> None:
    found = support.references("def price(): ...\ndef total():\n    return price()\n\nclass Broken(\n")
    assert "shop.cart.price" in found


def test_a_file_without_path_is_named_by_its_address_or_its_id() -> None:
    by_url = python_edges(python_file("def f(): ...", None, "https://example.org/shop/cart.py?raw=1"))
    by_id = python_edges(python_file("def f(): ...", None))
    assert any(edge.source.key == "python:shop.cart.f" for edge in by_url)
    assert any(edge.source.key == "python:d.f" for edge in by_id)


def test_a_changed_function_changes_edges_of_this_document_alone() -> None:
    """Each edge begins at the document, ends there, or is between names that it states: nothing else is looked at."""
    before = "import a\ndef f(): a.x()\ndef g(): ...\n"
    changed = set(edges_of(before)) ^ set(edges_of(before.replace("a.x()", "a.y()")))
    assert {edge.target.key for edge in changed} == {"python:a.x", "python:a.y"}
    assert {edge.source.key for edge in changed} == {"d"}


def test_every_definition_of_a_real_file_is_found() -> None:
    source = inspect.getsource(inspect)
    names = {edge.source.key for edge in edges_of(source, "inspect.py")}
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            assert f"python:inspect.{node.name}" in names
