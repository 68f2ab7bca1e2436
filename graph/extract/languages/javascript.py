"""JavaScript and TypeScript. A module is its path: `main/shop/cart.ts` is `main.shop.cart`, an `index` its folder."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from sluice.graph.extract.languages.rules import Imported, Placed, Rules, joined, line_of, stem_of, text_of

if TYPE_CHECKING:
    from tree_sitter import Node

_SUFFIX = re.compile(r"(?:\.d)?\.(?:[cm]?[jt]sx?)\Z")


def _module(path: str | None, root: Node) -> str:
    if not path:
        return ""
    stem = _SUFFIX.sub("", path)
    return (stem_of(stem + ".js")).removesuffix(".index")


def _place(name: Node, whole: Node) -> Placed:
    plain = text_of(name).strip("\"'[]")
    holder = name.parent
    if name.type == "member_expression":
        holder, plain = name, text_of(name.child_by_field_name("property"))
    if holder is None or holder.type != "member_expression":
        return Placed(plain)
    owner = text_of(holder.child_by_field_name("object"))
    if owner in ("exports", "module.exports", "self", "window", "globalThis"):
        return Placed(plain, is_absolute=True)
    if owner == "module":  # module.exports = function
        return Placed("default", is_absolute=True)
    if owner == "this" or not re.fullmatch(r"[\w$]+(?:\.[\w$]+){0,3}", owner):
        return Placed(plain)
    owner = owner.removesuffix(".prototype").removeprefix("module.exports.").removeprefix("exports.")
    return Placed(f"{owner}.{plain}", is_absolute=True, owner=owner)


def _imports(root: Node, module: str, path: str | None) -> Iterator[Imported]:
    for node in root.named_children:
        if node.type == "import_statement":
            yield from _import(node, path)
        elif node.type == "export_statement":
            yield from _export(node, module, path)
        else:
            yield from _required(node, path)


def _import(node: Node, path: str | None) -> Iterator[Imported]:
    target = _target(text_of(node.child_by_field_name("source")), path)
    if not target:
        return
    line = line_of(node)
    yield Imported("", target, line, is_module=True)
    for clause in node.named_children:
        if clause.type != "import_clause":
            continue
        for part in clause.named_children:
            if part.type == "identifier":
                yield Imported(text_of(part), f"{target}.default", line)
            elif part.type == "namespace_import":
                yield Imported(text_of(part.named_children[-1]), target, line, is_module=True)
            elif part.type == "named_imports":
                for name, local, at in _specifiers(part):
                    yield Imported(local, f"{target}.{name}", at)


def _export(node: Node, module: str, path: str | None) -> Iterator[Imported]:
    source = node.child_by_field_name("source")
    target = _target(text_of(source), path) if source is not None else module
    line = line_of(node)
    if source is not None and target:
        yield Imported("", target, line, is_module=True)
        if any(child.type == "*" for child in node.children):
            yield Imported("", f"{target}.*", line, exported="*")
    if text_of(node).startswith("export default") and target:
        value = node.child_by_field_name("declaration") or node.child_by_field_name("value")
        if value is not None and value.type != "identifier":
            value = value.child_by_field_name("name")
        if value is not None:
            yield Imported("", joined(module, text_of(value)), line, exported="default")
    for clause in node.named_children:
        if clause.type != "export_clause" or not target:
            continue
        for name, alias, at in _specifiers(clause):
            if source is not None or alias != name:
                yield Imported("", f"{target}.{name}", at, exported=alias)


def _specifiers(clause: Node) -> Iterator[tuple[str, str, int]]:
    """Yield name, alias (or the name again) and line of each part of `{ a, b as c }`."""
    for one in clause.named_children:
        if name := text_of(one.child_by_field_name("name")):
            yield name, text_of(one.child_by_field_name("alias")) or name, line_of(one)


def _required(node: Node, path: str | None) -> Iterator[Imported]:
    """Yield imports by `const x = require("./x")` and `const { a, b: c } = require("./x")`, at the top of a file."""
    for one in node.named_children if node.type in ("lexical_declaration", "variable_declaration") else ():
        value, name = one.child_by_field_name("value"), one.child_by_field_name("name")
        member = ""
        if value is not None and value.type == "member_expression":
            member = text_of(value.child_by_field_name("property"))
            value = value.child_by_field_name("object")
        if value is None or name is None or text_of(value.child_by_field_name("function")) != "require":
            continue
        arguments = value.child_by_field_name("arguments")
        source = arguments.named_children[0] if arguments is not None and arguments.named_children else None
        target = (
            joined(_target(text_of(source), path), member) if source is not None and source.type == "string" else ""
        )
        if not target:
            continue
        yield Imported(text_of(name) if name.type == "identifier" else "", target, line_of(one), is_module=not member)
        for part in name.named_children if name.type == "object_pattern" else ():
            key = text_of(part.child_by_field_name("key")) or text_of(part)
            local = text_of(part.child_by_field_name("value")) or key
            if re.fullmatch(r"[\w$]+", key) and re.fullmatch(r"[\w$]+", local):
                yield Imported(local, f"{target}.{key}", line_of(part))


def _target(source: str, path: str | None) -> str:
    """Return the module that an import names: by its path where it is relative, else as it is written."""
    source = source.strip("\"'`")
    if not source:
        return ""
    if source.startswith("."):
        folder = posixpath.dirname(path or "")
        source = posixpath.normpath(posixpath.join(folder, source))
        if source.startswith("..") or source == ".":
            return ""
    stem = _SUFFIX.sub("", source.removeprefix("node:"))
    return stem.strip("/").replace("/", ".").removesuffix(".index")


JAVASCRIPT = Rules(
    language="javascript",
    wheels=("javascript",),
    queries=("javascript", "untyped", "jsx"),
    module=_module,
    imports=_imports,
    place=_place,
    chains={"member_expression": ("object", "property"), "nested_type_identifier": ("module", "name")},
    wholes=frozenset({"export_statement", "lexical_declaration", "variable_declaration", "ambient_declaration"}),
    own=frozenset({"this", "super"}),
)
TYPESCRIPT = replace(JAVASCRIPT, wheels=("javascript", "typescript"), queries=("javascript", "typed"))
TSX = replace(TYPESCRIPT, queries=("javascript", "typed", "jsx"))
