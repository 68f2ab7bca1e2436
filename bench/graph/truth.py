"""What is true of a tree of Python files, by the language itself: parsed by `ast`, imported, and asked by `inspect`.

Nothing of `graph` is used: the bench does not grade the graph by itself.
"""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

Callable_ = ast.FunctionDef | ast.AsyncFunctionDef
Defined = Callable_ | ast.ClassDef


class Definition(NamedTuple):
    """Lines of a file, from its first to its last; the path is relative to the tree's root."""

    path: str
    start: int
    end: int


@dataclass(frozen=True)
class Module:
    """A file of Python: its text, its tree, and what its imports bind names to."""

    root: Path
    path: str
    text: str
    tree: ast.Module = field(repr=False)

    @classmethod
    def read(cls, root: Path, path: Path) -> Module | None:
        """The file; None for one that is no Python of this version."""
        try:
            text = path.read_text(encoding="utf-8")
            return cls(root, path.relative_to(root).as_posix(), text, ast.parse(text))
        except (SyntaxError, UnicodeDecodeError, ValueError):
            return None

    @property
    def name(self) -> str:
        """As it is imported."""
        return self.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    @property
    def is_test(self) -> bool:
        """Whether it is a module of tests."""
        return self.path.rpartition("/")[2].startswith("test_")

    @cached_property
    def imported(self) -> dict[str, tuple[str, str | None]]:
        """Of each name that an import at the top binds: the module, and the attribute of it, if one is meant."""
        found: dict[str, tuple[str, str | None]] = {}
        for node in self.tree.body:
            if isinstance(node, ast.Import):
                for one in node.names:
                    found[one.asname or one.name.partition(".")[0]] = (
                        one.name if one.asname else one.name.partition(".")[0],
                        None,
                    )
            elif isinstance(node, ast.ImportFrom):
                above = self._package(node.level) if node.level else ""
                module = ".".join(part for part in (above, node.module) if part)
                for one in node.names:
                    if one.name != "*":
                        found[one.asname or one.name] = (module, one.name)
        return found

    def definitions(self) -> Iterator[Defined]:
        """Functions and classes at the top, and the methods of those classes."""
        for node in self.tree.body:
            if isinstance(node, Defined):
                yield node
            if isinstance(node, ast.ClassDef):
                yield from (below for below in node.body if isinstance(below, Callable_))

    def lines_of(self, node: Defined) -> Definition:
        """Where the definition stands, with its decorators."""
        start = min([node.lineno, *(one.lineno for one in node.decorator_list)])
        return Definition(self.path, start, node.end_lineno or node.lineno)

    def text_of(self, place: Definition) -> str:
        """The lines of a definition of this file."""
        return "\n".join(self.text.split("\n")[place.start - 1 : place.end])

    def called(self, node: Callable_) -> set[Definition]:
        """Functions and classes of other files of the tree that a function calls by names that imports bind."""
        bound = {one.arg for one in ast.walk(node) if isinstance(one, ast.arg)}
        bound |= {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
        found = {
            self.resolved(one.func)
            for one in ast.walk(node)
            if isinstance(one, ast.Call) and _first_name(one.func) not in bound
        }
        return {place for place in found if place is not None and place.path != self.path}

    def resolved(self, expression: ast.expr) -> Definition | None:
        """Where the function or class is defined that a name, or a dotted name, of the top level means."""
        parts = dotted(expression)
        if not parts or parts[0] not in self.imported:
            return None
        module, attribute = self.imported[parts[0]]
        return _find(self.root, module, tuple(([attribute] if attribute else []) + parts[1:]))

    def _package(self, level: int) -> str:
        parts = self.name.split(".") if self.path.endswith("/__init__.py") else self.name.split(".")[:-1]
        return ".".join(parts[: len(parts) - (level - 1)])


def dotted(expression: ast.expr) -> list[str]:
    """The parts of a name with dots, as `a.b.c`; none of another expression."""
    parts: list[str] = []
    while isinstance(expression, ast.Attribute):
        parts.insert(0, expression.attr)
        expression = expression.value
    return [expression.id, *parts] if isinstance(expression, ast.Name) else []


def _first_name(expression: ast.expr) -> str:
    return next(iter(dotted(expression)), "")


_MODULES: dict[str, ModuleType | None] = {}


def _imported(name: str) -> ModuleType | None:
    """The module; None where it cannot be imported here, as it needs what is not installed."""
    if name not in _MODULES:
        try:
            _MODULES[name] = importlib.import_module(name)
        except (Exception, SystemExit):  # noqa: BLE001 (a module of others raises what it likes)
            _MODULES[name] = None
    return _MODULES[name]


def _find(root: Path, module: str, parts: tuple[str, ...]) -> Definition | None:
    found: Any = _imported(module)
    for position, part in enumerate(parts):
        below = getattr(found, part, None)
        if below is None and isinstance(found, ModuleType):
            below = _imported(".".join((module, *parts[: position + 1])))
        found = below
    try:
        found = inspect.unwrap(found)
    except (ValueError, AttributeError):
        return None
    if not (inspect.isfunction(found) or inspect.isclass(found)):
        return None
    try:
        file = inspect.getsourcefile(found)
        lines, start = inspect.getsourcelines(found)
    except (OSError, TypeError):
        return None
    if file is None or not Path(file).is_relative_to(root):
        return None
    return Definition(Path(file).relative_to(root).as_posix(), max(1, start), start + len(lines) - 1)
