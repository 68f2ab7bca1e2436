"""What an expression can come to, where it is not known to which: `a` and `b` of `a if c else b`."""

from __future__ import annotations

from collections.abc import Iterator

from tree_sitter import Node

from sluice.graph.extract.python.reading import string_content, text

_MOST = 8


def choices(node: Node) -> Iterator[Node]:
    """The expressions that it can come to, itself where it is no choice; the first few."""
    work = [node]
    for _ in range(_MOST):
        if not work:
            return
        node = work.pop()
        if node.type == "conditional_expression" and node.named_children:
            work += [node.named_children[-1], node.named_children[0]]
        elif node.type in ("boolean_operator", "parenthesized_expression"):
            work += reversed(node.named_children)
        else:
            yield node


def last_name(node: Node) -> str:
    """The attribute that is read: `save` of `item.save` and of `getattr(item, "save")`; empty where it is none."""
    if node.type == "attribute":
        return text(node.child_by_field_name("attribute"))
    if node.type != "call" or text(node.child_by_field_name("function")) != "getattr":
        return ""
    return read_attribute(node)


def read_attribute(call: Node) -> str:
    """The attribute that a call of `getattr` reads; empty where its name is not written out."""
    arguments = call.child_by_field_name("arguments")
    written = arguments.named_children if arguments is not None else []
    if len(written) < 2 or written[1].type != "string":
        return ""
    name = string_content(written[1])
    is_whole = not any(child.type == "interpolation" for child in written[1].named_children)
    return name if is_whole and name.isidentifier() else ""


def read_beginning(call: Node) -> str:
    """How the attribute that a call of `getattr` reads begins: `visit_` of `"visit_" + name` and `f"visit_{name}"`."""
    arguments = call.child_by_field_name("arguments")
    written = arguments.named_children if arguments is not None else []
    node: Node | None = written[1] if len(written) > 1 else None
    if node is not None and node.type == "binary_operator":
        node = node.child_by_field_name("left")
    if node is None or node.type != "string":
        return ""
    first = next((child for child in node.named_children if child.type in ("string_content", "interpolation")), None)
    beginning = text(first).partition("%")[0] if first is not None and first.type == "string_content" else ""
    return beginning if len(beginning) > 1 and beginning.isidentifier() else ""
