"""Reads a Python file's scopes, the names that each binds and uses, by the language reference (section 4.2).

`python.scm` says which part each name plays. One pass over the names, in the order of the text, gives each its scope.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from sluice.graph.extract.languages.rules import joined, last_line_of, line_of, text_of
from sluice.text.grammar import grammar_of

if TYPE_CHECKING:
    from tree_sitter import Node, Query

DEEPEST = 100
"""Most nested scopes; CPython gives up at 100 levels of indentation. Deeper ones count as one scope."""
MOST_USES = 200_000
"""Uses of names in one file that are read, the first ones: a file with more is generated."""


class ScopeKind(Enum):
    """Kinds of scopes."""

    MODULE = auto()
    CLASS = auto()
    FUNCTION = auto()
    """A function or a lambda."""
    INNER = auto()
    """A comprehension; or `[T]` of a generic function or class, between that and the scope around it (PEP 695)."""


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
    """The values of a function's return statements; the statement itself where it has none."""
    decorators: dict[Node, str] = field(default_factory=dict)
    """A function's decorators with their last names: `tool` of `@server.tool(name="x")`."""
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
        """The nearest module, class or function: an assignment expression binds there."""
        scope = self
        while scope.kind is ScopeKind.INNER and scope.parent is not None:
            scope = scope.parent
        return scope

    @property
    def around(self) -> Scope:
        """The module, class or function that holds this definition."""
        return self.parent.definer if self.parent is not None else self

    @property
    def enclosing_class(self) -> Scope | None:
        """The nearest class around this."""
        scope: Scope | None = self
        while scope is not None and scope.kind is not ScopeKind.CLASS:
            scope = scope.parent
        return scope

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

    def receiver(self, name: str) -> Scope | None:
        """Return the class of which `name` is the receiver (`self`, `cls`) here."""
        holder = self.holder(name)
        bound = holder.bindings[name][0] if holder is not None else None
        return bound.holder if isinstance(bound, Receiver) else None

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
    """A value with this type, or else that of `node`; both stand in `scope`. Without both it is unknown.

    `is_definition`: an assignment, which makes a variable.
    """

    scope: Scope
    node: Node | None
    type: Node | None
    first: int
    last: int
    is_definition: bool


@dataclass(slots=True, eq=False)
class Receiver:
    """The first parameter of a method: an instance of `holder`, or the class itself."""

    holder: Scope
    is_class: bool


Binding = Defined | Imported | Value | Receiver


class Use(NamedTuple):
    """A use of a name or a chain of attributes: `node` is an identifier or the outermost attribute.

    A callee can be any expression: `handlers[name]` of `handlers[name](event)`.
    """

    scope: Scope
    node: Node
    is_called: bool


@dataclass(slots=True)
class _Frame:
    """A part of the text, up to the byte `end`. Its names are in `scope`, those of its `@inside` in `inner`."""

    end: int
    scope: Scope
    inner: Scope | None = None


class _Capture(NamedTuple):
    """A node that plays a part in the text; `whole` is the statement or parameter with its value."""

    pattern: int
    role: str
    node: Node
    whole: Node | None


_ORDER = {"inside": 0, "scope": 1}
_OF_CLASS = frozenset({"classmethod", "__new__", "__init_subclass__", "__class_getitem__"})
_NAMES = frozenset({"identifier", "attribute", "dotted_name"})


class Reading:
    """The scopes of one file, and the uses of names in them. Relative imports begin at `package`."""

    def __init__(self, root: Node, module: str, package: str) -> None:
        self.module = Scope(ScopeKind.MODULE, module, None, root)
        self.scopes = [self.module]
        """All, the module first, outer before inner."""
        self.uses: list[Use] = []
        self.imports: list[tuple[str, int]] = []
        """Absolute names that the file imports, and the line."""
        self.stars: list[tuple[str, int]] = []
        """Modules of which everything is imported."""
        self._package = package
        self._frames = [_Frame(root.end_byte + 1, self.module)]
        self._read: set[int] = set()
        """Parts of chains and imports that were read as a whole."""
        for one in _captures(root):
            while self._frames[-1].end <= one.node.start_byte:
                self._frames.pop()
            if one.node.id not in self._read or one.role in _ORDER:
                self._take(one, self._frames[-1])

    def use(self, node: Node, scope: Scope, is_called: bool) -> None:
        """Record the use of a name or a chain of attributes, or the call of an expression."""
        if len(self.uses) < MOST_USES:
            self.uses.append(Use(scope, node, is_called))

    def bind(self, scope: Scope, node: Node, binding: Binding) -> None:
        """Bind the name at the node where Python does: in the scope, or in that of `global` and `nonlocal`."""
        name = text(node)
        scope.target(name).bindings.setdefault(name, []).append(binding)

    def _take(self, one: _Capture, frame: _Frame) -> None:
        node, scope = one.node, frame.scope
        match one.role:
            case "scope":
                self._open(node, scope)
            case "inside":
                if frame.inner is not None:
                    self._frames.append(_Frame(node.end_byte, frame.inner))
                    frame.inner = None
            case "parameter":
                self._parameter(node, one.whole, frame)
            case "assigned" | "bound":
                self.bind(scope, node, _value(one, scope))
            case "assigned_around":
                self.bind(scope.definer, node, _value(one, scope))
            case "bound_unless_before":
                if text(node) not in scope.target(text(node)).bindings:
                    self.bind(scope, node, _value(one, scope))
                self.use(node, scope, False)
            case "assigned_attribute" | "bound_attribute":
                self._store(node, scope, _value(one, scope))
            case "import":
                self._import(node, scope)
            case "global" if scope.kind is not ScopeKind.MODULE:
                scope.global_names.add(text(node))
            case "nonlocal" if scope.kind is not ScopeKind.MODULE:
                scope.nonlocal_names.add(text(node))
            case "return" if scope.kind is ScopeKind.FUNCTION:
                scope.returned.extend(node.named_children[:1] or [node])
            case "yield":
                scope.definer.is_generator = True
            case "use" | "called":
                self._use(node, scope, one.role == "called")

    def _use(self, node: Node, scope: Scope, is_called: bool) -> None:
        links, attributes = chain_of(node)
        self._read.update(part.id for part in (*links, *attributes) if part.type in _NAMES)
        self.use(node, scope, is_called)

    def _store(self, node: Node, scope: Scope, value: Value) -> None:
        """Record an assignment to an attribute: of the class for `self.x`, else it is a use of the attribute."""
        holder, attribute = node.child_by_field_name("object"), node.child_by_field_name("attribute")
        held_by = scope.receiver(text(holder)) if holder is not None and holder.type == "identifier" else None
        if held_by is None:
            self._use(node, scope, False)
        elif holder is not None and attribute is not None:
            self._read |= {holder.id, attribute.id}
            held_by.attributes.setdefault(text(attribute), []).append(value)

    def _open(self, node: Node, scope: Scope) -> None:
        """Open the scope of a definition, a lambda or a comprehension, and bind the definition's name."""
        named = node.child_by_field_name("name") if node.type.endswith("definition") else None
        outside = scope
        if node.child_by_field_name("type_parameters") is not None:
            outside = self._inner(ScopeKind.INNER, scope.name, scope, node)
        name = joined(scope.name, text(named))
        if node.type.endswith(("comprehension", "generator_expression")):
            self._frames.append(_Frame(node.end_byte, self._inner(ScopeKind.INNER, name, scope, node), scope))
            return
        kind = ScopeKind.CLASS if node.type == "class_definition" else ScopeKind.FUNCTION
        inner = self._inner(kind, name, outside, node)
        self._frames.append(_Frame(node.end_byte, outside, inner))
        if named is None or inner is outside:
            return
        whole = node.parent if node.parent is not None and node.parent.type == "decorated_definition" else node
        if kind is ScopeKind.FUNCTION:
            inner.decorators = {one: _last_name(one) for one in whole.named_children if one.type == "decorator"}
        self.bind(scope, named, Defined(inner, line_of(whole), last_line_of(whole)))

    def _inner(self, kind: ScopeKind, name: str, parent: Scope, node: Node) -> Scope:
        """Return a new scope that the node opens within `parent`; `parent` itself at the depth limit."""
        if parent.depth >= DEEPEST:
            return parent
        self.scopes.append(Scope(kind, name, parent, node, parent.depth + 1))
        return self.scopes[-1]

    def _parameter(self, node: Node, whole: Node | None, frame: _Frame) -> None:
        inner = frame.inner or frame.scope
        holder, names = inner.around, {*inner.decorators.values(), inner.name.rpartition(".")[2]}
        is_first = not inner.bindings and (whole is None or whole.type.endswith("parameter"))
        is_method = holder.kind is ScopeKind.CLASS and inner.node.type != "lambda" and "staticmethod" not in names
        if is_method and is_first and node.parent is not None and not node.parent.type.endswith("splat_pattern"):
            self.bind(inner, node, Receiver(holder, bool(_OF_CLASS & names)))
        else:
            type_ = whole.child_by_field_name("type") if whole is not None else None
            self.bind(inner, node, Value(frame.scope, None, type_, line_of(node), last_line_of(node), False))

    def _import(self, node: Node, scope: Scope) -> None:
        self._read.update(one.id for one in _descendants(node))
        if node.type == "future_import_statement":
            return  # its names are no symbols
        module_node = node.child_by_field_name("module_name")
        module = imported_name(self._package, "".join(text(module_node).split()))
        if module:
            self.imports.append((module, line_of(node)))
        for child in node.named_children:
            if child.type == "wildcard_import":
                self.stars.append((module, line_of(child)))
            written, alias = child.child_by_field_name("name") or child, child.child_by_field_name("alias")
            if child == module_node or written.type != "dotted_name":
                continue
            parts = written.named_children
            target = joined(module, *map(text, parts))
            self.imports.append((target, line_of(child)))
            is_whole = alias is not None or module_node is not None
            self.bind(scope, alias or parts[0], Imported(target if is_whole else text(parts[0])))


def _captures(root: Node) -> list[_Capture]:
    """Return the nodes that play a part, enclosing ones before their contents."""
    from tree_sitter import QueryCursor

    found: dict[tuple[int, int], _Capture] = {}
    for pattern, captured in QueryCursor(_query()).matches(root):
        wholes = captured.pop("whole", [None])
        for role, nodes in captured.items():
            for node in nodes:
                key = node.id, _ORDER.get(role, 2)
                if key not in found or pattern >= found[key].pattern:
                    found[key] = _Capture(pattern, role, node, wholes[0])
    order = sorted((one.node.start_byte, -one.node.end_byte, key[1], key[0]) for key, one in found.items())
    return [found[identity, group] for _, _, group, identity in order]


@cache
def _query() -> Query:
    from tree_sitter import Query

    return Query(grammar_of("python"), Path(__file__).with_name("python.scm").read_text("utf-8"))


def _value(one: _Capture, scope: Scope) -> Value:
    whole, value, type_ = one.whole or one.node, None, None
    if whole.type == "as_pattern":
        value = whole.named_children[0]  # `with` binds the manager itself, mostly
        if whole.parent is not None and whole.parent.type.startswith("except"):
            value, type_ = None, value
    elif one.whole is not None:
        type_ = whole.child_by_field_name("type")
        value = whole.child_by_field_name("right") or whole.child_by_field_name("value")
    return Value(scope, value, type_, line_of(whole), last_line_of(whole), one.role.startswith("assigned"))


def _descendants(node: Node) -> Iterator[Node]:
    work = [node]
    for one in work:
        work += one.named_children
        yield one


def _last_name(decorator: Node) -> str:
    node = next(iter(decorator.named_children), None)
    if node is not None and node.type == "call":
        node = node.child_by_field_name("function")
    return text(node).rpartition(".")[2] if node is not None and node.type in _NAMES else ""


def chain_of(node: Node) -> tuple[list[Node], list[Node]]:
    """Return `a.b.c`, `a.b` and `a` of a chain of attributes, and the names `b` and `c` in order.

    The last of the first list can be any expression.
    """
    if node.type == "dotted_name":
        return node.named_children[:1], node.named_children[1:]
    links, attributes = [node], []
    while links[-1].type == "attribute":
        attribute, base = links[-1].child_by_field_name("attribute"), links[-1].child_by_field_name("object")
        if attribute is None or base is None:
            break
        links.append(base)
        attributes.append(attribute)
    return links, attributes[::-1]


def imported_name(package: str, written: str) -> str:
    """Return the absolute name of `written`, as `..models.User`, in a module of `package`.

    A name that leads out of the outermost folder counts from there: the folders above are not known.
    """
    name = written.lstrip(".")
    dots = len(written) - len(name)
    parts = package.split(".") if dots and package else []
    return ".".join([*parts[: max(0, len(parts) - dots + 1)], *([name] if name else [])])


def text(node: Node | None) -> str:
    """Return the source of a node, a name in the form that Python compares (NFKC); empty for None."""
    source = text_of(node)
    if node is not None and node.type == "identifier" and not source.isascii():
        return unicodedata.normalize("NFKC", source)
    return source


def string_content(node: Node) -> str:
    """Return the text between the quotes of a string, without interpolations."""
    return "".join(text(child) for child in node.named_children if child.type == "string_content")
