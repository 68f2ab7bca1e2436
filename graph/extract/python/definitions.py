"""Finds a Python file's definitions: module, functions, classes, variables, attributes, and wrappers.

Calls of a decorated function reach the wrapper before the function itself.

A decorator's own file says which of its functions it returns, the decorated function's file says by what it is
decorated. Both are names, so neither file needs the other: `cached.<result>` is what a call of `cached` gives, and
`Cart.total.<decorated>` is what stands in the place of `Cart.total`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from sluice.contracts.graph.model import (
    DECORATED,
    RESULT,
    Edge,
    EdgeType,
    GraphDocument,
    Node,
    Origin,
    document_node,
    symbol,
    unknown,
)
from sluice.graph.extract.python.inference import KEPT_BY, PROPERTIES, Inference, Kind, Meanings, choices
from sluice.graph.extract.python.scopes import (
    Binding,
    Defined,
    Imported,
    Reading,
    Scope,
    ScopeKind,
    Value,
    ValueKind,
    line,
    text,
)

if TYPE_CHECKING:
    from tree_sitter import Node as SyntaxNode

LANGUAGE = "python"
_OVERLOAD = "overload"
_MOST_DEFINITIONS = 20
"""Of one name in one scope, as the branches of an `if`: more are generated."""


class _Place(NamedTuple):
    first: int
    last: int
    kind: str


def definition_edges(document: GraphDocument, reading: Reading, inference: Inference) -> Iterator[Edge]:
    """DEFINED_IN edges of all that the file defines, and what it inherits and re-exports."""
    target = document_node(document.document_id)
    lines = document.text.count("\n") + 1
    yield _defined(symbol(LANGUAGE, reading.module.name), target, (1, lines), "module")
    for scope in reading.scopes:
        if scope.kind is ScopeKind.CLASS:
            yield from _inherited(scope, inference)
        if scope.kind not in (ScopeKind.MODULE, ScopeKind.CLASS, ScopeKind.FUNCTION):
            continue
        for name, bindings in _named(scope):
            qualified = symbol(LANGUAGE, f"{scope.name}.{name}")
            places = _places(scope, bindings)
            if not places:
                continue
            kind = places[0].kind
            yield _defined(qualified, target, _pairs(places), kind)
            if kind != "variable":
                yield _defined(unknown(LANGUAGE, name), target, tuple(place.first for place in places), kind)
            yield from _typed(qualified, scope, bindings, inference)
    yield from _aliases(reading)


def _named(scope: Scope) -> Iterator[tuple[str, list[Binding]]]:
    yield from scope.bindings.items()
    for name, values in scope.attributes.items():
        if name not in scope.bindings:
            yield name, list(values)


def _places(scope: Scope, bindings: list[Binding]) -> list[_Place]:
    """Where the name is defined. Of functions and classes all places, of a variable the first."""
    defined = [binding for binding in bindings if isinstance(binding, Defined)]
    implemented = [binding for binding in defined if _OVERLOAD not in binding.scope.decorators] or defined
    if implemented:
        return [
            _Place(binding.first, binding.last, _kind(scope, binding)) for binding in implemented[:_MOST_DEFINITIONS]
        ]
    if scope.kind is ScopeKind.FUNCTION:
        return []
    kind = "attribute" if scope.kind is ScopeKind.CLASS else "variable"
    values = [binding for binding in bindings if isinstance(binding, Value) and binding.is_definition]
    return [_Place(values[0].first, values[0].last, kind)] if values else []


def _kind(scope: Scope, binding: Defined) -> str:
    if binding.scope.kind is ScopeKind.CLASS:
        return "class"
    return "method" if scope.kind is ScopeKind.CLASS else "function"


def _pairs(places: list[_Place]) -> tuple[int, ...]:
    """First and last lines of each. Where two lie on one line the pairs would not be told apart: then of the first."""
    lines = tuple(line for place in places for line in (place.first, place.last))
    if len(set(lines)) < len(lines) or list(lines) != sorted(lines):
        return tuple(sorted({places[0].first, places[0].last}))
    return lines


def _inherited(scope: Scope, inference: Inference) -> Iterator[Edge]:
    for meanings in inference.bases(scope):
        for meaning in meanings:
            if meaning.name != scope.name:
                line = scope.node.start_point.row + 1
                yield Edge(
                    EdgeType.INHERITS,
                    symbol(LANGUAGE, scope.name),
                    symbol(LANGUAGE, meaning.name),
                    meaning.origin,
                    (line,),
                )


def _typed(qualified: Node, scope: Scope, bindings: list[Binding], inference: Inference) -> Iterator[Edge]:
    """What a variable is an instance of, and what a function returns: its members are looked for there."""
    if len(bindings) > _MOST_DEFINITIONS:
        return
    for binding in bindings:
        if isinstance(binding, Value) and scope.kind is not ScopeKind.FUNCTION:
            found, line = inference.value(binding), binding.first
        elif isinstance(binding, Defined) and binding.scope.kind is ScopeKind.FUNCTION:
            found, line = inference.result(binding.scope), binding.first
        else:
            continue
        yield from _instances(qualified, found, line)
        if isinstance(binding, Value) and binding.kind is ValueKind.IS:
            yield from _stands_for(qualified, found, line)
        elif isinstance(binding, Defined) and PROPERTIES.intersection(binding.scope.decorators):
            yield from _stands_for(qualified, inference.returned(binding.scope), line)


def _instances(qualified: Node, found: Meanings, line: int) -> Iterator[Edge]:
    for meaning in found:
        target = symbol(LANGUAGE, meaning.name)
        if meaning.kind is Kind.INSTANCE and target != qualified:
            yield Edge(EdgeType.HAS_TYPE, qualified, target, meaning.origin, (line,))


def _stands_for(qualified: Node, found: Meanings, line: int) -> Iterator[Edge]:
    """Of a variable by another name, as `native_str = to_unicode`: what it stands for."""
    for meaning in found:
        target = symbol(LANGUAGE, meaning.name)
        if meaning.kind is Kind.SYMBOL and target != qualified:
            yield Edge(EdgeType.ALIAS_OF, qualified, target, meaning.origin, (line,))


def _aliases(reading: Reading) -> Iterator[Edge]:
    """What the module's own names stand for that it imports: others import them from here."""
    module = reading.module
    for name, bindings in module.bindings.items():
        for binding in bindings:
            if isinstance(binding, Imported) and binding.target != f"{module.name}.{name}":
                source = symbol(LANGUAGE, f"{module.name}.{name}")
                yield Edge(EdgeType.ALIAS_OF, source, symbol(LANGUAGE, binding.target), Origin.IMPORT)
    for target, at in reading.stars:
        if target and target != module.name:
            everything = symbol(LANGUAGE, f"{module.name}.*")
            yield Edge(EdgeType.ALIAS_OF, everything, symbol(LANGUAGE, f"{target}.*"), Origin.IMPORT, (at,))


def _defined(source: Node, target: Node, lines: tuple[int, ...], kind: str) -> Edge:
    return Edge(EdgeType.DEFINED_IN, source, target, Origin.DEFINITION, lines, kind)


_KEEPING = KEPT_BY | {"abstractmethod", "overload", "setter", "getter", "deleter", "wraps", "contextmanager"}
"""Decorators that put nothing of their own in a function's place, or nothing that leads anywhere."""
_MOST_RETURNED = 8
_DEEPEST = 1
"""Functions that are followed: from `return wrapped_by(f)` to what that returns."""


def wrapping_edges(document: GraphDocument, reading: Reading, inference: Inference) -> Iterator[Edge]:
    """ALIAS_OF edges of what functions return to be called, and of what they are decorated by."""
    source = document_node(document.document_id)
    for scope in reading.scopes:
        if scope.kind is ScopeKind.CLASS and "__call__" in scope.bindings:
            yield _alias(f"{scope.name}.{RESULT}", f"{scope.name}.__call__", Origin.SCOPE)
        elif scope.kind is ScopeKind.FUNCTION and scope.returned and scope.node.type != "lambda":
            for name in dict.fromkeys(_returned(scope, inference, 0)):
                yield _alias(f"{scope.name}.{RESULT}", name, Origin.SCOPE)
    for scope, decorator, function in reading.decorated:
        expression = next(iter(decorator.named_children), None)
        if expression is None:
            continue
        is_made = expression.type == "call"
        for name, origin in _decorators(expression, scope, inference):
            yield _alias(f"{function.name}.{DECORATED}", f"{name}.{RESULT}", origin)
            if is_made:
                yield Edge(EdgeType.REFERS_TO, source, symbol(LANGUAGE, name), origin, (line(decorator),))


def _returned(function: Scope, inference: Inference, depth: int) -> Iterator[str]:
    """The functions of the file that a function returns, and the methods that call what it returns."""
    if function.is_generator or depth > _DEEPEST:
        return
    for node in islice((choice for value in function.returned for choice in choices(value)), _MOST_RETURNED):
        found = inference.of(node, function)
        called = node.child_by_field_name("function") if not found and node.type == "call" else None
        for meaning in inference.of(called, function) if called is not None else ():
            own = inference.own(meaning)
            if meaning.kind is Kind.SYMBOL and own is not None and own.kind is ScopeKind.FUNCTION:
                yield from _returned(own, inference, depth + 1)
        for meaning in found:
            own = inference.own(meaning)
            if own is None:
                continue
            if meaning.kind is Kind.SYMBOL and own.kind is ScopeKind.FUNCTION:
                yield own.name
            elif meaning.kind is Kind.INSTANCE and "__call__" in own.bindings:
                yield f"{own.name}.__call__"


def _decorators(expression: SyntaxNode, scope: Scope, inference: Inference) -> Iterator[tuple[str, Origin]]:
    """What a decorator is: of `@retry(3)` what `retry` returns."""
    is_made = expression.type == "call"
    node = expression.child_by_field_name("function") if is_made else expression
    if node is None or node.type not in ("identifier", "attribute"):
        return
    name = node if node.type == "identifier" else node.child_by_field_name("attribute")
    if text(name) in _KEEPING:
        return
    for meaning in inference.of(node, scope):
        if meaning.kind in (Kind.SYMBOL, Kind.INSTANCE):
            called = meaning.name if meaning.kind is Kind.SYMBOL else f"{meaning.name}.__call__"
            yield f"{called}.{RESULT}" if is_made else called, meaning.origin


def _alias(name: str, of: str, origin: Origin) -> Edge:
    return Edge(EdgeType.ALIAS_OF, symbol(LANGUAGE, name), symbol(LANGUAGE, of), origin)
