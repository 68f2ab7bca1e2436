"""Binds the names of a target: one name, an attribute, or a pattern of several."""

from __future__ import annotations

from tree_sitter import Node

from sluice.graph.extract.python.reading import last_line, line
from sluice.graph.extract.python.scopes import Scope, Value, ValueKind
from sluice.graph.extract.python.syntax.reader import Reader

_PATTERNS = frozenset({"pattern_list", "tuple_pattern", "list_pattern", "tuple", "list", "expression_list"})


def bind_target(reader: Reader, node: Node, scope: Scope, value: Value) -> None:
    """Bind what stands left of `=`, in `for`, in `with`, or as a parameter."""
    targets = [(node, value)]
    while targets:
        node, value = targets.pop()
        kind = node.type
        if kind == "identifier":
            reader.bind(scope, node, value)
        elif kind in _PATTERNS:
            targets.extend(_unpacked(node, value))
        elif kind in ("list_splat_pattern", "dictionary_splat_pattern", "list_splat"):
            rest = Value(ValueKind.UNKNOWN, None, scope, line(node), last_line(node), value.is_definition)
            targets.extend((child, rest) for child in node.named_children)
        elif kind in ("as_pattern_target", "parenthesized_expression"):
            targets.extend((child, value) for child in node.named_children)
        elif kind == "attribute":
            reader.store(node, scope, value)
        else:
            reader.stack.append((node, scope))


def _unpacked(node: Node, value: Value) -> list[tuple[Node, Value]]:
    """The targets in a pattern, each with its own value where both sides are written out."""
    source = value.node
    children = [child for child in node.named_children if child.type != "comment"]
    values: list[Node] = []
    if value.kind is ValueKind.IS and source is not None and source.type in ("tuple", "list", "expression_list"):
        values = [child for child in source.named_children if child.type != "comment"]
    is_even = len(values) == len(children) and not any("splat" in child.type for child in (*values, *children))
    parts: list[tuple[Node, Value]] = []
    for position, child in enumerate(children):
        part = Value(value.kind, source, value.scope, line(child), last_line(child), value.is_definition, position)
        if value.position is not None:
            part.kind = ValueKind.UNKNOWN
        elif is_even:
            part.node, part.position = values[position], None
        parts.append((child, part))
    return parts
