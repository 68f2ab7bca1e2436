"""What a source defines, and where it refers to what: each definition is named by what holds it, `Class.method`."""

from __future__ import annotations

from typing import NamedTuple

from tree_sitter import Node

from sluice.graph.extract.languages.captures import Capture, captures_in
from sluice.graph.extract.languages.rules import Placed, joined, line_of, text_of
from sluice.graph.extract.languages.table import RULES

VALUES = frozenset({"variable", "constant", "field"})
"""Definitions that hold none, and whose members are those of their type."""
MOST_DEPTH = 64
"""Of definitions in definitions, and of names in a chain."""
_MOST_CHARACTERS = 300
"""Of a definition's path."""
_CLASSES = frozenset({"class", "interface", "type", "module", "enum", "implementation"})
_DECLARATIONS = frozenset({"declaration", "field_declaration"})
"""In C: a function is said to be, and defined elsewhere."""
_HEADERS = (".h", ".hh", ".hpp", ".hxx")
_WORDS = frozenset({"this", "self", "super", "crate", "Self"})


class Definition(NamedTuple):
    """A name that is defined, `path` counted from the module, and the lines that define it."""

    path: str
    kind: str
    first: int
    last: int
    is_private: bool


class Reference(NamedTuple):
    """`chain` is `a.b.c` as its parts; an empty first part stands for a receiver that is no name."""

    kind: str
    chain: tuple[str, ...]
    line: int
    inside: str
    """The path of the definition that it stands in."""
    class_path: str
    is_path: bool
    """Written as a path of names, not as a member of a value: `a::b`."""


class Reading:
    """The definitions and references of one source in one of `RULES`."""

    def __init__(self, root: Node, grammar: str, path: str | None) -> None:
        self.definitions: dict[str, Definition] = {}
        """By path, the first of each."""
        self.overloads: list[Definition] = []
        self.references: list[Reference] = []
        self.classes: set[str] = set()
        self._rules = RULES[grammar]
        self._is_header = (path or "").endswith(_HEADERS)
        self._sweep(captures_in(root, grammar))

    def _sweep(self, captures: list[Capture]) -> None:
        holders: list[tuple[int, str, str, str]] = []  # where it ends, its path, its class's path, its object's name
        for one in captures:
            while holders and holders[-1][0] <= one.start:
                holders.pop()
            inside, class_path, receiver = holders[-1][1:] if holders else ("", "", "")
            if one.kind.startswith("reference."):
                self.references.append(self._reference(one, inside, class_path, receiver))
                continue
            placed = self._rules.place(one.name, one.whole)
            path = placed.name if placed.is_absolute else joined(inside, placed.name)
            if not placed.name or len(path) > _MOST_CHARACTERS or len(holders) >= MOST_DEPTH:
                continue
            kind = one.kind.removeprefix("definition.")
            if one.whole.type in _DECLARATIONS and kind in ("function", "method"):
                if inside and inside not in self.classes:
                    continue  # in a function: a variable that is made with arguments
                kind = "declaration"
            is_class = kind in _CLASSES or kind == "scope"
            if kind != "scope":
                self._define(path, kind, one.whole, placed)
            if is_class:
                self.classes.add(path)
            owner = path if is_class else (placed.owner or class_path)
            if kind not in VALUES:
                holders.append((-one.negative_end, path, owner, placed.receiver))

    def _reference(self, one: Capture, inside: str, class_path: str, receiver: str) -> Reference:
        kind, name = one.kind.removeprefix("reference."), one.name
        is_path = name.parent is not None and name.parent.type in self._rules.paths
        chain = _chain(name, self._rules.chains)
        if receiver and chain[0] == receiver and len(chain) > 1:
            chain = ("this", *chain[1:])
        return Reference(kind, chain, line_of(name), inside, class_path, is_path)

    def _define(self, path: str, kind: str, whole: Node, placed: Placed) -> None:
        is_private = placed.is_private and not self._is_header
        found = Definition(path, kind, line_of(whole), _last_line(whole), is_private)
        before = self.definitions.setdefault(path, found)
        if before is not found and before.kind == "declaration" != kind:
            self.definitions[path] = found
        elif before is not found and kind != "declaration":
            self.overloads.append(found._replace(is_private=before.is_private))


def _last_line(node: Node) -> int:
    row, column = node.end_point.row, node.end_point.column
    return row if column == 0 and row > node.start_point.row else row + 1


def _chain(name: Node, chains: dict[str, tuple[str, str]]) -> tuple[str, ...]:
    parent = name.parent
    if parent is None or parent.type not in chains:
        return (text_of(name),)
    holder, own = chains[parent.type]
    if parent.child_by_field_name(own) != name:
        return (text_of(name),)
    parts = [text_of(name)]
    node = parent.child_by_field_name(holder)
    if node is None:
        return tuple(parts)
    while node is not None and node.type in chains and len(parts) < MOST_DEPTH:
        holder, own = chains[node.type]
        parts.append(text_of(node.child_by_field_name(own)))
        node = node.child_by_field_name(holder)
    is_name = node is not None and (node.type.endswith("identifier") or node.type in _WORDS)
    return (text_of(node) if is_name else "", *reversed(parts))
