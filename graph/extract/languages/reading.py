"""Reads a source's definitions and references, by its grammar's queries (`queries/tags.scm`) and those of its rules.

A definition's name includes its holder, as in `Class.method`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple

from sluice.graph.extract.languages.c import CPP, C
from sluice.graph.extract.languages.go import GO
from sluice.graph.extract.languages.java import JAVA
from sluice.graph.extract.languages.javascript import JAVASCRIPT, TSX, TYPESCRIPT
from sluice.graph.extract.languages.rules import Placed, Rules, joined, last_line_of, line_of, text_of
from sluice.graph.extract.languages.rust import RUST
from sluice.text.grammar import grammar_of

if TYPE_CHECKING:
    from tree_sitter import Node, Query

RULES: dict[str, Rules] = {
    "javascript": JAVASCRIPT,
    "typescript": TYPESCRIPT,
    "tsx": TSX,
    "go": GO,
    "rust": RUST,
    "java": JAVA,
    "c": C,
    "cpp": CPP,
}


_DOC_PATTERN = re.compile(r"\(comment\)\* @doc\s*\.\s|\(#(?:strip|select-adjacent|set-adjacent)![^()]*\)")
"""Parts of tags on the comment above a definition: not needed here, and quadratic in a run of comments."""


@dataclass(order=True)
class Capture:
    """A definition or reference at a place in the source. Enclosing ones sort before their contents."""

    start: int
    negative_end: int
    number: int
    kind: str = field(compare=False)
    name: Node = field(compare=False)
    whole: Node = field(compare=False)


def captures_in(root: Node, grammar: str) -> list[Capture]:
    """Return the matches of the queries, in source order, each name once as a definition or a reference."""
    from tree_sitter import QueryCursor

    wholes = RULES[grammar].wholes
    found: dict[tuple[int, str], Capture] = {}
    for _, captures in QueryCursor(_query(grammar)).matches(root):
        names = captures.get("name")
        if not names:
            continue
        name = names[0]
        for capture, nodes in captures.items():
            role = capture.partition(".")[0]
            if role not in ("definition", "reference", "scope"):
                continue
            whole = name if role == "reference" else _whole(nodes[0], wholes)
            entry = Capture(whole.start_byte, -whole.end_byte, name.start_byte, capture, name, whole)
            key = name.id, role
            if key not in found or _rank(capture) > _rank(found[key].kind):
                found[key] = entry
    return sorted(_each_once(found))


@cache
def _query(grammar: str) -> Query:
    from tree_sitter import Query

    rules = RULES[grammar]
    tags = (files(f"tree_sitter_{wheel}").joinpath("queries", "tags.scm").read_text() for wheel in rules.wheels)
    more = (files(__package__).joinpath(f"{name}.scm").read_text("utf-8") for name in rules.queries)
    return Query(grammar_of(grammar), _DOC_PATTERN.sub("", "\n".join(tags)) + "\n".join(more))


def _each_once(found: dict[tuple[int, str], Capture]) -> Iterator[Capture]:
    """Drop references that are a definition's own name, and a function's name as a part of its qualified one."""
    longest: dict[tuple[int, int], Capture] = {}
    for (name, role), entry in found.items():
        if entry.kind in ("definition.function", "definition.method"):
            place = entry.start, entry.negative_end
            if place not in longest or _length(entry.name) > _length(longest[place].name):
                longest[place] = entry
        elif role != "reference" or (name, "definition") not in found:
            yield entry
    yield from longest.values()


def _length(node: Node) -> int:
    return node.end_byte - node.start_byte


def _rank(capture: str) -> int:
    """Return the rank of a capture among several of one name: the more specific one counts."""
    match capture.partition(".")[2]:
        case "inherits":
            return 3
        case "method" | "class" | "struct" | "interface":
            return 2
        case "value" | "variable":
            return 0
        case _:
            return 1


def _whole(node: Node, wholes: frozenset[str]) -> Node:
    for _ in range(6):
        parent = node.parent
        if parent is None or parent.type not in wholes:
            break
        if sum(one.type == node.type for one in parent.named_children) > 1:
            break
        node = parent
    return node


VALUES = frozenset({"variable", "constant", "field"})
"""Definitions that contain no others; their members are those of their type."""
MOST_DEPTH = 64
"""Limit of nested definitions, and of names in a chain."""
_MOST_CHARACTERS = 300
"""Limit of a definition's path."""
_CLASSES = frozenset({"class", "interface", "type", "module", "enum", "implementation"})
_DECLARATIONS = frozenset({"declaration", "field_declaration"})
"""Nodes of C that may declare a function that is defined elsewhere."""
_HEADERS = (".h", ".hh", ".hpp", ".hxx")
_WORDS = frozenset({"this", "self", "super", "crate", "Self"})


class Definition(NamedTuple):
    """A defined name, with `path` counted from the module, and the lines that define it."""

    path: str
    kind: str
    first: int
    last: int
    is_private: bool


class Reference(NamedTuple):
    """A use of a name. `chain` holds the parts of `a.b.c`; an empty first part is a receiver that is no name."""

    kind: str
    chain: tuple[str, ...]
    line: int
    inside: str
    """The path of the definition around it."""
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
        holders: list[tuple[int, str, str, str]] = []  # its end, its path, its class's path, its object's name
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
                    continue  # in a function: a variable whose constructor has arguments
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
        found = Definition(path, kind, line_of(whole), last_line_of(whole), is_private)
        before = self.definitions.setdefault(path, found)
        if before is not found and before.kind == "declaration" != kind:
            self.definitions[path] = found
        elif before is not found and kind != "declaration":
            self.overloads.append(found._replace(is_private=before.is_private))


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
