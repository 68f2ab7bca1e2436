"""Reads the tree of a Python file in one pass: what binds names, and the functions and classes that open scopes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from sluice.graph.extract.python.reader import IMPORTS, PATTERN_HANDLERS, USES, Handler, Reader, bind_target
from sluice.graph.extract.python.scopes import (
    Defined,
    Reading,
    Receiver,
    Scope,
    ScopeKind,
    Value,
    ValueKind,
    last_line,
    line,
    text,
)

if TYPE_CHECKING:
    from tree_sitter import Node

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
    left = node.child_by_field_name("left")
    if left is not None:
        bind_target(reader, left, scope, Value(ValueKind.UNKNOWN, None, scope, line(left), last_line(left)))
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
        left = child.child_by_field_name("left")
        around = scope if is_outermost else inner
        if left is not None:
            bind_target(reader, left, inner, Value(ValueKind.UNKNOWN, None, around, line(left), last_line(left)))
        reader.push([entry for entry in child.named_children if entry != left], around)
        is_outermost = False


def _as_pattern(reader: Reader, node: Node, scope: Scope) -> None:
    alias = node.child_by_field_name("alias")
    source = next(iter(node.named_children), None)
    if alias is None:
        reader.push(node.named_children, scope)
        return
    parent = node.parent
    is_error = parent is not None and parent.type.startswith("except")
    kind = ValueKind.INSTANCE if is_error else ValueKind.IS  # `with` binds the manager itself, mostly
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


_BINDINGS: dict[str, Handler] = {
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


_STATIC = frozenset({"staticmethod"})
_OF_CLASS = frozenset({"classmethod", "__new__", "__init_subclass__", "__class_getitem__"})


def _decorated(reader: Reader, node: Node, scope: Scope) -> None:
    decorators = [child for child in node.named_children if child.type == "decorator"]
    definition = node.child_by_field_name("definition")
    if definition is not None and definition.type == "function_definition":
        _function(reader, definition, scope, node, decorators)
    elif definition is not None and definition.type == "class_definition":
        _class(reader, definition, scope, node)
    else:
        reader.push([definition], scope)
    reader.push(decorators, scope)


def _function(
    reader: Reader, node: Node, scope: Scope, whole: Node | None = None, decorators: Iterable[Node] = ()
) -> None:
    whole = whole or node
    name_node = node.child_by_field_name("name")
    name = text(name_node)
    outside = _type_parameters(reader, node, scope)
    inner = reader.inner(ScopeKind.FUNCTION, name, scope, outside, node)
    if inner is scope:
        reader.push(node.named_children, scope)
        return
    inner.decorators = tuple(_last_name(decorator) for decorator in decorators)
    if name_node is not None:
        reader.bind(scope, name_node, Defined(inner, line(whole), last_line(whole)))
    reader.reading.decorated.extend((scope, decorator, inner) for decorator in decorators)
    reader.push([node.child_by_field_name("body")], inner)
    reader.push([node.child_by_field_name("return_type")], outside)
    _parameters(reader, node.child_by_field_name("parameters"), inner, outside, scope)


def _lambda(reader: Reader, node: Node, scope: Scope) -> None:
    inner = reader.inner(ScopeKind.FUNCTION, "", scope, scope, node)
    reader.push([node.child_by_field_name("body")], inner)
    _parameters(reader, node.child_by_field_name("parameters"), inner, scope, scope)


def _parameters(reader: Reader, node: Node | None, inner: Scope, outside: Scope, holder: Scope) -> None:
    is_first = holder.kind is ScopeKind.CLASS and inner.node.type != "lambda"
    for parameter in node.named_children if node is not None else ():
        kind = parameter.type
        default: Node | None = None
        annotation: Node | None = None
        target: Node | None = parameter
        if kind in ("default_parameter", "typed_default_parameter"):
            target = parameter.child_by_field_name("name")
            default = parameter.child_by_field_name("value")
        if kind in ("typed_parameter", "typed_default_parameter"):
            annotation = parameter.child_by_field_name("type")
            target = target if kind == "typed_default_parameter" else next(iter(parameter.named_children), None)
        reader.push([annotation, default], outside)
        if target is None or target.type in ("comment", "keyword_separator", "positional_separator", "ERROR"):
            continue
        is_many = target.type in ("list_splat_pattern", "dictionary_splat_pattern")
        if is_first and target.type == "identifier" and not _STATIC.intersection(inner.decorators):
            named = {*inner.decorators, inner.name.rpartition(".")[2]}
            reader.bind(inner, target, Receiver(holder, bool(_OF_CLASS & named)))
        else:
            how = ValueKind.INSTANCE if annotation is not None and not is_many else ValueKind.UNKNOWN
            value = Value(how, annotation, outside, line(target), last_line(target))
            if annotation is None and default is not None and default.type == "call":
                value = Value(ValueKind.IS, default, outside, line(target), last_line(target))
            elif annotation is None and not is_many:
                value.node = default
            bind_target(reader, target, inner, value)
        is_first = False


def _class(reader: Reader, node: Node, scope: Scope, whole: Node | None = None) -> None:
    whole = whole or node
    name_node = node.child_by_field_name("name")
    outside = _type_parameters(reader, node, scope)
    inner = reader.inner(ScopeKind.CLASS, text(name_node), scope, outside, node)
    if inner is scope:
        reader.push(node.named_children, scope)
        return
    if name_node is not None:
        reader.bind(scope, name_node, Defined(inner, line(whole), last_line(whole)))
    reader.push([node.child_by_field_name("body")], inner)
    reader.push([node.child_by_field_name("superclasses")], outside)


def _type_parameters(reader: Reader, node: Node, scope: Scope) -> Scope:
    parameters = node.child_by_field_name("type_parameters")
    if parameters is None:
        return scope
    outside = reader.inner(ScopeKind.TYPE_PARAMETERS, "", scope, scope, node)
    for parameter in parameters.named_children:
        names = parameter.named_children
        while names and names[0].type in ("type", "constrained_type", "splat_type", "generic_type"):
            reader.push(names[1:], outside)
            names = names[0].named_children
        if names and names[0].type == "identifier":
            reader.bind(outside, names[0], Value(ValueKind.UNKNOWN, None, outside, line(node), line(node)))
    return outside


def _return(reader: Reader, node: Node, scope: Scope) -> None:
    if scope.kind is ScopeKind.FUNCTION:
        scope.returned.extend(node.named_children[:1] or [node])
    reader.push(node.named_children, scope)


def _yield(reader: Reader, node: Node, scope: Scope) -> None:
    scope.definer.is_generator = True
    reader.push(node.named_children, scope)


def _last_name(decorator: Node) -> str:
    """`tool` of `@server.tool(name="x")`."""
    node = next(iter(decorator.named_children), None)
    if node is not None and node.type == "call":
        node = node.child_by_field_name("function")
    if node is not None and node.type == "attribute":
        node = node.child_by_field_name("attribute")
    return text(node)


_DEFINITIONS: dict[str, Handler] = {
    "function_definition": _function,
    "class_definition": _class,
    "decorated_definition": _decorated,
    "lambda": _lambda,
    "return_statement": _return,
    "yield": _yield,
}


_HANDLERS: dict[str, Handler] = {**USES, **_DEFINITIONS, **_BINDINGS, **PATTERN_HANDLERS, **IMPORTS}


def read(reader: Reader) -> Reading:
    """The whole file. What has no handler is read child by child."""
    stack = reader.stack
    reader.push(reader.reading.module.node.named_children, reader.reading.module)
    while stack:
        node, scope = stack.pop()
        handler = _HANDLERS.get(node.type)
        if handler is not None:
            handler(reader, node, scope)
        elif node.child_count:
            stack.extend([(child, scope) for child in reversed(node.named_children)])
    return reader.reading
