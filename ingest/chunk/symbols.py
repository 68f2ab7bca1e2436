"""The symbols of a source file: which lines belong to which function, method or class.

The tables below say which nodes of a grammar define a symbol. Decorators, attributes and the comment right above a
definition belong to it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node


_CONTAINERS = frozenset(
    [
        *("class_definition", "class_declaration", "abstract_class_declaration", "class", "class_specifier"),
        *("interface_declaration", "enum_declaration", "record_declaration", "annotation_type_declaration"),
        *("impl_item", "trait_item", "mod_item", "namespace_definition", "internal_module", "module"),
        *("struct_specifier", "union_specifier"),
    ]
)
_DEFINITIONS = _CONTAINERS | frozenset(
    [
        *("function_definition", "function_declaration", "generator_function_declaration", "method_definition"),
        *("method_declaration", "constructor_declaration", "compact_constructor_declaration", "function_item"),
        *("function_signature_item", "struct_item", "enum_item", "union_item", "macro_definition", "type_item"),
        *("type_declaration", "type_definition", "type_alias_declaration", "enum_specifier", "function_signature"),
    ]
)
_WRAPPERS = frozenset(
    ["decorated_definition", "export_statement", "ambient_declaration", "template_declaration", "expression_statement"]
)
_VALUES = frozenset(["lexical_declaration", "variable_declaration", "field_definition", "public_field_definition"])
_FUNCTION_VALUES = frozenset(
    ["arrow_function", "function_expression", "function", "generator_function", "class", "class_expression"]
)
_TRANSPARENT = frozenset(
    [
        *("preproc_ifdef", "preproc_if", "preproc_else", "preproc_elif", "linkage_specification", "declaration_list"),
        *("class_body", "enum_body_declarations", "ERROR"),
    ]
)
_ATTACHED = frozenset(["comment", "line_comment", "block_comment", "attribute_item", "decorator"])
_NAMES = ("name", "property", "type", "declarator", "left")
_TYPE_ARGUMENTS = re.compile(r"<[^<>]*>")
_DEEPEST_NESTING = 12


@dataclass(frozen=True, slots=True)
class Symbol:
    """Lines `first` to `last` (0-based, inclusive) define `path`, as `Class.method`."""

    first: int
    last: int
    path: str
    holds_others: bool


def symbols_of(root: Node) -> list[Symbol]:
    """Every symbol of a source in order of its first line, a class before its methods."""
    return list(_walk(root, "", 0))


def _walk(node: Node, prefix: str, depth: int) -> Iterator[Symbol]:
    attached: int | None = None
    row_before = -1
    for child in node.named_children:
        first, last = child.start_point.row, _last_row(child)
        if child.type in _ATTACHED:
            if first > row_before:
                attached = first if attached is None or first > row_before + 1 else attached
                row_before = last
            continue
        begins = attached if attached is not None and first <= row_before + 1 else first
        attached, row_before = None, last
        defined = _defined(child)
        name = _name(defined) if defined is not None else ""
        if defined is not None and name:
            path = f"{prefix}.{name}" if prefix else name
            holds = defined.type in _CONTAINERS and depth < _DEEPEST_NESTING
            yield Symbol(begins, last, path, holds)
            if holds:
                yield from _walk(defined.child_by_field_name("body") or defined, path, depth + 1)
        elif child.type in _TRANSPARENT and depth < _DEEPEST_NESTING:
            yield from _walk(child, prefix, depth + 1)


def _last_row(node: Node) -> int:
    row, column = node.end_point.row, node.end_point.column
    return row - 1 if column == 0 and row > node.start_point.row else row


def _defined(node: Node) -> Node | None:
    """The defining node in `node`, out of its decorators, exports and assignments."""
    for _ in range(4):
        if node.type in _DEFINITIONS:
            return node
        if node.type in _WRAPPERS:
            inner = next((child for child in reversed(node.named_children) if child.type not in _ATTACHED), None)
            if inner is None:
                return None
            if inner.type == "assignment_expression":
                return inner if _is_function(inner.child_by_field_name("right")) else None
            node = inner
        elif node.type in _VALUES:
            holder = node if "field" in node.type else next(iter(node.named_children), None)
            return holder if holder is not None and _is_function(holder.child_by_field_name("value")) else None
        else:
            return None
    return None


def _is_function(node: Node | None) -> bool:
    return node is not None and node.type in _FUNCTION_VALUES


def _name(node: Node) -> str:
    if node.type == "method_declaration" and node.child_by_field_name("receiver") is not None:
        receiver = _text(node.child_by_field_name("receiver")).strip("()").split()
        return f"{_plain(receiver[-1]) if receiver else ''}.{_text(node.child_by_field_name('name'))}".strip(".")
    if node.type == "type_declaration" and node.named_children:
        node = node.named_children[0]
    if node.type == "type_definition":
        return _plain(_text(node.child_by_field_name("declarator")))
    if node.type == "function_definition" and node.child_by_field_name("declarator") is not None:
        return _plain(_declared(node))
    named = next((found for field in _NAMES if (found := node.child_by_field_name(field)) is not None), None)
    return _plain(_text(named))


def _declared(node: Node) -> str:
    """The name within a C declarator: out of its pointers, references and parameters."""
    for _ in range(8):
        inner = node.child_by_field_name("declarator")
        if inner is None:
            inner = next((c for c in node.named_children if c.type.endswith(("declarator", "identifier"))), None)
        if inner is None or node.type.endswith("identifier"):
            break
        node = inner
    return _text(node)


def _plain(name: str) -> str:
    """`Foo<T>` as `Foo`, `a::b` as `a.b`, `module.exports.x` as `x`, without pointers and quotes."""
    for _ in range(3):
        name = _TYPE_ARGUMENTS.sub("", name)
    bare = name.partition("[")[0].partition("(")[0].strip("*& \t\"'#").replace("::", ".")
    return bare.removeprefix("module.").removeprefix("exports.")


def _text(node: Node | None) -> str:
    return node.text.decode("utf-8", "replace") if node is not None and node.text else ""
