"""Reads what binds the names of a Python file: assignments, loops, `with`, `except`, `del`, `global`."""

from __future__ import annotations

from tree_sitter import Node

from sluice.graph.extract.python.reading import last_line, line, text
from sluice.graph.extract.python.scopes import Scope, ScopeKind, Value, ValueKind
from sluice.graph.extract.python.syntax.reader import Handler, Reader
from sluice.graph.extract.python.syntax.targets import bind_target

_MOST_TARGETS = 8
"""In one statement, as `a = b = value`, that are followed to the value."""


def _assignment(reader: Reader, node: Node, scope: Scope) -> None:
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    annotation = node.child_by_field_name("type")
    if left is None:
        return
    kind, source = (ValueKind.INSTANCE, annotation) if annotation is not None else (ValueKind.IS, right)
    for _ in range(_MOST_TARGETS):
        if source is None or source.type != "assignment":
            break
        source = source.child_by_field_name("right")
    value = Value(kind, source, scope, line(node), last_line(node), is_definition=True)
    bind_target(reader, left, scope, value)
    reader.push([annotation, right], scope)


def _augmented_assignment(reader: Reader, node: Node, scope: Scope) -> None:
    left = node.child_by_field_name("left")
    if left is not None and left.type == "identifier":
        holder = scope.target(text(left))
        if text(left) not in holder.bindings:
            reader.bind(scope, left, Value(ValueKind.UNKNOWN, None, scope, line(node), last_line(node)))
    reader.push([left, node.child_by_field_name("right")], scope)


def _named_expression(reader: Reader, node: Node, scope: Scope) -> None:
    name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
    if name is not None:
        holder = scope.definer
        bind_target(reader, name, holder, Value(ValueKind.IS, value, scope, line(node), last_line(node), True))
    reader.push([value], scope)


def _for(reader: Reader, node: Node, scope: Scope) -> None:
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    if left is not None:
        bind_target(reader, left, scope, Value(ValueKind.ELEMENT, right, scope, line(left), last_line(left)))
    reader.push([child for child in node.named_children if child != left], scope)


def _comprehension(reader: Reader, node: Node, scope: Scope) -> None:
    inner = reader.inner(ScopeKind.COMPREHENSION, "", scope, scope, node)
    is_outermost = True
    for child in reversed(node.named_children):
        if child.type != "for_in_clause":
            reader.stack.append((child, inner))
    for child in node.named_children:
        if child.type != "for_in_clause":
            continue
        left, right = child.child_by_field_name("left"), child.child_by_field_name("right")
        around = scope if is_outermost else inner
        if left is not None:
            bind_target(reader, left, inner, Value(ValueKind.ELEMENT, right, around, line(left), last_line(left)))
        reader.push([entry for entry in child.named_children if entry != left], around)
        is_outermost = False


def _as_pattern(reader: Reader, node: Node, scope: Scope) -> None:
    alias = node.child_by_field_name("alias")
    source = next(iter(node.named_children), None)
    if alias is None:
        reader.push(node.named_children, scope)
        return
    parent = node.parent
    kind = ValueKind.CONTEXT
    if parent is not None and parent.type.startswith("except"):
        kind = ValueKind.INSTANCE
    bind_target(reader, alias, scope, Value(kind, source, scope, line(node), last_line(node)))
    reader.push([source], scope)


def _delete(reader: Reader, node: Node, scope: Scope) -> None:
    for child in node.named_children:
        targets = child.named_children if child.type == "expression_list" else [child]
        for target in targets:
            if target.type == "identifier" and not scope.target(text(target)).bindings.get(text(target)):
                reader.bind(scope, target, Value(ValueKind.UNKNOWN, None, scope, line(node), line(node)))
        reader.push(targets, scope)


def _global(reader: Reader, node: Node, scope: Scope) -> None:
    names = {text(child) for child in node.named_children}
    if scope.kind is not ScopeKind.MODULE:
        scope.global_names |= names


def _nonlocal(reader: Reader, node: Node, scope: Scope) -> None:
    if scope.kind is not ScopeKind.MODULE:
        scope.nonlocal_names |= {text(child) for child in node.named_children}


def _type_alias(reader: Reader, node: Node, scope: Scope) -> None:
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    name = left
    while name is not None and name.type in ("type", "generic_type"):
        name = next(iter(name.named_children), None)
    if name is not None and name.type == "identifier":
        reader.bind(scope, name, Value(ValueKind.UNKNOWN, None, scope, line(node), last_line(node), True))
    reader.push([right], scope)


HANDLERS: dict[str, Handler] = {
    "assignment": _assignment,
    "augmented_assignment": _augmented_assignment,
    "named_expression": _named_expression,
    "for_statement": _for,
    "as_pattern": _as_pattern,
    "delete_statement": _delete,
    "global_statement": _global,
    "nonlocal_statement": _nonlocal,
    "type_alias_statement": _type_alias,
    "list_comprehension": _comprehension,
    "set_comprehension": _comprehension,
    "dictionary_comprehension": _comprehension,
    "generator_expression": _comprehension,
}
