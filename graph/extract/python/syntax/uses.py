"""Reads what a Python file uses: names, attributes, calls."""

from __future__ import annotations

from tree_sitter import Node

from sluice.graph.extract.python.reading import text
from sluice.graph.extract.python.scopes import Scope
from sluice.graph.extract.python.syntax.reader import Handler, Reader


def _name(reader: Reader, node: Node, scope: Scope) -> None:
    reader.use(node, scope)


def _attribute(reader: Reader, node: Node, scope: Scope) -> None:
    reader.attribute(node, scope)


def _call(reader: Reader, node: Node, scope: Scope) -> None:
    function = node.child_by_field_name("function")
    reader.push([node.child_by_field_name("arguments")], scope)
    if function is None:
        return
    if function.type == "identifier":
        reader.use(function, scope, True)
        if text(function) == "Tool":
            reader.reading.calls.append((scope, node))
    elif function.type == "attribute":
        reader.attribute(function, scope, True)
        if text(function.child_by_field_name("attribute")) in ("Tool", "add_tool"):
            reader.reading.calls.append((scope, node))
    else:
        reader.use(function, scope, True)
        reader.stack.append((function, scope))


def _keyword_argument(reader: Reader, node: Node, scope: Scope) -> None:
    reader.push([node.child_by_field_name("value")], scope)


HANDLERS: dict[str, Handler] = {
    "identifier": _name,
    "attribute": _attribute,
    "call": _call,
    "keyword_argument": _keyword_argument,
}
