"""What a call can reach that does not name it: wrappers, other names, tables of functions, names that are put together."""

from __future__ import annotations

import pytest

from sluice.contracts.graph.model import DocumentRow, GraphDocument
from sluice.graph.extract.extract import put_together
from sluice.graph.extract.python.edges import python_edges
from tests.support.graph_rows import candidates_of

WRAPPING = """
import functools
def cached(f):
    @functools.wraps(f)
    def wrapper(*args): return f(*args)
    return wrapper
def retry(times) -> "Callable":
    def decorator(f):
        def again(*args): return f(*args)
        return again
    return decorator
class Traced:
    def __call__(self, *args): ...
def traced(f): return Traced()
def hook(f): ...
def keeper(f): return f
"""


def reached(*files: tuple[str, str]) -> dict[str, float]:
    """What the last of the files refers to, and the share of each."""
    documents = [GraphDocument(path, path, None, None, "python", text, {}) for path, text in files]
    rows = [DocumentRow(one.document_id, one.path, None, None, put_together(python_edges(one))) for one in documents]
    found: dict[str, float] = {}
    for edge in rows[-1].edges:
        if edge.type.value == "REFERS_TO":
            for _, definition, _, share in candidates_of(sorted(rows), rows[-1].document_id, edge.target.key):
                found[definition.key.removeprefix("python:")] = share
    return found


@pytest.mark.parametrize(
    ("decorator", "wrapper"),
    [
        ("wrap.cached", "wrap.cached.wrapper"),
        ("wrap.retry(3)", "wrap.retry.decorator.again"),
        ("wrap.Traced", "wrap.Traced.__call__"),
        ("wrap.traced", "wrap.Traced.__call__"),
    ],
)
def test_a_call_of_a_decorated_function_may_reach_the_wrapper_with_less_weight(decorator: str, wrapper: str) -> None:
    shop = ("shop.py", f"import wrap\n@{decorator}\ndef pay(): ...\n")
    found = reached(("wrap.py", WRAPPING), shop, ("use.py", "from shop import pay\npay()\n"))
    assert found["shop.pay"] == pytest.approx(0.8)
    assert found[wrapper] == pytest.approx(0.2)


def test_a_decorator_that_is_made_by_a_call_is_reached_where_it_stands() -> None:
    found = reached(("wrap.py", WRAPPING), ("shop.py", "import wrap\n@wrap.retry(3)\ndef pay(): ...\n"))
    assert "wrap.retry.decorator" in found


def test_a_decorator_that_gives_the_function_back_adds_nothing() -> None:
    shop = ("shop.py", "import wrap\n@wrap.keeper\ndef pay(): ...\n")
    assert reached(("wrap.py", WRAPPING), shop, ("use.py", "from shop import pay\npay()\n"))["shop.pay"] == 1


@pytest.mark.parametrize(
    ("use", "function"),
    [
        ("import wrap\ntable = {'a': wrap.hook, 'b': wrap.cached}\ntable['a'](1)", "wrap.hook"),
        ("import wrap\ndef f(x):\n    call = x or wrap.hook\n    call(1)", "wrap.hook"),
        ("class C:\n    def f(self): self.__class__()", "use.C"),
        ("class C:\n    @classmethod\n    def f(cls): cls()", "use.C"),
    ],
)
def test_what_a_call_reaches_by_another_name(use: str, function: str) -> None:
    assert function in reached(("wrap.py", WRAPPING), ("use.py", use + "\n"))


def test_results_of_results_come_to_an_end() -> None:
    text = "@f\ndef f(x): return f\n@f()\ndef g(): return g()\ng()()()\nclass C(C): __call__ = C\n"
    assert "use.f" in reached(("use.py", text))
