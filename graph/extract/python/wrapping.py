"""What decorators put in the place of functions: calls of a function reach the wrapper before the function itself.

A decorator's own file says which of its functions it returns, the decorated function's file says by what it is
decorated. Both are names, so neither file needs the other: `cached.<result>` is what a call of `cached` gives, and
`Cart.total.<decorated>` is what stands in the place of `Cart.total`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from tree_sitter import Node as SyntaxNode

from sluice.contracts.graph.model import DECORATED, RESULT, Edge, EdgeType, GraphDocument, Origin, document_node, symbol
from sluice.graph.extract.python.choices import choices
from sluice.graph.extract.python.inference import KEPT_BY, Inference
from sluice.graph.extract.python.meanings import Kind
from sluice.graph.extract.python.reading import Reading, line, text
from sluice.graph.extract.python.scopes import Scope, ScopeKind

_LANGUAGE = "python"
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
                yield Edge(EdgeType.REFERS_TO, source, symbol(_LANGUAGE, name), origin, (line(decorator),))


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
    return Edge(EdgeType.ALIAS_OF, symbol(_LANGUAGE, name), symbol(_LANGUAGE, of), origin)
