"""Finds the meaning of an expression in a Python file: a symbol, or an instance of a class.

Assignments, annotations, `self`, calls of classes and of functions with a known result are followed within the file.
The result of calling an imported name is named by the callee: `x = shop.Cart(); x.add` is `shop.Cart.add`. That is
right for a class, and for a function too, since its file states the type that it returns.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator
from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

from sluice.contracts.graph.model import Origin
from sluice.graph.extract.known_names import known
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
    string_content,
    text,
)

if TYPE_CHECKING:
    from tree_sitter import Node


class Kind(Enum):
    """Kinds of meanings of an expression."""

    SYMBOL = auto()
    """The named thing itself: a module, a class, a function, a variable."""
    INSTANCE = auto()
    """An instance of the class, or the result of the function."""
    BUILTIN = auto()
    """A value of a builtin type of Python; `name` is the type's."""
    NONE = auto()


class Meaning(NamedTuple):
    """One possible meaning of an expression."""

    kind: Kind
    name: str
    origin: Origin = Origin.SCOPE


Meanings = tuple[Meaning, ...]
"""All possible meanings of an expression; empty where they are not known."""

UNKNOWN: Meanings = ()
NOTHING: Meanings = (Meaning(Kind.NONE, "None"),)
PROPERTIES = frozenset({"property", "cached_property", "lazy_property", "hybrid_property", "classproperty"})
KEPT_BY = PROPERTIES | {"staticmethod", "classmethod", "override", "final", "cache", "lru_cache"}
"""Decorators under which a call returns the function's own result."""
_MANAGERS = frozenset({"contextmanager", "asynccontextmanager"})
_SCALARS = frozenset({"str", "int", "float", "bool", "bytes"})
_MADE = _SCALARS | {"list", "dict", "set", "tuple", "frozenset", "bytearray", "object"}
"""Builtin types whose instances have no member that a file defines; likewise those of exceptions."""
_NAMED = frozenset({"function_definition", "class_definition"})
_LITERALS = {
    **dict.fromkeys(("string", "concatenated_string"), "str"),
    **dict.fromkeys(("true", "false", "comparison_operator", "not_operator"), "bool"),
    **dict.fromkeys(("list", "tuple", "set", "list_comprehension", "set_comprehension"), "list"),
    **dict.fromkeys(("dictionary", "dictionary_comprehension"), "dict"),
    "generator_expression": "list",
    "integer": "int",
    "float": "float",
}
_QUOTED = re.compile(r"[A-Za-z_][\w.]*")
_DEEPEST = 16
"""Steps from an expression to its meaning; longer ways lead nowhere in the standard library."""
_MOST_MEANINGS = 4
"""An expression with more meanings counts as unknown: the types of a union are few."""
_MOST_CHOICES = 8
"""Most nodes that `choices` examines in one expression."""


def builtin(name: str) -> Meanings:
    """Return the meaning of a builtin, or of a value of a builtin type. Its members are not followed."""
    return (Meaning(Kind.BUILTIN, name),)


def is_builtin(name: str) -> bool:
    """Return whether a name means a builtin where a file binds it nowhere."""
    return name in known("python_names") or name in known("python_exceptions")


def one_of(choices: list[Meanings]) -> Meanings:
    """Return the union of the choices: unknown as soon as one of them is. None is left out beside others."""
    found: dict[Meaning, None] = {}
    for choice in choices:
        if not choice:
            return UNKNOWN
        found.update(dict.fromkeys(choice))
    told = tuple(meaning for meaning in found if meaning.kind is not Kind.NONE)
    if len(told) > _MOST_MEANINGS:
        return UNKNOWN
    return told or (NOTHING if found else UNKNOWN)


def as_kind(kind: Kind, of: Meanings) -> Meanings:
    """Return instances of classes, or the classes of instances; builtins stay as they are."""
    other = Kind.SYMBOL if kind is Kind.INSTANCE else Kind.INSTANCE
    return tuple(meaning._replace(kind=kind) if meaning.kind is other else meaning for meaning in of)


class Inference:
    """The meanings of the expressions of one file. Results are remembered."""

    def __init__(self, reading: Reading) -> None:
        self._scopes = {scope.name: scope for scope in reading.scopes if scope.node.type in _NAMED}
        self._known: dict[Hashable, Meanings] = {}
        self._asked: set[Hashable] = set()
        """Keys in progress: an expression that leads back to one of them adds nothing to it."""
        self._is_cut = False
        """Whether a cycle or the depth limit was met on the way. Such a result is remembered only at depth 0 or 1."""
        for store in reading.stores:
            holder = self.receiver(store.scope, store.holder)
            if holder is not None:
                holder.attributes.setdefault(store.attribute, []).append(store.value)

    def receiver(self, scope: Scope, name: str) -> Scope | None:
        """Return the class of which `name` is the receiver (`self`, `cls`) in this scope."""
        holder = scope.holder(name)
        bound = holder.bindings[name][0] if holder is not None else None
        return bound.holder if isinstance(bound, Receiver) else None

    def own(self, of: Meaning) -> Scope | None:
        """Return the function or class of the file that a meaning names, or of which it is an instance."""
        return self._scopes.get(of.name)

    def of(self, node: Node | None, scope: Scope, depth: int = 0) -> Meanings:
        """Return the meanings of the expression; empty where they are not known."""
        if node is None:
            return UNKNOWN
        return self._once(node.id, depth, lambda: self._expression(node, scope, depth + 1))

    def of_name(self, name: str, scope: Scope, depth: int = 0) -> Meanings:
        """Return the meanings of the name at its place."""
        holder = scope.holder(name)
        if holder is None:
            return builtin(name) if is_builtin(name) else UNKNOWN
        bindings = holder.bindings[name]
        return self._once(
            (holder, name), depth, lambda: one_of([self._binding(binding, depth + 1) for binding in bindings])
        )

    def member(self, of: Meaning, name: str, depth: int = 0) -> Meanings:
        """Return the meanings of an attribute of a symbol or of an instance."""
        if of.kind is Kind.BUILTIN:
            return builtin(of.name) if of.name in _SCALARS else UNKNOWN
        if of.kind is Kind.NONE:
            return NOTHING
        if name == "__class__":
            return (of._replace(kind=Kind.SYMBOL),)
        own = self.own(of)
        if own is None:
            return (Meaning(Kind.SYMBOL, f"{of.name}.{name}", of.origin),)
        if own.kind is not ScopeKind.CLASS:
            return UNKNOWN
        return self._class_member(own, name, of.origin, depth + 1)

    def bases(self, of: Scope, depth: int = 0) -> list[Meanings]:
        """Return the meanings of each base of a class, without builtins."""
        written = of.node.child_by_field_name("superclasses")
        found: list[Meanings] = []
        for child in written.named_children if written is not None else ():
            node = child.child_by_field_name("value") if child.type == "subscript" else child
            if node is None or node.type in ("keyword_argument", "list_splat", "dictionary_splat", "comment"):
                continue
            meanings = self.of(node, of.parent or of, depth + 1)
            if not meanings or any(meaning.kind is not Kind.BUILTIN for meaning in meanings):
                found.append(tuple(meaning for meaning in meanings if meaning.kind is Kind.SYMBOL))
        return found

    def result(self, function: Scope, depth: int = 0) -> Meanings:
        """Return the result of a call of the file's function: by its annotation, or else by all return statements."""
        return self._once(function, depth, lambda: self._result(function, depth + 1))

    def returned(self, function: Scope) -> Meanings:
        """Return the meanings of a function's returned expressions, whatever its annotation says."""
        return one_of([self.of(node, function) for node in function.returned if node.type != "return_statement"])

    def value(self, value: Value, depth: int = 0) -> Meanings:
        """Return the meanings of a name with this value."""
        if value.node is None or value.position is not None or value.kind is ValueKind.UNKNOWN:
            return UNKNOWN
        if value.kind is ValueKind.INSTANCE:
            return self._annotated(value.node, value.scope, depth)
        return self.of(value.node, value.scope, depth)

    def _once(self, key: Hashable, depth: int, find: Callable[[], Meanings]) -> Meanings:
        """Return the remembered meanings of the key, or find and remember them unless the way to them was cut short."""
        found = self._known.get(key)
        if found is not None:
            return found
        if key in self._asked or depth > _DEEPEST:
            self._is_cut = True
            return NOTHING if key in self._asked else UNKNOWN
        before, self._is_cut = self._is_cut, False
        self._asked.add(key)
        found = find()
        self._asked.discard(key)
        if depth <= 1 or not self._is_cut:
            self._known[key] = found
        self._is_cut = depth > 0 and (self._is_cut or before)
        return found

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
        """Return the meanings of an attribute of a class of the file, or of its instances: from it or its bases."""
        return self._once((of, name, origin), depth, lambda: self._found_member(of, name, origin, depth))

    def _found_member(self, of: Scope, name: str, origin: Origin, depth: int) -> Meanings:
        bindings: list[Binding] = [*of.bindings.get(name, ()), *of.attributes.get(name, ())]
        if bindings:
            return one_of([self._member_binding(binding, depth + 1) for binding in bindings])
        for base in (base for meanings in self.bases(of, depth) for base in meanings):
            own = self.own(base)
            if own is None or own.kind is not ScopeKind.CLASS:
                return (Meaning(Kind.SYMBOL, f"{of.name}.{name}", origin),)
            if found := self._class_member(own, name, origin, depth + 1):
                return found
        return UNKNOWN

    def _member_binding(self, binding: Binding, depth: int) -> Meanings:
        if isinstance(binding, Defined) and PROPERTIES.intersection(binding.scope.decorators):
            return self.result(binding.scope, depth)
        return self._binding(binding, depth)

    def _result(self, function: Scope, depth: int) -> Meanings:
        annotation = function.node.child_by_field_name("return_type")
        if annotation is not None:
            is_manager = _MANAGERS.intersection(function.decorators)
            return UNKNOWN if is_manager else self._annotated(annotation, function, depth)
        if function.is_generator or not KEPT_BY.issuperset(function.decorators):
            return UNKNOWN
        returned = [
            NOTHING if node.type == "return_statement" else self.of(node, function, depth) for node in function.returned
        ]
        return one_of(returned) if returned else NOTHING

    # Expressions.

    def _expression(self, node: Node, scope: Scope, depth: int) -> Meanings:
        match node.type:
            case "identifier":
                return self.of_name(text(node), scope, depth)
            case "none":
                return NOTHING
            case "attribute":
                name = text(node.child_by_field_name("attribute"))
                return self._members(self.of(node.child_by_field_name("object"), scope, depth), name, depth)
            case "call":
                return self._call(node, scope, depth)
            case "subscript":  # `Cart[int]` is the class; the values of a table are not followed
                found = self.of(node.child_by_field_name("value"), scope, depth)
                return found if all(self._is_class(meaning) for meaning in found) else UNKNOWN
            case "boolean_operator" | "conditional_expression" if node.named_children:
                sides = node.named_children[0], node.named_children[-1]
                return one_of([self.of(side, scope, depth) for side in sides])
            case "binary_operator":
                found = self.of(node.child_by_field_name("left"), scope, depth)
                return found if all(meaning.kind is Kind.BUILTIN for meaning in found) else UNKNOWN
            case "parenthesized_expression" | "await" if node.named_children:
                return self.of(node.named_children[0], scope, depth)
            case "named_expression":
                return self.of(node.child_by_field_name("value"), scope, depth)
        literal = _LITERALS.get(node.type)
        return builtin(literal) if literal is not None else UNKNOWN

    def _members(self, of: Meanings, name: str, depth: int) -> Meanings:
        return one_of([self.member(meaning, name, depth) for meaning in of])

    def _is_class(self, of: Meaning) -> bool:
        own = self.own(of)
        is_class = own.kind is ScopeKind.CLASS if own is not None else of.name.rpartition(".")[2][:1].isupper()
        return of.kind is Kind.SYMBOL and is_class

    def _call(self, node: Node, scope: Scope, depth: int) -> Meanings:
        function = node.child_by_field_name("function")
        if text(function) == "super" and scope.holder("super") is None:
            return self._super(scope.enclosing_class, depth)
        return one_of([self._called(meaning, depth) for meaning in self.of(function, scope, depth)])

    def _called(self, of: Meaning, depth: int) -> Meanings:
        """Return the result of a call: an instance for a class, the function's result for a function."""
        if of.kind is Kind.NONE:
            return NOTHING
        if of.kind is Kind.BUILTIN:
            return builtin(of.name) if of.name in _MADE or of.name in known("python_exceptions") else UNKNOWN
        own = self.own(of)
        if of.kind is Kind.INSTANCE:
            call = self._class_member(own, "__call__", of.origin, depth) if own else UNKNOWN
            return one_of([self._called(meaning, depth) for meaning in call])
        if own is None or own.kind is ScopeKind.CLASS:
            return (of._replace(kind=Kind.INSTANCE),)
        return self.result(own, depth)

    def _super(self, of: Scope | None, depth: int) -> Meanings:
        if of is None:
            return UNKNOWN
        bases = self.bases(of, depth)
        if not bases:
            return builtin("object")
        return tuple(Meaning(Kind.INSTANCE, meaning.name, Origin.SELF) for meanings in bases for meaning in meanings)

    # Annotations.

    def _annotated(self, node: Node, scope: Scope, depth: int) -> Meanings:
        """Return the meanings of a value with this annotation; empty where the annotation does not tell."""
        if depth > _DEEPEST:
            return UNKNOWN
        depth += 1
        match node.type:
            case "type" | "parenthesized_expression" if node.named_children:
                return self._annotated(node.named_children[0], scope, depth)
            case "none":
                return NOTHING
            case "identifier" | "attribute":
                return self._annotated_name(node, text(node), scope, depth)
            case "string":  # `"Foo"`, `"Foo | None"`, `"Optional[Foo]"`; others in quotes are not read
                content = re.sub(r"^(?:\w+\.)?Optional\[(.*)\]$", r"\1", string_content(node).strip())
                names = [part.strip() for part in content.split("|")]
                if not all(_QUOTED.fullmatch(name) for name in names):
                    return UNKNOWN
                return one_of([self._annotated_name(None, name, scope, depth) for name in names])
            case "binary_operator" | "union_type":
                return one_of([self._annotated(side, scope, depth) for side in node.named_children])
            case "generic_type" | "subscript":
                return self._generic(node, scope, depth)
        return UNKNOWN

    def _annotated_name(self, node: Node | None, written: str, scope: Scope, depth: int) -> Meanings:
        """Return an instance of the named class, or the meaning of a type alias: `Row = dict[str, Cell]`."""
        first, _, rest = written.partition(".")
        last = written.rpartition(".")[2]
        if written == "None":
            return NOTHING
        if last in known("python_types_that_tell_nothing"):
            return UNKNOWN
        if last == "Self" and (held := scope.enclosing_class) is not None:
            return (Meaning(Kind.INSTANCE, held.name),)
        holder = scope.holder(first)
        if holder is None and not rest:
            return builtin(written) if is_builtin(written) else UNKNOWN
        alias = holder.bindings[first][0] if holder is not None and not rest else None
        if isinstance(alias, Value):
            is_type = alias.kind is ValueKind.IS and alias.position is None
            if not is_type or alias.node is None or alias.node.type == "call":  # a call makes a type variable
                return UNKNOWN
            return self._annotated(alias.node, alias.scope, depth)
        if last in known("python_containers"):
            return builtin("list")
        found = self.of_name(first, scope, depth)
        for name in rest.split(".") if rest else ():
            found = self._members(found, name, depth)
        return as_kind(Kind.INSTANCE, found)

    def _generic(self, node: Node, scope: Scope, depth: int) -> Meanings:
        head, *arguments = node.named_children or [node]
        if len(arguments) == 1 and arguments[0].type in ("type_parameter", "tuple"):
            arguments = arguments[0].named_children
        if not arguments:
            return UNKNOWN
        name = text(head).rpartition(".")[2]
        if name in known("python_read_as_their_first_argument"):
            return self._annotated(arguments[0], scope, depth)
        if name == "Coroutine":
            return self._annotated(arguments[-1], scope, depth)
        if name == "Union":
            return one_of([self._annotated(argument, scope, depth) for argument in arguments])
        if name in ("type", "Type"):
            return as_kind(Kind.SYMBOL, self._annotated(arguments[0], scope, depth))
        return self._annotated(head, scope, depth) if head.type in ("identifier", "attribute") else UNKNOWN


def choices(node: Node) -> Iterator[Node]:
    """Yield the expressions that `node` can evaluate to, itself where it is no choice. Examines `_MOST_CHOICES`."""
    work = [node]
    for _ in range(_MOST_CHOICES):
        if not work:
            return
        node = work.pop()
        if node.type == "conditional_expression" and node.named_children:
            work += [node.named_children[-1], node.named_children[0]]
        elif node.type in ("boolean_operator", "parenthesized_expression"):
            work += reversed(node.named_children)
        else:
            yield node
