"""Reads a Python file into edges: definitions, bases, re-exports, imports and references, by Python's scopes.

Calls of a decorated function reach the wrapper before the function itself. A decorator's own file states which of its
functions it returns, the decorated function's file its decorators. Both are names, so neither file needs the other:
`cached.<result>` is the result of a call of `cached`, `Cart.total.<decorated>` the replacement of `Cart.total`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
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
from sluice.graph.extract.known_names import known
from sluice.graph.extract.python.inference import (
    KEPT_BY,
    PROPERTIES,
    UNKNOWN,
    Inference,
    Kind,
    Meanings,
    choices,
    is_builtin,
    one_of,
)
from sluice.graph.extract.python.read import Reader
from sluice.graph.extract.python.scopes import (
    Binding,
    Defined,
    Imported,
    Reading,
    Receiver,
    Scope,
    ScopeKind,
    Use,
    Value,
    ValueKind,
    line,
    string_content,
    text,
)
from sluice.graph.extract.python.tools import tool_edges
from sluice.graph.extract.statements import put_together
from sluice.text.grammar import parse

if TYPE_CHECKING:
    from tree_sitter import Node as SyntaxNode
    from tree_sitter import Tree

LANGUAGE = "python"
_OVERLOAD = "overload"
_MOST_DEFINITIONS = 20
"""Most definitions of one name in one scope, as the branches of an `if`; a file with more is generated."""
_Target = tuple[str, Origin]
"""A qualified name (a bare one with origin NAME), and its origin."""


def python_edges(document: GraphDocument, tree: Tree | None = None) -> list[Edge]:
    """Return the file's definitions, imports, bases, registered tools and references; each edge once, in order.

    Names are bound by Python's rules of scope. A text with errors of syntax is read as far as possible. The file is not
    executed, and only its own text and path count.
    """
    tree = tree or parse("python", document.text.encode("utf-8", "replace"))
    if tree is None:
        return []
    reading = Reader(tree.root_node, module_name(document), package_name(document)).read()
    inference = Inference(reading)
    return list(
        put_together(
            chain(
                definition_edges(document, reading, inference),
                wrapping_edges(document, reading, inference),
                tool_edges(document, reading),
                References(reading, inference).edges(document),
            )
        )
    )


_SUFFIXES = (".py", ".pyi", ".pyw")
_PACKAGE = "__init__"


def module_name(document: GraphDocument) -> str:
    """Return the module's name: `main.workers.handlers` for `main/workers/handlers.py`, the folder's for a package.

    A page without a path is named by its address, or else by its id, so that two modules never share a name.
    """
    parts = _parts(document)
    if len(parts) > 1 and parts[-1] == _PACKAGE:
        parts = parts[:-1]
    return ".".join(parts) or document.document_id


def package_name(document: GraphDocument) -> str:
    """Return the package from which relative imports of the file count; empty for a file in no folder."""
    return ".".join(_parts(document)[:-1])


def _parts(document: GraphDocument) -> list[str]:
    path = document.path
    if not path and document.url:
        try:
            path = urlsplit(document.url).path
        except ValueError:
            path = None
    path = (path or "").replace("\\", "/")
    for suffix in _SUFFIXES:
        if path.endswith(suffix):
            path = path.removesuffix(suffix)
            break
    return [part for part in path.split("/") if part not in ("", ".")]


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
    """Return the places that define the name: all places of functions and classes, the first of a variable."""
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
    """Return the first and last lines of each. Where two share a line, pairs are ambiguous: then of the first only."""
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
    """Yield the types of a variable's values and of a function's results: their members are looked up there."""
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
    """Yield the original of a variable that is another name for it, as in `native_str = to_unicode`."""
    for meaning in found:
        target = symbol(LANGUAGE, meaning.name)
        if meaning.kind is Kind.SYMBOL and target != qualified:
            yield Edge(EdgeType.ALIAS_OF, qualified, target, meaning.origin, (line,))


def _aliases(reading: Reading) -> Iterator[Edge]:
    """Yield the originals of the module's imported names: others import them from here."""
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
"""Functions followed: from `return wrapped_by(f)` to the result of `wrapped_by`."""


def wrapping_edges(document: GraphDocument, reading: Reading, inference: Inference) -> Iterator[Edge]:
    """Yield ALIAS_OF edges of the callables that functions return, and of functions' decorators."""
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
    """Yield the functions of the file that a function returns, and the `__call__` of instances that it returns."""
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
    """Yield the name of a decorator's wrapper: for `@retry(3)`, of the result of `retry`."""
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


class References:
    """References of one file, gathered name by name."""

    def __init__(self, reading: Reading, inference: Inference) -> None:
        self._reading = reading
        self._inference = inference
        self._has_stars = bool(reading.stars)
        self._lines: dict[_Target, set[int]] = {}
        self._targets: dict[tuple[Scope, str, bool], list[_Target]] = {}

    def edges(self, document: GraphDocument) -> Iterator[Edge]:
        """Yield REFERS_TO edges, each with all its lines."""
        for name, at in self._reading.imports:
            self._add(name, Origin.IMPORT, at)
        for name, at in self._reading.stars:
            self._add(name, Origin.IMPORT, at)
        for use in reversed(self._reading.uses):  # inner expressions first: their meanings are remembered
            self._read(use)
        for store in self._reading.stores:
            if self._inference.receiver(store.scope, store.holder) is None:
                self._read(Use(store.scope, store.node, False))
        self._exported()
        source = document_node(document.document_id)
        for (name, origin), lines in self._lines.items():
            target = unknown(LANGUAGE, name) if origin is Origin.NAME else symbol(LANGUAGE, name)
            yield Edge(EdgeType.REFERS_TO, source, target, origin, tuple(sorted(lines)))

    def _add(self, name: str, origin: Origin, at: int) -> None:
        if name:
            self._lines.setdefault((name, origin), set()).add(at)

    def _read(self, use: Use) -> None:
        node, scope, found = use.node, use.scope, UNKNOWN
        if node.type == "identifier":
            self._name(text(node), scope, line(node), use.is_called)
            return
        base, attributes = _chain(node)
        if base.type == "identifier":
            name = text(base)
            self._name(name, scope, line(base), use.is_called and not attributes)
            if attributes:
                found = self._inference.of_name(name, scope)
        else:
            found = self._inference.of(base, scope)
            if not attributes:
                for name, origin in _reached(found):
                    self._add(name, origin, line(base))
        for place, attribute in enumerate(attributes):
            is_last = place == len(attributes) - 1
            found = self._attribute(found, text(attribute), line(attribute), use.is_called and is_last)

    def _attribute(self, of: Meanings, name: str, at: int, is_called: bool) -> Meanings:
        if name in known("python_of_every_object"):
            members = [self._inference.member(meaning, name) for meaning in of] if name == "__class__" else []
            if is_called:
                for made, origin in _reached(one_of(members) if members else UNKNOWN):
                    self._add(made, origin, at)
            return one_of(members) if members else UNKNOWN
        if not of:
            self._add(name, Origin.NAME, at)
            return UNKNOWN
        members = []
        for meaning in of:
            if meaning.kind in (Kind.SYMBOL, Kind.INSTANCE):
                self._add(f"{meaning.name}.{name}", meaning.origin, at)
                member = self._inference.member(meaning, name)
                if is_called:
                    self._called(member, at)
                members.append(member)
            elif meaning.kind is Kind.BUILTIN:
                members.append(self._inference.member(meaning, name))
        return one_of(members) if members else UNKNOWN

    def _called(self, called: Meanings, at: int) -> None:
        for name, origin in _calls(called):
            self._add(name, origin, at)

    def _name(self, name: str, scope: Scope, at: int, is_called: bool) -> None:
        key = (scope, name, is_called)
        targets = self._targets.get(key)
        if targets is None:
            targets = self._targets[key] = list(dict.fromkeys(self._named(name, scope, is_called)))
        for target in targets:
            self._lines.setdefault(target, set()).add(at)

    def _named(self, name: str, scope: Scope, is_called: bool) -> Iterator[_Target]:
        """Yield the symbols that a name refers to at its place."""
        holder = scope.holder(name)
        if holder is None:
            if not is_builtin(name):
                yield (f"{self._reading.module.name}.{name}", Origin.IMPORT) if self._has_stars else (name, Origin.NAME)
            return
        if holder.kind is ScopeKind.TYPE_PARAMETERS:
            return
        is_public = holder.kind in (ScopeKind.MODULE, ScopeKind.CLASS)
        bindings = holder.bindings[name]
        for binding in bindings:
            if isinstance(binding, Imported):
                yield binding.target, Origin.IMPORT
            elif isinstance(binding, Defined):
                yield binding.scope.name, Origin.SCOPE
            elif isinstance(binding, Value) and is_public:
                yield f"{holder.name}.{name}", Origin.SCOPE
        if is_called and isinstance(bindings[0], Receiver):
            yield from _reached(self._inference.of_name(name, scope))
        if any(isinstance(binding, Value) for binding in bindings):
            yield from self._variable(self._inference.of_name(name, scope), is_called)

    def _variable(self, meanings: Meanings, is_called: bool) -> Iterator[_Target]:
        """Yield a variable's original, as in `join = os.path.join`, and the targets of its call, as in `Foo()(x)`."""
        for meaning in meanings:
            if meaning.kind is Kind.SYMBOL:
                yield meaning.name, meaning.origin
        if is_called:
            yield from _calls(meanings)

    def _exported(self) -> None:
        """Add the names in `__all__`."""
        module = self._reading.module
        for binding in module.bindings.get("__all__", ()):
            node = binding.node if isinstance(binding, Value) else None
            if node is None or node.type not in ("list", "tuple"):
                continue
            for entry in node.named_children:
                if entry.type == "string" and (name := string_content(entry)).isidentifier():
                    if module.holder(name) is not None or self._has_stars:
                        self._name(name, module, line(entry), False)
                    else:
                        self._add(f"{module.name}.{name}", Origin.SCOPE, line(entry))


def _reached(called: Meanings) -> Iterator[_Target]:
    """Yield the symbols that a call of an expression reaches, with the methods that calls of instances reach."""
    for meaning in called:
        if meaning.kind is Kind.SYMBOL:
            yield meaning.name, meaning.origin
    yield from _calls(called)


def _calls(called: Meanings) -> Iterator[_Target]:
    """Yield the methods that calls of instances reach."""
    for meaning in called:
        if meaning.kind is Kind.INSTANCE:
            yield f"{meaning.name}.__call__", meaning.origin


def _chain(node: SyntaxNode) -> tuple[SyntaxNode, list[SyntaxNode]]:
    """Return the first expression of `a.b.c`, and the names of its attributes in order."""
    attributes: list[SyntaxNode] = []
    if node.type == "dotted_name" and node.named_children:
        return node.named_children[0], node.named_children[1:]
    base: SyntaxNode | None = node
    while base is not None and base.type == "attribute":
        node = base
        attribute = node.child_by_field_name("attribute")
        if attribute is not None:
            attributes.append(attribute)
        base = node.child_by_field_name("object")
    return base or node, attributes[::-1]
