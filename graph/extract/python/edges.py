"""Reads a Python file into edges: definitions, bases, re-exports, imports and references, by Python's scopes.

Calls of a decorated function reach the wrapper before the function itself. A decorator's own file states which of its
functions it returns, the decorated function's file its decorators. Both are names, so neither file needs the other:
`cached.<result>` is the result of a call of `cached`, `Cart.total.<decorated>` the replacement of `Cart.total`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

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
from sluice.graph.extract.languages.rules import known, line_of, stem_of
from sluice.graph.extract.python.inference import KEPT_BY, Inference, Kind, Meaning, Meanings, is_builtin, one_of
from sluice.graph.extract.python.reading import (
    Binding,
    Defined,
    Imported,
    Reading,
    Receiver,
    Scope,
    ScopeKind,
    Use,
    Value,
    chain_of,
    string_content,
    text,
)
from sluice.graph.extract.tool_lists import registered_tool_edges
from sluice.text.grammar import parse

if TYPE_CHECKING:
    from tree_sitter import Tree

LANGUAGE = "python"
_OVERLOAD = "overload"
_MOST_DEFINITIONS = 20
"""Most definitions of one name in one scope, as the branches of an `if`; a file with more is generated."""
_Target = tuple[str, Origin]
"""A qualified name (a bare one with origin NAME), and its origin."""


def python_edges(document: GraphDocument, tree: Tree | None = None) -> Iterator[Edge]:
    """Yield the file's definitions, imports, bases, registered tools and references.

    Names are bound by Python's rules of scope. A text with errors of syntax is read as far as possible. The file is not
    executed, and only its own text and path count.
    """
    tree = tree or parse("python", document.text.encode("utf-8", "replace"))
    if tree is None:
        return
    stem = _stem(document)
    # A page without a path is named by its id, so that two modules never share a name.
    module = stem.removesuffix(".__init__") or document.document_id
    reading = Reading(tree.root_node, module, stem.rpartition(".")[0])
    inference = Inference(reading)
    yield from definition_edges(document, reading, inference)
    yield from wrapping_edges(document, reading, inference)
    yield from registered_tool_edges(document, reading)
    yield from References(reading, inference).edges(document)


def _stem(document: GraphDocument) -> str:
    """Return the file's path, or else that of its address, as a module: `main.workers.handlers`."""
    try:
        return stem_of(document.path or urlsplit(document.url or "").path)
    except ValueError:
        return ""


class _Place(NamedTuple):
    first: int
    last: int
    kind: str


def definition_edges(document: GraphDocument, reading: Reading, inference: Inference) -> Iterator[Edge]:
    """Yield DEFINED_IN edges of all definitions of the file, and its inheritances and re-exports."""
    target = document_node(document.document_id)
    lines = document.text.count("\n") + 1
    yield _defined(symbol(LANGUAGE, reading.module.name), target, (1, lines), "module")
    for scope in reading.scopes:
        if scope.kind is ScopeKind.INNER:
            continue
        if scope.kind is ScopeKind.CLASS:
            bases = [base for meanings in inference.bases(scope) for base in meanings]
            yield from _bonds(EdgeType.INHERITS, scope.name, bases, line_of(scope.node))
        for name in scope.bindings | scope.attributes:
            bindings: list[Binding] = scope.bindings.get(name) or [*scope.attributes[name]]
            places = _places(scope, bindings)
            if not places:
                continue
            qualified, kind = f"{scope.name}.{name}", places[0].kind
            yield _defined(symbol(LANGUAGE, qualified), target, _pairs(places), kind)
            if kind != "variable":
                yield _defined(unknown(LANGUAGE, name), target, tuple(place.first for place in places), kind)
            yield from _typed(qualified, scope, bindings, inference)
    yield from _aliases(reading)


def _places(scope: Scope, bindings: list[Binding]) -> list[_Place]:
    """Return the places that define the name: all places of functions and classes, the first of a variable."""
    defined = [binding for binding in bindings if isinstance(binding, Defined)]
    implemented = [one for one in defined if _OVERLOAD not in one.scope.decorators.values()] or defined
    if implemented:
        return [_Place(one.first, one.last, _kind(scope, one)) for one in implemented[:_MOST_DEFINITIONS]]
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
    """Return the first and last lines of each. Where two share a line, pairs are ambiguous: then of the first only."""
    lines = tuple(line for place in places for line in (place.first, place.last))
    if len(set(lines)) < len(lines) or list(lines) != sorted(lines):
        return tuple(sorted({places[0].first, places[0].last}))
    return lines


def _typed(qualified: str, scope: Scope, bindings: list[Binding], inference: Inference) -> Iterator[Edge]:
    """Yield the types of a variable's values and of a function's results: their members are looked up there.

    Yields too what a variable is another name for, as in `native_str = to_unicode`.
    """
    for binding in bindings if len(bindings) <= _MOST_DEFINITIONS else ():
        if isinstance(binding, Value) and scope.kind is not ScopeKind.FUNCTION:
            found = inference.value(binding)
            same = found if binding.type is None else ()
        elif isinstance(binding, Defined) and binding.scope.kind is ScopeKind.FUNCTION:
            found, same = inference.result(binding.scope), ()
        else:
            continue
        types = (meaning for meaning in found if meaning.kind is Kind.INSTANCE)
        yield from _bonds(EdgeType.HAS_TYPE, qualified, types, binding.first)
        symbols = (meaning for meaning in same if meaning.kind is Kind.SYMBOL)
        yield from _bonds(EdgeType.ALIAS_OF, qualified, symbols, binding.first)


def _bonds(type_: EdgeType, name: str, to: Iterable[Meaning], line: int) -> Iterator[Edge]:
    for one in to:
        if one.name != name:
            yield Edge(type_, symbol(LANGUAGE, name), symbol(LANGUAGE, one.name), one.origin, (line,))


def _aliases(reading: Reading) -> Iterator[Edge]:
    """Yield the originals of the module's imported names: others import them from here."""
    module = reading.module
    for name, bindings in module.bindings.items():
        for binding in bindings:
            if isinstance(binding, Imported) and binding.target != f"{module.name}.{name}":
                yield _alias(f"{module.name}.{name}", binding.target, Origin.IMPORT)
    for target, at in reading.stars:
        if target and target != module.name:
            yield _alias(f"{module.name}.*", f"{target}.*", Origin.IMPORT)._replace(lines=(at,))


def _defined(source: Node, target: Node, lines: tuple[int, ...], kind: str) -> Edge:
    return Edge(EdgeType.DEFINED_IN, source, target, Origin.DEFINITION, lines, kind)


def _alias(name: str, of: str, origin: Origin) -> Edge:
    return Edge(EdgeType.ALIAS_OF, symbol(LANGUAGE, name), symbol(LANGUAGE, of), origin)


_KEEPING = KEPT_BY | {"abstractmethod", "overload", "setter", "getter", "deleter", "wraps", "contextmanager"}
"""Decorators that put nothing of their own in a function's place, or nothing that leads anywhere."""


def wrapping_edges(document: GraphDocument, reading: Reading, inference: Inference) -> Iterator[Edge]:
    """Yield ALIAS_OF edges of the callables that functions return, and of functions' decorators."""
    source = document_node(document.document_id)
    for scope in reading.scopes:
        if scope.kind is ScopeKind.CLASS and "__call__" in scope.bindings:
            yield _alias(f"{scope.name}.{RESULT}", f"{scope.name}.__call__", Origin.SCOPE)
        elif scope.kind is ScopeKind.FUNCTION and scope.node.type != "lambda":
            for name in dict.fromkeys(_returned(scope, inference)):
                yield _alias(f"{scope.name}.{RESULT}", name, Origin.SCOPE)
        for decorator, last in scope.decorators.items():
            if not last or last in _KEEPING:
                continue
            expression = decorator.named_children[0]
            called = expression.child_by_field_name("function")
            for name, origin in _reached(inference.of(called or expression, scope.around)):
                wrapper = name
                if called is not None:  # `@retry(3)`: the result of `retry` is called
                    wrapper = f"{name}.{RESULT}"
                    at = (line_of(decorator),)
                    yield Edge(EdgeType.REFERS_TO, source, symbol(LANGUAGE, wrapper), origin, at)
                yield _alias(f"{scope.name}.{DECORATED}", f"{wrapper}.{RESULT}", origin)


def _returned(function: Scope, inference: Inference) -> Iterator[str]:
    """Yield the functions of the file that a function returns, and the `__call__` of instances that it returns."""
    for node in () if function.is_generator else function.returned:
        for meaning in inference.of(node, function):
            own = inference.own(meaning)
            if own is not None and meaning.kind is Kind.SYMBOL and own.kind is ScopeKind.FUNCTION:
                yield own.name
            elif own is not None and meaning.kind is Kind.INSTANCE and "__call__" in own.bindings:
                yield f"{own.name}.__call__"


class References:
    """References of one file, gathered name by name."""

    def __init__(self, reading: Reading, inference: Inference) -> None:
        self._reading = reading
        self._inference = inference
        self._lines: dict[_Target, set[int]] = {}
        self._targets: dict[tuple[Scope, str, bool], list[_Target]] = {}

    def edges(self, document: GraphDocument) -> Iterator[Edge]:
        """Yield REFERS_TO edges, each with all its lines."""
        for name, at in (*self._reading.imports, *self._reading.stars):
            self._add([(name, Origin.IMPORT)] if name else [], at)
        for use in reversed(self._reading.uses):  # inner expressions first: their meanings are remembered
            self._read(use)
        self._exported()
        source = document_node(document.document_id)
        for (name, origin), lines in self._lines.items():
            target = unknown(LANGUAGE, name) if origin is Origin.NAME else symbol(LANGUAGE, name)
            yield Edge(EdgeType.REFERS_TO, source, target, origin, tuple(sorted(lines)))

    def _add(self, targets: Iterable[_Target], at: int) -> None:
        for target in targets:
            self._lines.setdefault(target, set()).add(at)

    def _read(self, use: Use) -> None:
        links, attributes = chain_of(use.node)
        base, is_called = links[-1], use.is_called and not attributes
        if base.type == "identifier":
            self._add(self._name(text(base), use.scope, is_called), line_of(base))
        found = self._inference.of(base, use.scope) if attributes or base.type != "identifier" else ()
        if is_called and base.type != "identifier":
            self._add(_reached(found), line_of(base))
        for attribute in attributes:
            is_called = use.is_called and attribute == attributes[-1]
            found = self._attribute(found, text(attribute), line_of(attribute), is_called)

    def _attribute(self, of: Meanings, name: str, at: int, is_called: bool) -> Meanings:
        """Add the references of an attribute of what `of` means, and of its call; return what it means."""
        is_defined = name not in known("python_of_every_object")
        if is_defined:
            self._add([(f"{one.name}.{name}", one.origin) for one in of if one.kind is not Kind.BUILTIN], at)
            self._add([] if of else [(name, Origin.NAME)], at)
        members = [self._inference.member(one, name) for one in of if is_defined or name == "__class__"]
        if is_called:
            self._add(_reached(chain.from_iterable(members), has_symbols=not is_defined), at)
        return one_of(members)

    def _name(self, name: str, scope: Scope, is_called: bool) -> list[_Target]:
        key = (scope, name, is_called)
        if key not in self._targets:
            self._targets[key] = list(dict.fromkeys(self._named(name, scope, is_called)))
        return self._targets[key]

    def _named(self, name: str, scope: Scope, is_called: bool) -> Iterator[_Target]:
        """Yield the symbols that a name refers to at its place."""
        holder = scope.holder(name)
        if holder is None:
            if not is_builtin(name):
                is_starred = bool(self._reading.stars)
                yield (f"{self._reading.module.name}.{name}", Origin.IMPORT) if is_starred else (name, Origin.NAME)
            return
        is_variable = False
        for binding in holder.bindings[name]:
            if isinstance(binding, Imported):
                yield binding.target, Origin.IMPORT
            elif isinstance(binding, Defined):
                yield binding.scope.name, Origin.SCOPE
            elif isinstance(binding, Value):
                is_variable = True
                if holder.kind in (ScopeKind.MODULE, ScopeKind.CLASS):
                    yield f"{holder.name}.{name}", Origin.SCOPE
                elif binding.node is None and _takes_fixtures(holder):
                    yield name, Origin.NAME
        if is_variable or (is_called and isinstance(holder.bindings[name][0], Receiver)):
            # The original of a variable, as in `join = os.path.join`; what a call reaches, as of `cls()`.
            yield from _reached(self._inference.of_name(name, scope), has_calls=is_called)

    def _exported(self) -> None:
        """Add the names in `__all__`."""
        module = self._reading.module
        for binding in module.bindings.get("__all__", ()):
            node = binding.node if isinstance(binding, Value) else None
            for entry in node.named_children if node is not None and node.type in ("list", "tuple") else ():
                if entry.type == "string" and (name := string_content(entry)).isidentifier():
                    is_bound = module.holder(name) is not None or bool(self._reading.stars)
                    own = [(f"{module.name}.{name}", Origin.SCOPE)]
                    self._add(self._name(name, module, False) if is_bound else own, line_of(entry))


def _takes_fixtures(function: Scope) -> bool:
    """Return whether pytest gives a function its parameters, by the names of fixtures."""
    return function.name.rpartition(".")[2].startswith("test") or "fixture" in function.decorators.values()


def _reached(found: Iterable[Meaning], has_symbols: bool = True, has_calls: bool = True) -> Iterator[_Target]:
    """Yield the symbols among the meanings of an expression, and the methods that calls of instances reach."""
    for meaning in found:
        if has_symbols and meaning.kind is Kind.SYMBOL:
            yield meaning.name, meaning.origin
        elif has_calls and meaning.kind is Kind.INSTANCE:
            yield f"{meaning.name}.__call__", meaning.origin
