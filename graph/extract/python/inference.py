"""Finds what the names, members and results of a file mean, and remembers it. `expressions` reads the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluice.contracts.graph.model import ANY, Origin
from sluice.graph.extract.python.annotations import (
    BUILTINS,
    EXCEPTIONS,
    NOTHING,
    SCALARS,
    UNKNOWN,
    Annotations,
    Kind,
    Meaning,
    Meanings,
    builtin,
    one_of,
)
from sluice.graph.extract.python.scopes import (
    Binding,
    Defined,
    Imported,
    Reading,
    Receiver,
    Scope,
    ScopeKind,
    Value,
    ValueKind,
)

if TYPE_CHECKING:
    from tree_sitter import Node

_DEEPEST = 16
"""Steps from an expression to what it means; longer ways lead nowhere in the standard library."""
PROPERTIES = frozenset({"property", "cached_property", "lazy_property", "hybrid_property", "classproperty"})
KEPT_BY = PROPERTIES | {"staticmethod", "classmethod", "override", "final", "cache", "lru_cache"}
"""Decorators under which a call gives what the function returns."""
_MANAGERS = frozenset({"contextmanager", "asynccontextmanager"})
_MADE = SCALARS | EXCEPTIONS | {"list", "dict", "set", "tuple", "frozenset", "bytearray", "object"}
"""Builtin types whose instances have no member that a file defines."""
_NAMED = frozenset({"function_definition", "class_definition"})


class Inference:
    """What expressions of one file mean. Answers are remembered."""

    def __init__(self, reading: Reading) -> None:
        self._named: dict[str, Scope] = {scope.name: scope for scope in reading.scopes if scope.node.type in _NAMED}
        self._known: dict[int, Meanings] = {}
        self._results: dict[Scope, Meanings] = {}
        self._names: dict[tuple[Scope, str], Meanings] = {}
        self._asked: set[object] = set()
        self._is_cut = False
        """Whether a circle or the bound on depth was met on the way: then an answer holds for this question alone."""
        self.annotations = Annotations(self.of, self.of_name)
        for store in reading.stores:
            holder = self.receiver(store.scope, store.holder)
            if holder is not None:
                holder.attributes.setdefault(store.attribute, []).append(store.value)

    def receiver(self, scope: Scope, name: str) -> Scope | None:
        """The class of which `name` is the receiver (`self`, `cls`) in this scope."""
        holder = scope.holder(name)
        bound = holder.bindings[name][0] if holder is not None else None
        return bound.holder if isinstance(bound, Receiver) else None

    def own(self, of: Meaning) -> Scope | None:
        """The function or class of the file that is meant, or that it is an instance of."""
        return self._named.get(of.name)

    def of(self, node: Node, scope: Scope, depth: int = 0) -> Meanings:
        """What the expression means; none where that is not known."""
        known = self._known.get(node.id)
        if known is not None:
            return known
        if depth > _DEEPEST:
            return self._cut(UNKNOWN)
        before, self._is_cut = self._is_cut, False
        found = self.expression(node, scope, depth + 1)
        if depth == 0 or not self._is_cut:
            self._known[node.id] = found
        self._is_cut = depth > 0 and (self._is_cut or before)
        return found

    def expression(self, node: Node, scope: Scope, depth: int) -> Meanings:
        """What the expression means, not looked up among what is known."""
        raise NotImplementedError

    def of_name(self, name: str, scope: Scope, depth: int = 0) -> Meanings:
        """What the name means where it stands."""
        holder = scope.holder(name)
        if holder is None:
            return builtin(name) if name in BUILTINS else UNKNOWN
        key = (holder, name)
        known = self._names.get(key)
        if known is None:
            if depth > _DEEPEST or key in self._asked:
                return self._cut(NOTHING if key in self._asked else UNKNOWN)
            before, self._is_cut = self._is_cut, False
            self._asked.add(key)
            known = one_of([self._binding(binding, depth + 1) for binding in holder.bindings[name]])
            self._asked.discard(key)
            if depth <= 1 or not self._is_cut:
                self._names[key] = known
            self._is_cut = depth > 0 and (self._is_cut or before)
        return known

    def member(self, of: Meaning, name: str, depth: int = 0) -> Meanings:
        """What the attribute of a symbol or of an instance means."""
        if of.kind is Kind.BUILTIN:
            return builtin(of.name) if of.name in SCALARS else UNKNOWN
        if of.kind is Kind.NONE:
            return NOTHING
        if name == "__class__":
            return (of._replace(kind=Kind.SYMBOL),)
        own = self.own(of)
        if own is None:
            return (Meaning(Kind.SYMBOL, f"{of.name}.{name}", of.origin),) if not of.name.endswith(ANY) else UNKNOWN
        if own.kind is not ScopeKind.CLASS:
            return UNKNOWN
        return self.class_member(own, name, of.origin, depth + 1)

    def class_member(self, of: Scope, name: str, origin: Origin, depth: int) -> Meanings:
        """What the attribute of a class of the file, or of its instances, means: of the class, or of its bases."""
        key = (of, name, "member")
        if depth > _DEEPEST or key in self._asked:
            return self._cut(NOTHING if key in self._asked else UNKNOWN)
        bindings: list[Binding] = [*of.bindings.get(name, ()), *of.attributes.get(name, ())]
        self._asked.add(key)
        try:
            if bindings:
                return one_of([self._member_binding(binding, depth + 1) for binding in bindings])
            bases = self.bases(of, depth)
            for meanings in bases:
                for base in meanings:
                    own = self.own(base)
                    if own is None or own.kind is not ScopeKind.CLASS:
                        return (Meaning(Kind.SYMBOL, f"{of.name}.{name}", origin),)
                    found = self.class_member(own, name, origin, depth + 1)
                    if found:
                        return found
            return UNKNOWN
        finally:
            self._asked.discard(key)

    def bases(self, of: Scope, depth: int = 0) -> list[Meanings]:
        """What each base of a class means, without what is built in."""
        written = of.node.child_by_field_name("superclasses")
        found: list[Meanings] = []
        for child in written.named_children if written is not None else ():
            node: Node | None = child
            if child.type == "subscript":
                node = child.child_by_field_name("value")
            if node is None or node.type in ("keyword_argument", "list_splat", "dictionary_splat", "comment"):
                continue
            meanings = self.of(node, of.parent or of, depth + 1)
            if not meanings or any(meaning.kind is not Kind.BUILTIN for meaning in meanings):
                found.append(tuple(meaning for meaning in meanings if meaning.kind is Kind.SYMBOL))
        return found

    def result(self, function: Scope, depth: int = 0) -> Meanings:
        """What a call of a function of the file gives: by its annotation, or else by all its return statements."""
        known = self._results.get(function)
        if known is not None:
            return known
        if function in self._asked or depth > _DEEPEST:
            return self._cut(NOTHING if function in self._asked else UNKNOWN)
        before, self._is_cut = self._is_cut, False
        self._asked.add(function)
        found = self._result(function, depth + 1)
        self._asked.discard(function)
        if depth <= 1 or not self._is_cut:
            self._results[function] = found
        self._is_cut = depth > 0 and (self._is_cut or before)
        return found

    def returned(self, function: Scope) -> Meanings:
        """What a function's return statements give, whatever its annotation says."""
        found = [self.of(node, function) for node in function.returned if node.type != "return_statement"]
        return one_of(found) if found else UNKNOWN

    def value(self, value: Value, depth: int = 0) -> Meanings:
        """What a name with this value means."""
        if value.node is None or value.position is not None or value.kind is ValueKind.UNKNOWN:
            return UNKNOWN
        if value.kind is ValueKind.INSTANCE:
            return self.annotations.read(value.node, value.scope, depth)
        return self.of(value.node, value.scope, depth)

    def called(self, of: Meaning, depth: int) -> Meanings:
        """What a call of it gives: of a class an instance, of a function its result."""
        if of.kind is Kind.NONE:
            return NOTHING
        if of.kind is Kind.BUILTIN:
            return builtin(of.name) if of.name in _MADE else UNKNOWN
        own = self.own(of)
        if of.name.endswith(ANY):
            return UNKNOWN
        if of.kind is Kind.INSTANCE:
            call = self.class_member(own, "__call__", of.origin, depth) if own else UNKNOWN
            return one_of([self.called(meaning, depth) for meaning in call]) if call else UNKNOWN
        if own is None or own.kind is ScopeKind.CLASS:
            return (of._replace(kind=Kind.INSTANCE),)
        return self.result(own, depth)

    def _cut(self, answer: Meanings) -> Meanings:
        self._is_cut = True
        return answer

    def _binding(self, binding: Binding, depth: int) -> Meanings:
        if isinstance(binding, Defined):
            return (Meaning(Kind.SYMBOL, binding.scope.name),)
        if isinstance(binding, Imported):
            return (Meaning(Kind.SYMBOL, binding.target, Origin.IMPORT),)
        if isinstance(binding, Receiver):
            kind = Kind.SYMBOL if binding.is_class else Kind.INSTANCE
            return (Meaning(kind, binding.holder.name, Origin.SELF),)
        return self.value(binding, depth)

    def _member_binding(self, binding: Binding, depth: int) -> Meanings:
        if isinstance(binding, Defined) and PROPERTIES.intersection(binding.scope.decorators):
            return self.result(binding.scope, depth)
        return self._binding(binding, depth)

    def _result(self, function: Scope, depth: int) -> Meanings:
        annotation = function.node.child_by_field_name("return_type")
        if annotation is not None:
            is_manager = _MANAGERS.intersection(function.decorators)
            return UNKNOWN if is_manager else self.annotations.read(annotation, function, depth)
        if function.is_generator or not KEPT_BY.issuperset(function.decorators):
            return UNKNOWN
        returned = [
            NOTHING if node.type == "return_statement" else self.of(node, function, depth) for node in function.returned
        ]
        return one_of(returned) if returned else NOTHING
