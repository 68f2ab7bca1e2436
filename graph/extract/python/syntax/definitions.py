"""Reads the functions and classes of a Python file: the scopes that they open, and their parameters."""

from __future__ import annotations

from collections.abc import Iterable

from tree_sitter import Node

from sluice.graph.extract.python.reading import last_line, line, text
from sluice.graph.extract.python.scopes import Defined, Receiver, Scope, ScopeKind, Value, ValueKind
from sluice.graph.extract.python.syntax.reader import Handler, Reader
from sluice.graph.extract.python.syntax.targets import bind_target

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


HANDLERS: dict[str, Handler] = {
    "function_definition": _function,
    "class_definition": _class,
    "decorated_definition": _decorated,
    "lambda": _lambda,
    "return_statement": _return,
    "yield": _yield,
}
