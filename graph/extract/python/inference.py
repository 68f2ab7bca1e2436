"""Finds the meaning of an expression in a Python file: a symbol, or an instance of a class.

Assignments, annotations, `self`, calls of classes and of functions with a known result are followed within the file.
The result of calling an imported name is named by the callee: `x = shop.Cart(); x.add` is `shop.Cart.add`. That is
right for a class, and for a function too, since its file states the type that it returns.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable
from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

from sluice.contracts.graph.model import Origin
from sluice.graph.extract.languages.rules import known
from sluice.graph.extract.python.reading import (
    Binding,
    Defined,
    Imported,
    Reading,
    Receiver,
    Scope,
    ScopeKind,
    Value,
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
    """A builtin of Python or an instance of one, also None; `name` is the builtin's."""


class Meaning(NamedTuple):
    """One possible meaning of an expression."""

    kind: Kind
    name: str
    origin: Origin = Origin.SCOPE


Meanings = tuple[Meaning, ...]
"""All possible meanings of an expression; empty where they are not known."""

UNKNOWN: Meanings = ()
NOTHING: Meanings = (Meaning(Kind.BUILTIN, "None"),)
PROPERTIES = frozenset({"property", "cached_property", "lazy_property", "hybrid_property", "classproperty"})
KEPT_BY = PROPERTIES | {"staticmethod", "classmethod", "override", "final", "cache", "lru_cache"}
"""Decorators under which a call returns the function's own result."""
_MANAGERS = frozenset({"contextmanager", "asynccontextmanager"})
_SCALARS = frozenset({"str", "int", "float", "bool", "bytes", "None"})
_MADE = _SCALARS | {"list", "dict", "set", "tuple", "frozenset", "bytearray", "object"}
"""Builtin types whose instances have no member that a file defines; likewise those of exceptions."""
_LITERALS = {
    **dict.fromkeys(("string", "concatenated_string"), "str"),
    **dict.fromkeys(("true", "false", "comparison_operator", "not_operator"), "bool"),
    **dict.fromkeys(
        ("list", "tuple", "set", "list_comprehension", "set_comprehension", "generator_expression"), "list"
    ),
    **dict.fromkeys(("dictionary", "dictionary_comprehension"), "dict"),
    "integer": "int",
    "float": "float",
    "none": "None",
}
_QUOTED = re.compile(r"[A-Za-z_][\w.]*")
_DEEPEST = 24
"""Steps from an expression to its meaning; longer ways lead nowhere in the standard library."""
_MOST_MEANINGS = 4
"""An expression with more meanings counts as unknown: the types of a union are few."""


def builtin(name: str) -> Meanings:
    """Return the meaning of a builtin, or of an instance of one. Its members are not followed."""
    return (Meaning(Kind.BUILTIN, name),)


def is_builtin(name: str) -> bool:
    """Return whether a name means a builtin where a file binds it nowhere."""
    return name in known("python_names") or name in known("python_exceptions")


def one_of(choices: Iterable[Meanings]) -> Meanings:
    """Return the union of the choices: unknown as soon as one of them is. None is left out beside others."""
    found: dict[Meaning, None] = {}
    for choice in choices:
        if not choice:
            return UNKNOWN
        found.update(dict.fromkeys(choice))
    told = tuple(meaning for meaning in found if meaning not in NOTHING)
    if len(told) > _MOST_MEANINGS:
        return UNKNOWN
    return told or (NOTHING if found else UNKNOWN)


class Inference:
    """The meanings of the expressions of one file. Results are remembered."""

    def __init__(self, reading: Reading) -> None:
        self._scopes = {scope.name: scope for scope in reading.scopes if scope.node.type.endswith("definition")}
        self._known: dict[Hashable, Meanings] = {}
        self._depth = 0

    def own(self, of: Meaning) -> Scope | None:
        """Return the function or class of the file that a meaning names, or of which it is an instance."""
        return self._scopes.get(of.name)

    def of(self, node: Node | None, scope: Scope) -> Meanings:
        """Return the meanings of the expression; empty where they are not known."""
        return self._once(node.id, lambda: self._expression(node, scope)) if node is not None else UNKNOWN

    def of_name(self, name: str, scope: Scope) -> Meanings:
        """Return the meanings of the name at its place."""
        holder = scope.holder(name)
        if holder is None:
            return builtin(name) if is_builtin(name) else UNKNOWN
        return self._once((holder, name), lambda: one_of(map(self._binding, holder.bindings[name])))

    def member(self, of: Meaning, name: str) -> Meanings:
        """Return the meanings of an attribute of a symbol or of an instance."""
        if of.kind is Kind.BUILTIN:
            return builtin(of.name) if of.name in _SCALARS else UNKNOWN
        if name == "__class__":
            return (of._replace(kind=Kind.SYMBOL),)
        own = self.own(of)
        if own is None:
            return (Meaning(Kind.SYMBOL, f"{of.name}.{name}", of.origin),)
        return self._class_member(own, name, of.origin) if own.kind is ScopeKind.CLASS else UNKNOWN

    def bases(self, of: Scope) -> list[Meanings]:
        """Return the meanings of each base of a class, without builtins."""
        written = of.node.child_by_field_name("superclasses")
        found: list[Meanings] = []
        for child in written.named_children if written is not None else ():
            node = child.child_by_field_name("value") if child.type == "subscript" else child
            if node is None or node.type in ("keyword_argument", "list_splat", "dictionary_splat", "comment"):
                continue
            meanings = self.of(node, of.parent or of)
            if not meanings or any(meaning.kind is not Kind.BUILTIN for meaning in meanings):
                found.append(tuple(meaning for meaning in meanings if meaning.kind is Kind.SYMBOL))
        return found

    def result(self, function: Scope) -> Meanings:
        """Return the result of a call of the file's function: by its annotation, or else by all return statements."""
        return self._once(function, lambda: self._result(function))

    def value(self, value: Value) -> Meanings:
        """Return the meanings of a name with this value."""
        if value.type is not None:
            return self._annotated(value.type, value.scope)
        return self.of(value.node, value.scope)

    def _once(self, key: Hashable, find: Callable[[], Meanings]) -> Meanings:
        """Return the remembered meanings of the key, or find them. What leads back to itself adds nothing."""
        if key not in self._known:
            if self._depth >= _DEEPEST:
                return UNKNOWN
            self._depth += 1
            self._known[key] = NOTHING
            self._known[key] = find()
            self._depth -= 1
        return self._known[key]

    def _binding(self, binding: Binding) -> Meanings:
        if isinstance(binding, Defined):
            return (Meaning(Kind.SYMBOL, binding.scope.name),)
        if isinstance(binding, Imported):
            return (Meaning(Kind.SYMBOL, binding.target, Origin.IMPORT),)
        if isinstance(binding, Receiver):
            kind = Kind.SYMBOL if binding.is_class else Kind.INSTANCE
            return (Meaning(kind, binding.holder.name, Origin.SELF),)
        return self.value(binding)

    def _class_member(self, of: Scope, name: str, origin: Origin) -> Meanings:
        """Return the meanings of an attribute of a class of the file, or of its instances: from it or its bases."""
        return self._once((of, name, origin), lambda: self._found_member(of, name, origin))

    def _found_member(self, of: Scope, name: str, origin: Origin) -> Meanings:
        if bindings := [*of.bindings.get(name, ()), *of.attributes.get(name, ())]:
            return one_of(map(self._member_binding, bindings))
        for base in (base for meanings in self.bases(of) for base in meanings):
            own = self.own(base)
            if own is None or own.kind is not ScopeKind.CLASS:
                return (Meaning(Kind.SYMBOL, f"{of.name}.{name}", origin),)
            if found := self._class_member(own, name, origin):
                return found
        return UNKNOWN

    def _member_binding(self, binding: Binding) -> Meanings:
        if isinstance(binding, Defined) and PROPERTIES.intersection(binding.scope.decorators.values()):
            return self.result(binding.scope)
        return self._binding(binding)

    def _result(self, function: Scope) -> Meanings:
        annotation, decorators = function.node.child_by_field_name("return_type"), set(function.decorators.values())
        if annotation is not None:
            return UNKNOWN if decorators & _MANAGERS else self._annotated(annotation, function)
        if function.is_generator or not decorators <= KEPT_BY:
            return UNKNOWN
        returned = [
            NOTHING if node.type == "return_statement" else self.of(node, function) for node in function.returned
        ]
        return one_of(returned) if returned else NOTHING

    def _expression(self, node: Node, scope: Scope) -> Meanings:
        match node.type:
            case "identifier":
                return self.of_name(text(node), scope)
            case "attribute":
                name = text(node.child_by_field_name("attribute"))
                return self._members(self.of(node.child_by_field_name("object"), scope), name)
            case "call":
                return self._call(node, scope)
            case "boolean_operator" | "conditional_expression" if node.named_children:
                return one_of(self.of(side, scope) for side in (node.named_children[0], node.named_children[-1]))
            case "parenthesized_expression" | "await" if node.named_children:
                return self.of(node.named_children[0], scope)
            case "named_expression":
                return self.of(node.child_by_field_name("value"), scope)
            case "assignment":
                return self.of(node.child_by_field_name("right"), scope)
        literal = _LITERALS.get(node.type)
        return builtin(literal) if literal is not None else UNKNOWN

    def _members(self, of: Meanings, name: str) -> Meanings:
        return one_of(self.member(meaning, name) for meaning in of)

    def _call(self, node: Node, scope: Scope) -> Meanings:
        function = node.child_by_field_name("function")
        if text(function) != "super" or scope.holder("super") is not None:
            return one_of(map(self._called, self.of(function, scope)))
        if (own := scope.enclosing_class) is None:
            return UNKNOWN
        found = [meaning for meanings in self.bases(own) for meaning in meanings]
        return tuple(Meaning(Kind.INSTANCE, base.name, Origin.SELF) for base in found) or builtin("object")

    def _called(self, of: Meaning) -> Meanings:
        """Return the result of a call: an instance for a class, the function's result for a function."""
        if of.kind is Kind.BUILTIN:
            return builtin(of.name) if of.name in _MADE or of.name in known("python_exceptions") else UNKNOWN
        own = self.own(of)
        if of.kind is Kind.INSTANCE:
            return one_of(map(self._called, self._class_member(own, "__call__", of.origin) if own else UNKNOWN))
        if own is None or own.kind is ScopeKind.CLASS:
            return (of._replace(kind=Kind.INSTANCE),)
        return self.result(own)

    def _annotated(self, node: Node, scope: Scope) -> Meanings:
        """Return the meanings of a value with this annotation; empty where the annotation does not tell."""
        return self._once(("annotation", node.id), lambda: self._read_annotation(node, scope))

    def _read_annotation(self, node: Node, scope: Scope) -> Meanings:
        match node.type:
            case "type" | "parenthesized_expression" if node.named_children:
                return self._annotated(node.named_children[0], scope)
            case "none":
                return NOTHING
            case "identifier" | "attribute":
                return self._annotated_name(text(node), scope)
            case "string":  # `"Foo"`, `"Foo | None"`, `"Optional[Foo]"`; others in quotes are not read
                content = re.sub(r"^(?:\w+\.)?Optional\[(.*)\]$", r"\1", string_content(node).strip())
                names = [part.strip() for part in content.split("|")]
                is_read = all(_QUOTED.fullmatch(name) for name in names)
                return one_of(self._annotated_name(name, scope) for name in names) if is_read else UNKNOWN
            case "binary_operator" | "union_type":
                return one_of(self._annotated(side, scope) for side in node.named_children)
            case "generic_type" | "subscript" if node.named_children:
                head, *arguments = node.named_children
                if arguments and arguments[0].type == "type_parameter":
                    arguments = arguments[0].named_children
                name = text(head).rpartition(".")[2]
                if name == "Union":
                    return one_of(self._annotated(argument, scope) for argument in arguments)
                is_wrapper = name in known("python_read_as_their_first_argument") and arguments
                return self._annotated(arguments[0] if is_wrapper else head, scope)
        return UNKNOWN

    def _annotated_name(self, written: str, scope: Scope) -> Meanings:
        """Return an instance of the named class, or the meaning of a type alias: `Row = dict[str, Cell]`."""
        first, *rest = written.split(".")
        if written == "None":
            return NOTHING
        last = written.rpartition(".")[2]
        if last in known("python_types_that_tell_nothing"):
            return UNKNOWN
        if last == "Self" and (held := scope.enclosing_class) is not None:
            return (Meaning(Kind.INSTANCE, held.name),)
        holder = scope.holder(first)
        alias = holder.bindings[first][0] if holder is not None and not rest else None
        if isinstance(alias, Value):  # the value of a type variable is a call, and tells nothing
            is_read = alias.type is None and alias.node is not None and alias.node.type != "call"
            return self._annotated(alias.node, alias.scope) if is_read and alias.node is not None else UNKNOWN
        if last in known("python_containers"):
            return builtin("list")
        found = self.of_name(first, scope)
        for name in rest:
            found = self._members(found, name)
        return tuple(one._replace(kind=Kind.INSTANCE) if one.kind is Kind.SYMBOL else one for one in found)
