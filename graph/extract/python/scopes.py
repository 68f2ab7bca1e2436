"""The scopes of a Python file, the names that each binds and uses, by the language reference (section 4.2)."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tree_sitter import Node


DEEPEST = 100
"""Most nested scopes; CPython gives up at 100 levels of indentation. Deeper ones count as one scope."""


class ScopeKind(Enum):
    """Kinds of scopes."""

    MODULE = auto()
    CLASS = auto()
    FUNCTION = auto()
    """A function or a lambda."""
    COMPREHENSION = auto()
    TYPE_PARAMETERS = auto()
    """`[T]` of a generic function, class or alias; it lies between that and the scope around it (PEP 695)."""


class ValueKind(Enum):
    """The relation of a name's value to an expression."""

    IS = auto()
    """It is the value of the expression."""
    INSTANCE = auto()
    """It is an instance of the class, or of one of the classes: `except Error as error`, `x: Foo`."""
    UNKNOWN = auto()


@dataclass(slots=True, eq=False)
class Scope:
    """A scope of names. `name` is qualified, like `shop.cart.Cart.add`; a comprehension has its holder's."""

    kind: ScopeKind
    name: str
    parent: Scope | None
    node: Node
    depth: int = 0
    bindings: dict[str, list[Binding]] = field(default_factory=dict)
    global_names: set[str] = field(default_factory=set)
    nonlocal_names: set[str] = field(default_factory=set)
    attributes: dict[str, list[Value]] = field(default_factory=dict)
    """The values that the methods of a class assign to `self.x`."""
    returned: list[Node] = field(default_factory=list)
    """The values of a function's return statements."""
    decorators: tuple[str, ...] = ()
    is_generator: bool = False

    @property
    def module(self) -> Scope:
        """The outermost scope."""
        scope = self
        while scope.parent is not None:
            scope = scope.parent
        return scope

    @property
    def definer(self) -> Scope:
        """The scope in which an assignment expression binds: comprehensions are passed over."""
        scope = self
        while scope.kind is ScopeKind.COMPREHENSION and scope.parent is not None:
            scope = scope.parent
        return scope

    @property
    def enclosing_class(self) -> Scope | None:
        """The nearest class around this."""
        scope: Scope | None = self
        while scope is not None and scope.kind is not ScopeKind.CLASS:
            scope = scope.parent
        return scope

    def bind(self, name: str, binding: Binding) -> None:
        """Bind the name where Python does: here, or in the scope of `global` and `nonlocal`."""
        scope = self.target(name)
        scope.bindings.setdefault(name, []).append(binding)

    def target(self, name: str) -> Scope:
        """Return the scope in which an assignment here binds the name."""
        if name in self.global_names:
            return self.module
        if name in self.nonlocal_names:
            return self._outer(name) or self
        return self

    def holder(self, name: str) -> Scope | None:
        """Return the scope whose binding the name means here; None: it is a builtin, or unknown."""
        if name in self.global_names:
            module = self.module
            return module if name in module.bindings else None
        if name not in self.nonlocal_names and name in self.bindings:
            return self
        return self._outer(name)

    def _outer(self, name: str) -> Scope | None:
        scope = self.parent
        while scope is not None:
            if scope.kind is not ScopeKind.CLASS:
                if name in scope.bindings and name not in scope.nonlocal_names:
                    return scope
                if name in scope.global_names:
                    module = scope.module
                    return module if name in module.bindings else None
            scope = scope.parent
        return None


@dataclass(slots=True, eq=False)
class Defined:
    """A function or a class. `first` to `last` are its lines, decorators included."""

    scope: Scope
    first: int
    last: int


@dataclass(slots=True, eq=False)
class Imported:
    """An imported name. `target` is the absolute name of a module, or of a module's member."""

    target: str


@dataclass(slots=True, eq=False)
class Value:
    """A value: of `node`, which stands in `scope`. `is_definition`: an assignment, which makes a variable.

    For kind UNKNOWN, `node` is one possible value among others: the default of a parameter.
    """

    kind: ValueKind
    node: Node | None
    scope: Scope
    first: int
    last: int
    is_definition: bool = False
    position: int | None = None
    """Its position in an unpacked value: 1 for `b` in `a, b = f()`."""


@dataclass(slots=True, eq=False)
class Receiver:
    """The first parameter of a method: an instance of `holder`, or the class itself."""

    holder: Scope
    is_class: bool


Binding = Defined | Imported | Value | Receiver


MOST_USES = 200_000
"""Uses of names in one file that are read, the first ones: a file with more is generated."""


class Use(NamedTuple):
    """A use of a name or a chain of attributes: `node` is an identifier or the outermost attribute.

    A callee can be any expression: `handlers[name]` of `handlers[name](event)`.
    """

    scope: Scope
    node: Node
    is_called: bool


class Store(NamedTuple):
    """An assignment to an attribute of a name: `self.x = value`."""

    scope: Scope
    node: Node
    holder: str
    attribute: str
    value: Value


class Reading(NamedTuple):
    """The result of reading a file."""

    module: Scope
    scopes: list[Scope]
    """All, the module first, outer before inner."""
    uses: list[Use]
    stores: list[Store]
    imports: list[tuple[str, int]]
    """Absolute names that the file imports, and the line."""
    stars: list[tuple[str, int]]
    """Modules of which everything is imported."""
    calls: list[tuple[Scope, Node]]
    """Calls by which tools may be registered."""
    decorated: list[tuple[Scope, Node, Scope]]
    """Decorators of functions: the scope of each, the decorator, and the function."""


def text(node: Node | None) -> str:
    """Return the source of a node, a name in the form that Python compares (NFKC); empty for None."""
    if node is None:
        return ""
    source = str(node.text or b"", "utf-8", "replace")
    if not source.isascii() and node.type == "identifier":
        return unicodedata.normalize("NFKC", source)
    return source


def string_content(node: Node) -> str:
    """Return the text between the quotes of a string, without interpolations."""
    return "".join(text(child) for child in node.named_children if child.type == "string_content")


def line(node: Node) -> int:
    """Return the line on which a node begins, from 1."""
    return node.start_point.row + 1


def last_line(node: Node) -> int:
    """Return the line on which a node ends, from 1."""
    row, column = node.end_point.row, node.end_point.column
    return row + 1 if column or row == node.start_point.row else row
