"""Reads the imports of a Python file."""

from __future__ import annotations

from tree_sitter import Node

from sluice.graph.extract.python.module_names import imported_name
from sluice.graph.extract.python.reading import line, text
from sluice.graph.extract.python.scopes import Imported, Scope
from sluice.graph.extract.python.syntax.reader import Handler, Reader


def _import(reader: Reader, node: Node, scope: Scope) -> None:
    for child in node.named_children:
        name_node, alias = child, None
        if child.type == "aliased_import":
            name_node = child.child_by_field_name("name") or child
            alias = child.child_by_field_name("alias")
        name = _dotted(name_node)
        if not name:
            continue
        reader.reading.imports.append((name, line(child)))
        if alias is not None:
            reader.bind(scope, alias, Imported(name))
        elif name_node.named_children:
            first = name_node.named_children[0]
            reader.bind(scope, first, Imported(text(first)))


def _import_from(reader: Reader, node: Node, scope: Scope) -> None:
    module_node = node.child_by_field_name("module_name")
    written = "".join(text(module_node).split())
    module = imported_name(reader.package, written)
    if module:
        reader.reading.imports.append((module, line(node)))
    for child in node.named_children:
        if child == module_node:
            continue
        if child.type == "wildcard_import":
            reader.reading.stars.append((module, line(child)))
            continue
        name_node, bound = child, child
        if child.type == "aliased_import":
            name_node = child.child_by_field_name("name") or child
            bound = child.child_by_field_name("alias") or name_node
        if name_node.type != "dotted_name":
            continue
        name = _dotted(name_node)
        target = f"{module}.{name}" if module else name
        reader.reading.imports.append((target, line(child)))
        reader.bind(scope, bound.named_children[0] if bound.named_children else bound, Imported(target))


def _skip(reader: Reader, node: Node, scope: Scope) -> None:
    """What it names is no symbol."""


def _dotted(node: Node) -> str:
    return ".".join(text(child) for child in node.named_children) if node.named_children else text(node)


HANDLERS: dict[str, Handler] = {
    "import_statement": _import,
    "import_from_statement": _import_from,
    "future_import_statement": _skip,
}
