"""The pages of the small web: what Python's own pydoc says about every standard module.

Real documents with real links between them, on every machine that has Python. Importing a module to
document it runs its code, so the modules that open windows, browsers or terminals stay out.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import pydoc
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from types import ModuleType

LEFT_OUT = frozenset(
    "antigravity distutils encodings idlelib lib2to3 test this tkinter turtle turtledemo".split()  # noqa: SIM905
)
"""They act when imported, are on their way out, or are hundreds of tables without a word."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A module as the search index sees it: its name, what it defines and is about, and what is said of its parts."""

    module: str
    names: str
    description: str
    summary: str
    text: str


class _PageMaker(pydoc.HTMLDoc):
    """pydoc's HTML without what leads out of this web: source files and other sites."""

    def filelink(self, url: str, path: str) -> str:
        return "source"

    def getdocloc(self, object: object, basedir: str = "") -> str | None:
        return None


@cache
def module_names() -> tuple[str, ...]:
    """Every public standard module and submodule that is documented here, in alphabetical order."""
    return tuple(sorted({*_top_level(), *_submodules()}))


def _top_level() -> Iterator[str]:
    return (name for name in sys.stdlib_module_names if not name.startswith("_") and name not in LEFT_OUT)


def _submodules() -> Iterator[str]:
    for name in _top_level():
        module = load(name)
        for found in pkgutil.iter_modules(getattr(module, "__path__", ()), f"{name}."):
            last = found.name.rpartition(".")[2]
            if not last.startswith("_") and last not in {"test", "tests", "windows_events", "windows_utils"}:
                yield found.name


def load(name: str) -> ModuleType | None:
    """The module, or None where this Python was built without it or it is for another system."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # deprecated modules are documented too
            return importlib.import_module(name)
    except (ImportError, OSError, AttributeError, ValueError):
        return None


def page_html(name: str) -> str | None:
    """The page of one module, or None where there is none."""
    if name not in module_names():
        return None
    module = load(name)
    if module is None:
        return None
    maker = _PageMaker()
    return maker.page(pydoc.describe(module), maker.document(module, name))


def index_html() -> str:
    """The page that links to all others."""
    links = "\n".join(f'<li><a href="{name}.html">{name}</a></li>' for name in module_names())
    return _PageMaker().page("index of modules", f"<h1>Python's standard modules</h1>\n<ul>\n{links}\n</ul>")


def topic_html(topic: str) -> str | None:
    """One of pydoc's help topics, such as LOOPING, or None."""
    if topic not in pydoc.Helper.topics:
        return None
    maker = _PageMaker()
    text, _ = pydoc.Helper()._gettopic(topic)  # type: ignore[attr-defined]
    return maker.page(topic, f"<h1>{maker.escape(topic)}</h1>\n<pre>{maker.escape(text)}</pre>")


def entries() -> Iterator[Entry]:
    """Every documented module, for the search index."""
    for name in module_names():
        module = load(name)
        if module is not None:
            yield _entry(name, module)


def _entry(name: str, module: ModuleType) -> Entry:
    members = list(_public_members(module))
    description = inspect.getdoc(module) or ""
    first_paragraph = " ".join(description.split("\n\n")[0].split())
    return Entry(
        module=name,
        names=" ".join(member for member, _ in members if "." not in member),
        description=description,
        summary=first_paragraph or f"The module {name}: {', '.join(member for member, _ in members[:12])}",
        text="\n".join(f"{member.replace('.', ' ')}: {said}" for member, said in members),
    )


def _public_members(module: ModuleType) -> Iterator[tuple[str, str]]:
    """The module's own functions and classes and the classes' methods, each with its docstring."""
    for member, value in _documented(module):
        if getattr(value, "__module__", module.__name__) not in {module.__name__, f"_{module.__name__}"}:
            continue
        yield member, inspect.getdoc(value) or ""
        if inspect.isclass(value):
            yield from ((f"{member}.{method}", inspect.getdoc(code) or "") for method, code in _documented(value))


def _documented(holder: object) -> Iterator[tuple[str, object]]:
    for member, value in list(vars(holder).items()):
        if not member.startswith("_") and callable(value):
            yield member, value
