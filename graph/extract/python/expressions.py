"""What expressions of a file mean, by the kind of their syntax."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tree_sitter import Node

from sluice.graph.extract.python.calls import call
from sluice.graph.extract.python.meanings import NOTHING, UNKNOWN, Kind, Meanings, builtin, one_of
from sluice.graph.extract.python.protocols import item
from sluice.graph.extract.python.reading import text
from sluice.graph.extract.python.scopes import Scope

if TYPE_CHECKING:
    from sluice.graph.extract.python.inference import Inference

_LITERALS = {
    "string": "str",
    "concatenated_string": "str",
    "integer": "int",
    "float": "float",
    "true": "bool",
    "false": "bool",
    "comparison_operator": "bool",
    "not_operator": "bool",
}
_COMPREHENSIONS = {"list_comprehension": "list", "set_comprehension": "set", "generator_expression": "generator"}
_MOST_ENTRIES = 8
"""Of a list or a table, the first, that are looked at: they are of one kind, or are functions to choose from."""


def expression(inference: Inference, node: Node, scope: Scope, depth: int) -> Meanings:
    """What the expression means; none where that is not known."""
    kind = node.type
    read = _BY_TYPE.get(kind)
    if read is not None:
        return read(inference, node, scope, depth)
    literal = _LITERALS.get(kind)
    return builtin(literal) if literal is not None else UNKNOWN


def _name(inference: Inference, node: Node, scope: Scope, depth: int) -> Meanings:
    return inference.of_name(text(node), scope, depth)


def _none(inference: Inference, node: Node, scope: Scope, depth: int) -> Meanings:
    return NOTHING


def _attribute(inference: Inference, node: Node, scope: Scope, depth: int) -> Meanings:
    base, name = node.child_by_field_name("object"), node.child_by_field_name("attribute")
    if base is None or name is None:
        return UNKNOWN
    found = [inference.member(meaning, text(name), depth) for meaning in inference.of(base, scope, depth)]
    return one_of(found) if found else UNKNOWN


def _comprehension(inference: Inference, node: Node, scope: Scope, depth: int) -> Meanings:
    body, inner = node.child_by_field_name("body"), inference.opened_by(node)
    element = inference.of(body, inner, depth) if body is not None and inner is not None else UNKNOWN
    return builtin(_COMPREHENSIONS[node.type], element)


def _display(inference: Inference, node: Node, scope: Scope, depth: int) -> Meanings:
    entries = [inference.of(child, scope, depth) for child in node.named_children[:_MOST_ENTRIES]]
    return builtin(node.type, one_of(entries))


def _dictionary(inference: Inference, node: Node, scope: Scope, depth: int) -> Meanings:
    values = [child.child_by_field_name("value") for child in node.named_children[:_MOST_ENTRIES]]
    return builtin("dict", one_of([inference.of(value, scope, depth) if value else UNKNOWN for value in values]))


def _dictionary_comprehension(inference: Inference, node: Node, scope: Scope, depth: int) -> Meanings:
    body, inner = node.child_by_field_name("body"), inference.opened_by(node)
    value = body.child_by_field_name("value") if body is not None else None
    return builtin("dict", inference.of(value, inner, depth) if value is not None and inner is not None else UNKNOWN)


def _inner(inference: Inference, node: Node, scope: Scope, depth: int) -> Meanings:
    return inference.of(node.named_children[0], scope, depth) if node.named_children else UNKNOWN


def _named_expression(inference: Inference, node: Node, scope: Scope, depth: int) -> Meanings:
    value = node.child_by_field_name("value")
    return inference.of(value, scope, depth) if value is not None else UNKNOWN


def _subscript(inference: Inference, node: Node, scope: Scope, depth: int) -> Meanings:
    base = node.child_by_field_name("value")
    found = inference.of(base, scope, depth) if base is not None else UNKNOWN
    return one_of([item(inference, meaning, depth) for meaning in found]) if found else UNKNOWN


def _either(inference: Inference, node: Node, scope: Scope, depth: int) -> Meanings:
    sides = [node.child_by_field_name("left"), node.child_by_field_name("right")]
    return one_of([inference.of(side, scope, depth) for side in sides if side is not None])


def _conditional(inference: Inference, node: Node, scope: Scope, depth: int) -> Meanings:
    children = node.named_children
    if not children:
        return UNKNOWN
    return one_of([inference.of(child, scope, depth) for child in (children[0], children[-1])])


def _binary(inference: Inference, node: Node, scope: Scope, depth: int) -> Meanings:
    left = node.child_by_field_name("left")
    found = inference.of(left, scope, depth) if left is not None else UNKNOWN
    return found if found and all(meaning.kind is Kind.BUILTIN for meaning in found) else UNKNOWN


_BY_TYPE: dict[str, Callable[[Inference, Node, Scope, int], Meanings]] = {
    "identifier": _name,
    "none": _none,
    "attribute": _attribute,
    "call": call,
    "subscript": _subscript,
    "boolean_operator": _either,
    "conditional_expression": _conditional,
    "binary_operator": _binary,
    **dict.fromkeys(_COMPREHENSIONS, _comprehension),
    **dict.fromkeys(("list", "tuple", "set"), _display),
    **dict.fromkeys(("parenthesized_expression", "await"), _inner),
    "named_expression": _named_expression,
    "dictionary": _dictionary,
    "dictionary_comprehension": _dictionary_comprehension,
}
