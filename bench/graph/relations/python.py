"""Relations of Python files, from `ast` alone: no file is imported, so that any tree can be read.

A call counts where it is plain what it means: a name that an import binds (through re-exports), `self.m` of the class
or its bases, and a method of a variable to which the function gives an instance of a known class, once.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from bench.graph.relations.relation import Relation, Thing, first_sentence
from bench.graph.truth import Definition, dotted

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Defined = _Function | ast.ClassDef
_ROOTS = ("", "src.", "lib.")
_DEEPEST = 8


class _File(NamedTuple):
    path: str
    name: str
    is_package: bool
    is_test: bool
    defined: dict[str, _Defined]
    imported: dict[str, tuple[str, str | None]]
    stars: list[str]


class _Found(NamedTuple):
    file: _File
    node: _Defined
    holder: str = ""
    """The class of a method."""


class PythonTree:
    """The files of Python of a tree, by what they define and import."""

    def __init__(self, texts: dict[str, str]) -> None:
        """`texts` by path below the root of the tree."""
        self._files: dict[str, _File] = {}
        for path, text in texts.items():
            try:
                file = _read(path, ast.parse(text))
            except (SyntaxError, ValueError):
                continue
            self._files[file.name] = file

    def things(self) -> list[Thing]:
        """All functions, methods, classes and tests."""
        return [_thing(found) for found, _ in self._definitions()]

    def relations(self) -> Iterator[Relation]:
        """What is called, tested and inherited, across files."""
        for found, file in self._definitions():
            source = _thing(found)
            if isinstance(found.node, ast.ClassDef):
                for base in self._bases(found):
                    if base.file is not file:
                        yield Relation("inherits", source, _thing(base))
                continue
            for called in self._called(found):
                if called.file is file or called.file.is_test:
                    continue
                target = _thing(called)
                if source.kind == "test":
                    yield Relation("tests", source, target)
                elif not file.is_test:
                    yield Relation("calls", source, target)

    def _definitions(self) -> Iterator[tuple[_Found, _File]]:
        for file in self._files.values():
            for node in file.defined.values():
                yield _Found(file, node), file
                if isinstance(node, ast.ClassDef):
                    for below in node.body:
                        if isinstance(below, _Function):
                            yield _Found(file, below, node.name), file

    def _called(self, found: _Found) -> list[_Found]:
        node = found.node
        stored: dict[str, list[ast.expr | None]] = {}
        for one in ast.walk(node):
            if isinstance(one, ast.arg):
                stored.setdefault(one.arg, []).append(None)
            elif isinstance(one, ast.Assign) and len(one.targets) == 1 and isinstance(one.targets[0], ast.Name):
                stored.setdefault(one.targets[0].id, []).append(one.value)
            elif isinstance(one, ast.withitem) and isinstance(one.optional_vars, ast.Name):
                stored.setdefault(one.optional_vars.id, []).append(None)
            elif isinstance(one, (ast.For, ast.comprehension)):
                for name in ast.walk(one.target):
                    if isinstance(name, ast.Name):
                        stored.setdefault(name.id, []).append(None)
        called: dict[tuple[str, int], _Found] = {}
        for one in ast.walk(node):
            if isinstance(one, ast.Call) and (meant := self._meant(found, one.func, stored)) is not None:
                called.setdefault((meant.file.path, meant.node.lineno), meant)
        return list(called.values())

    def _meant(self, found: _Found, called: ast.expr, stored: dict[str, list[ast.expr | None]]) -> _Found | None:
        parts = dotted(called)
        if not parts:
            return None
        if parts[0] in ("self", "cls") and found.holder and len(parts) == 2:
            return self._member(_Found(found.file, found.file.defined[found.holder]), parts[1])
        if parts[0] in stored:
            values = stored[parts[0]]
            if len(parts) != 2 or len(values) != 1 or not isinstance(values[0], ast.Call):
                return None
            made = dotted(values[0].func)
            if not made or made[0] in stored:
                return None
            made_of = self._resolve(found.file, made)
            if made_of is None or not isinstance(made_of.node, ast.ClassDef):
                return None
            return self._member(made_of, parts[1])
        return self._resolve(found.file, parts)

    def _resolve(self, file: _File, parts: list[str], depth: int = 0) -> _Found | None:
        if depth > _DEEPEST:
            return None
        first, *rest = parts
        if first in file.defined:
            found = _Found(file, file.defined[first])
            return found if not rest else self._member(found, rest[0]) if len(rest) == 1 else None
        if first in file.imported:
            module, attribute = file.imported[first]
            return self._in_module(module, ([attribute] if attribute else []) + rest, depth + 1)
        for star in file.stars:
            target = self._module(star)
            if target is not None and (first in target.defined or first in target.imported):
                return self._resolve(target, parts, depth + 1)
        return None

    def _in_module(self, module: str, parts: list[str], depth: int) -> _Found | None:
        while parts:
            inner = self._module(f"{module}.{parts[0]}")
            file = self._module(module)
            if file is not None and (parts[0] in file.defined or parts[0] in file.imported or inner is None):
                return self._resolve(file, parts, depth)
            module, parts = f"{module}.{parts[0]}", parts[1:]
        return None

    def _module(self, name: str) -> _File | None:
        return next((self._files[root + name] for root in _ROOTS if root + name in self._files), None)

    def _bases(self, found: _Found) -> list[_Found]:
        assert isinstance(found.node, ast.ClassDef)
        bases = [self._resolve(found.file, parts) for one in found.node.bases if (parts := dotted(one))]
        return [base for base in bases if base is not None and isinstance(base.node, ast.ClassDef)]

    def _member(self, found: _Found, name: str, depth: int = 0) -> _Found | None:
        if not isinstance(found.node, ast.ClassDef) or depth > _DEEPEST:
            return None
        for below in found.node.body:
            if isinstance(below, _Function) and below.name == name:
                return _Found(found.file, below, found.node.name)
        inherited = (self._member(base, name, depth + 1) for base in self._bases(found))
        return next((one for one in inherited if one is not None), None)


def _thing(found: _Found) -> Thing:
    node = found.node
    start = min([node.lineno, *(one.lineno for one in node.decorator_list)])
    place = Definition(found.file.path, start, node.end_lineno or node.lineno)
    is_test = found.file.is_test and node.name.startswith("test")
    name = f"{found.holder}.{node.name}" if found.holder and not is_test else node.name
    kind = "test" if is_test else "class" if isinstance(node, ast.ClassDef) else "function"
    told = first_sentence(ast.get_docstring(node) or "")
    if is_test and not told:
        told = node.name.removeprefix("test").strip("_").replace("_", " ")
    return Thing(name, place, told, kind)  # type: ignore[arg-type]


def _read(path: str, tree: ast.Module) -> _File:
    name = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    is_package = path.endswith("__init__.py")
    file = path.rpartition("/")[2]
    is_test = file.startswith("test_") or file in ("tests.py", "conftest.py") or "/tests/" in f"/{path}"
    defined = {node.name: node for node in tree.body if isinstance(node, _Defined)}
    imported: dict[str, tuple[str, str | None]] = {}
    stars: list[str] = []
    for node in tree.body:
        if isinstance(node, ast.Import):
            for one in node.names:
                top = one.name.partition(".")[0]
                imported[one.asname or top] = (one.name if one.asname else top, None)
        elif isinstance(node, ast.ImportFrom):
            parts = name.split(".") if is_package else name.split(".")[:-1]
            above = ".".join(parts[: len(parts) - (node.level - 1)]) if node.level else ""
            module = ".".join(part for part in (above, node.module) if part)
            for one in node.names:
                if one.name == "*":
                    stars.append(module)
                else:
                    imported[one.asname or one.name] = (module, one.name)
    return _File(path, name, is_package, is_test, defined, imported, stars)
