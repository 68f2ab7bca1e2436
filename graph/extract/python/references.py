"""Finds a Python file's references: its imports, and each name and attribute that it uses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sluice.contracts.graph.model import Edge, EdgeType, GraphDocument, Origin, document_node, symbol, unknown
from sluice.graph.extract.known_names import known
from sluice.graph.extract.python.definitions import LANGUAGE
from sluice.graph.extract.python.inference import UNKNOWN, Inference, Kind, Meanings, is_builtin, one_of
from sluice.graph.extract.python.scopes import (
    Defined,
    Imported,
    Reading,
    Receiver,
    Scope,
    ScopeKind,
    Use,
    Value,
    line,
    string_content,
    text,
)

if TYPE_CHECKING:
    from tree_sitter import Node as SyntaxNode

_Target = tuple[str, Origin]
"""A qualified name, or with origin NAME a bare one, and how it was found."""


class References:
    """References of one file, gathered name by name."""

    def __init__(self, reading: Reading, inference: Inference) -> None:
        self._reading = reading
        self._inference = inference
        self._has_stars = bool(reading.stars)
        self._lines: dict[_Target, set[int]] = {}
        self._targets: dict[tuple[Scope, str, bool], list[_Target]] = {}

    def edges(self, document: GraphDocument) -> Iterator[Edge]:
        """REFERS_TO edges, each with all its lines."""
        for name, at in self._reading.imports:
            self._add(name, Origin.IMPORT, at)
        for name, at in self._reading.stars:
            self._add(name, Origin.IMPORT, at)
        for use in reversed(self._reading.uses):  # inner expressions first: what they mean is remembered
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
        """What a name refers to where it stands."""
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
        """What a variable stands for, as `join = os.path.join`, and is called by, as `Foo()(x)`."""
        for meaning in meanings:
            if meaning.kind is Kind.SYMBOL:
                yield meaning.name, meaning.origin
        if is_called:
            yield from _calls(meanings)

    def _exported(self) -> None:
        """The names in `__all__`."""
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
    """What a call of an expression reaches: what it stands for, and the methods that calls of instances reach."""
    for meaning in called:
        if meaning.kind is Kind.SYMBOL:
            yield meaning.name, meaning.origin
    yield from _calls(called)


def _calls(called: Meanings) -> Iterator[_Target]:
    """The methods that calls of instances reach."""
    for meaning in called:
        if meaning.kind is Kind.INSTANCE:
            yield f"{meaning.name}.__call__", meaning.origin


def _chain(node: SyntaxNode) -> tuple[SyntaxNode, list[SyntaxNode]]:
    """The first expression of `a.b.c`, and the names of its attributes in order."""
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
