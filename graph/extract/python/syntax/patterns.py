"""Reads the patterns of `match`."""

from __future__ import annotations

from tree_sitter import Node

from sluice.graph.extract.python.reading import line
from sluice.graph.extract.python.scopes import Scope, Value, ValueKind
from sluice.graph.extract.python.syntax.reader import Handler, Reader


def _case_pattern(reader: Reader, node: Node, scope: Scope) -> None:
    patterns = [(child, True) for child in node.named_children]
    while patterns:
        child, is_capture = patterns.pop()
        kind = child.type
        if kind == "dotted_name":
            _captured(reader, child, scope, is_capture)
        elif kind == "class_pattern":
            patterns.extend((entry, index > 0) for index, entry in enumerate(child.named_children))
        elif kind == "keyword_pattern":
            patterns.extend((entry, True) for entry in child.named_children[1:])
        elif kind == "identifier":
            _captured(reader, child, scope, True)
        elif kind in ("string", "concatenated_string", "ERROR", "attribute", "call"):
            reader.stack.append((child, scope))
        else:
            patterns.extend((entry, True) for entry in child.named_children)


def _captured(reader: Reader, node: Node, scope: Scope, is_capture: bool) -> None:
    names = node.named_children or [node]
    if len(names) == 1 and is_capture:
        reader.bind(scope, names[0], Value(ValueKind.UNKNOWN, None, scope, line(node), line(node)))
    else:
        reader.use(node if node.type == "dotted_name" else names[0], scope)


HANDLERS: dict[str, Handler] = {"case_pattern": _case_pattern}
