"""Finds what the expressions of a file mean."""

from __future__ import annotations

from collections.abc import Callable

from tree_sitter import Node

from contracts.graph.model import Origin
from graph.extract.python.annotations import Annotations
from graph.extract.python.builtin_calls import builtin_call, builtin_method
from graph.extract.python.builtin_names import BUILTINS, EXCEPTIONS
from graph.extract.python.meanings import NOTHING, UNKNOWN, Kind, Meaning, Meanings, builtin, one_of
from graph.extract.python.reading import Reading, text
from graph.extract.python.scopes import Binding, Defined, Imported, Receiver, Scope, ScopeKind, Value, ValueKind

_DEEPEST = 16
"""Steps from an expression to what it means; longer ways lead nowhere in the standard library."""
_LITERALS = {
    "string": "str",
    "concatenated_string": "str",
    "integer": "int",
    "float": "float",
    "true": "bool",
    "false": "bool",
    "comparison_operator": "bool",
    "not_operator": "bool",
    "dictionary": "dict",
    "dictionary_comprehension": "dict",
    "tuple": "tuple",
    "list": "list",
    "set": "set",
}
_COMPREHENSIONS = {"list_comprehension": "list", "set_comprehension": "set", "generator_expression": "generator"}
_PROPERTIES = frozenset({"property", "cached_property", "lazy_property", "hybrid_property", "classproperty"})
_PLAIN = _PROPERTIES | {"staticmethod", "classmethod", "override", "final", "cache", "lru_cache"}
"""Decorators under which a call gives what the function returns."""
_MANAGERS = frozenset({"contextmanager", "asynccontextmanager"})
_SCALARS = frozenset({"str", "int", "float", "bool", "bytes"})


class Inference:
    """What expressions of one file mean. Answers are remembered."""

    def __init__(self, reading: Reading) -> None:
        self._own: dict[str, Scope] = {scope.name: scope for scope in reading.scopes if scope.node.type in _NAMED}
        self._by_node = {scope.node.id: scope for scope in reading.scopes}
        self._known: dict[int, Meanings] = {}
        self._results: dict[Scope, Meanings] = {}
        self._names: dict[tuple[Scope, str], Meanings] = {}
        self._asked: set[object] = set()
        self._is_cut = False
        """Whether a circle or the bound on depth was met on the way: then an answer holds for this question alone."""
        self._annotations = Annotations(self.of, self.of_name)
        self._by_type: dict[str, Callable[[Node, Scope, int], Meanings]] = {
            "identifier": lambda node, scope, depth: self.of_name(text(node), scope, depth),
            "attribute": self._attribute,
            "call": self._call,
            "subscript": self._subscript,
            "boolean_operator": self._either,
            "conditional_expression": self._conditional,
            "binary_operator": self._binary,
        }
        for store in reading.stores:
            holder = self.receiver(store.scope, store.holder)
            if holder is not None:
                holder.attributes.setdefault(store.attribute, []).append(store.value)

    def receiver(self, scope: Scope, name: str) -> Scope | None:
        """The class of which `name` is the receiver (`self`, `cls`) in this scope."""
        holder = scope.holder(name)
        bound = holder.bindings[name][0] if holder is not None else None
        return bound.holder if isinstance(bound, Receiver) else None

    def of(self, node: Node, scope: Scope, depth: int = 0) -> Meanings:
        """What the expression means; none where that is not known."""
        known = self._known.get(node.id)
        if known is not None:
            return known
        if depth > _DEEPEST:
            return self._cut(UNKNOWN)
        before, self._is_cut = self._is_cut, False
        found = self._of(node, scope, depth + 1)
        if depth == 0 or not self._is_cut:
            self._known[node.id] = found
        self._is_cut = depth > 0 and (self._is_cut or before)
        return found

    def of_name(self, name: str, scope: Scope, depth: int = 0) -> Meanings:
        """What the name means where it stands."""
        holder = scope.holder(name)
        if holder is None:
            if name in EXCEPTIONS:
                return (Meaning(Kind.BUILTIN, name),)
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
            return builtin(of.name) if of.name in _SCALARS else UNKNOWN
        if of.kind is Kind.NONE:
            return NOTHING
        if name == "__class__":
            return (of._replace(kind=Kind.SYMBOL),)
        own = self._own.get(of.name)
        if own is None:
            return (Meaning(Kind.SYMBOL, f"{of.name}.{name}", of.origin),)
        if own.kind is not ScopeKind.CLASS:
            return UNKNOWN
        return self._class_member(own, name, of.origin, depth + 1)

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

    def value(self, value: Value, depth: int = 0) -> Meanings:
        """What a name with this value means."""
        if value.node is None or value.position is not None or value.kind is ValueKind.UNKNOWN:
            return UNKNOWN
        if value.kind is ValueKind.INSTANCE:
            return self._annotations.read(value.node, value.scope, depth)
        found = self.of(value.node, value.scope, depth)
        if value.kind is ValueKind.ELEMENT:
            return one_of([self._element(meaning, depth) for meaning in found]) if found else UNKNOWN
        if value.kind is ValueKind.CONTEXT:
            return one_of([self._entered(meaning, depth) for meaning in found]) if found else UNKNOWN
        return found

    def _cut(self, answer: Meanings) -> Meanings:
        self._is_cut = True
        return answer

    def _of(self, node: Node, scope: Scope, depth: int) -> Meanings:
        kind = node.type
        read = self._by_type.get(kind)
        if read is not None:
            return read(node, scope, depth)
        if kind == "none":
            return NOTHING
        if kind in _COMPREHENSIONS:
            body, inner = node.child_by_field_name("body"), self._by_node.get(node.id)
            element = self.of(body, inner, depth) if body is not None and inner is not None else UNKNOWN
            return builtin(_COMPREHENSIONS[kind], element)
        if kind in ("list", "tuple", "set"):
            return builtin(kind, one_of([self.of(child, scope, depth) for child in node.named_children[:3]]))
        if kind in _LITERALS:
            return builtin(_LITERALS[kind])
        if kind in ("parenthesized_expression", "await") and node.named_children:
            return self.of(node.named_children[0], scope, depth)
        if kind == "named_expression" and (value := node.child_by_field_name("value")) is not None:
            return self.of(value, scope, depth)
        return UNKNOWN

    def _attribute(self, node: Node, scope: Scope, depth: int) -> Meanings:
        base, name = node.child_by_field_name("object"), node.child_by_field_name("attribute")
        if base is None or name is None:
            return UNKNOWN
        found = [self.member(meaning, text(name), depth) for meaning in self.of(base, scope, depth)]
        return one_of(found) if found else UNKNOWN

    def _call(self, node: Node, scope: Scope, depth: int) -> Meanings:
        function = node.child_by_field_name("function")
        if function is None:
            return UNKNOWN
        if function.type == "identifier" and scope.holder(text(function)) is None:
            return self._builtin_call(text(function), node, scope, depth)
        name = function
        if function.type == "attribute":
            base, name = function.child_by_field_name("object"), function.child_by_field_name("attribute") or function
            held = self.of(base, scope, depth) if base is not None else UNKNOWN
            if held and all(meaning.kind is Kind.BUILTIN for meaning in held):
                return one_of([builtin_method(meaning, text(name)) for meaning in held])
            called = one_of([self.member(meaning, text(name), depth) for meaning in held]) if held else UNKNOWN
        else:
            called = self.of(function, scope, depth)
        if name.type == "identifier" and text(name) == "cast" and (arguments := _arguments(node)):
            return self._annotations.read(arguments[0], scope, depth)
        return one_of([self._called(meaning, depth) for meaning in called]) if called else UNKNOWN

    def _called(self, called: Meaning, depth: int) -> Meanings:
        if called.kind is Kind.NONE:
            return NOTHING
        if called.kind is Kind.BUILTIN:
            return builtin(called.name) if called.name in _SCALARS else UNKNOWN
        own = self._own.get(called.name)
        if called.kind is Kind.INSTANCE:
            call = self._class_member(own, "__call__", called.origin, depth) if own else UNKNOWN
            return one_of([self._called(meaning, depth) for meaning in call]) if call else UNKNOWN
        if own is None or own.kind is ScopeKind.CLASS:
            return (called._replace(kind=Kind.INSTANCE),)
        return self.result(own, depth)

    def _builtin_call(self, name: str, node: Node, scope: Scope, depth: int) -> Meanings:
        arguments = _arguments(node)
        if name == "super":
            held = scope.enclosing_class
            return self._super(held, depth) if held is not None else UNKNOWN
        first = self.of(arguments[0], scope, depth) if arguments else UNKNOWN
        if name == "type" and len(arguments) == 1:
            return tuple(meaning._replace(kind=Kind.SYMBOL) for meaning in first if meaning.kind is Kind.INSTANCE)
        elements = one_of([self._element(meaning, depth) for meaning in first]) if first else UNKNOWN
        return builtin_call(name, elements)

    def _super(self, of: Scope, depth: int) -> Meanings:
        bases = self.bases(of, depth)
        if not bases:
            return builtin("object")
        return tuple(Meaning(Kind.INSTANCE, meaning.name, Origin.SELF) for meanings in bases for meaning in meanings)

    def _subscript(self, node: Node, scope: Scope, depth: int) -> Meanings:
        base = node.child_by_field_name("value")
        found = self.of(base, scope, depth) if base is not None else UNKNOWN
        return one_of([self._item(meaning, depth) for meaning in found]) if found else UNKNOWN

    def _item(self, of: Meaning, depth: int) -> Meanings:
        if of.kind is Kind.BUILTIN:
            return builtin(of.name) if of.name in _SCALARS else of.element
        own = self._own.get(of.name)
        if of.kind is Kind.SYMBOL:
            return (of,) if own is not None and own.kind is ScopeKind.CLASS else UNKNOWN
        held = self._class_member(own, "__getitem__", of.origin, depth) if own is not None else UNKNOWN
        return one_of([self._called(meaning, depth) for meaning in held]) if held else UNKNOWN

    def _either(self, node: Node, scope: Scope, depth: int) -> Meanings:
        sides = [node.child_by_field_name("left"), node.child_by_field_name("right")]
        return one_of([self.of(side, scope, depth) for side in sides if side is not None])

    def _conditional(self, node: Node, scope: Scope, depth: int) -> Meanings:
        children = node.named_children
        return one_of([self.of(child, scope, depth) for child in (children[0], children[-1])]) if children else UNKNOWN

    def _binary(self, node: Node, scope: Scope, depth: int) -> Meanings:
        left = node.child_by_field_name("left")
        found = self.of(left, scope, depth) if left is not None else UNKNOWN
        return found if found and all(meaning.kind is Kind.BUILTIN for meaning in found) else UNKNOWN

    def _binding(self, binding: Binding, depth: int) -> Meanings:
        if isinstance(binding, Defined):
            return (Meaning(Kind.SYMBOL, binding.scope.name),)
        if isinstance(binding, Imported):
            return (Meaning(Kind.SYMBOL, binding.target, Origin.IMPORT),)
        if isinstance(binding, Receiver):
            kind = Kind.SYMBOL if binding.is_class else Kind.INSTANCE
            return (Meaning(kind, binding.holder.name, Origin.SELF),)
        return self.value(binding, depth)

    def _class_member(self, of: Scope, name: str, origin: Origin, depth: int) -> Meanings:
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
                    own = self._own.get(base.name)
                    if own is None or own.kind is not ScopeKind.CLASS:
                        return (Meaning(Kind.SYMBOL, f"{of.name}.{name}", origin),)
                    found = self._class_member(own, name, origin, depth + 1)
                    if found:
                        return found
            return UNKNOWN
        finally:
            self._asked.discard(key)

    def _member_binding(self, binding: Binding, depth: int) -> Meanings:
        if isinstance(binding, Defined) and _PROPERTIES.intersection(binding.scope.decorators):
            return self.result(binding.scope, depth)
        return self._binding(binding, depth)

    def _result(self, function: Scope, depth: int) -> Meanings:
        annotation = function.node.child_by_field_name("return_type")
        if annotation is not None:
            found = self._annotations.read(annotation, function, depth)
            if _MANAGERS.intersection(function.decorators):
                return one_of([meaning.element for meaning in found]) if found else UNKNOWN
            return found
        if function.is_generator or not _PLAIN.issuperset(function.decorators):
            return UNKNOWN
        returned = [
            NOTHING if node.type == "return_statement" else self.of(node, function, depth) for node in function.returned
        ]
        return one_of(returned) if returned else NOTHING

    def _element(self, of: Meaning, depth: int) -> Meanings:
        if of.kind is Kind.BUILTIN:
            return builtin("str") if of.name == "str" else (UNKNOWN if of.name == "dict" else of.element)
        own = self._own.get(of.name) if of.kind is Kind.INSTANCE else None
        held = self._class_member(own, "__iter__", of.origin, depth) if own is not None else UNKNOWN
        given = one_of([self._called(meaning, depth) for meaning in held]) if held else UNKNOWN
        return one_of([meaning.element for meaning in given]) if given else UNKNOWN

    def _entered(self, of: Meaning, depth: int) -> Meanings:
        own = self._own.get(of.name) if of.kind is Kind.INSTANCE else None
        if own is None or own.kind is not ScopeKind.CLASS:
            return (of,)
        for name in ("__enter__", "__aenter__"):
            held = self._class_member(own, name, of.origin, depth)
            given = one_of([self._called(meaning, depth) for meaning in held]) if held else UNKNOWN
            if given:
                return given
        return (of,)


def _arguments(call: Node) -> list[Node]:
    arguments = call.child_by_field_name("arguments")
    if arguments is None or arguments.type != "argument_list":
        return []
    return [child for child in arguments.named_children if child.type not in ("keyword_argument", "comment")]


_NAMED = frozenset({"function_definition", "class_definition"})
