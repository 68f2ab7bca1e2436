"""Reads source code in languages other than Python into edges.

The queries that come with the grammars (`queries/tags.scm`) and each language's rules find what defines and refers; a
definition's name includes its holder, as in `Class.method`. The scoping is ours: a reference is bound to a definition
or import of the same file; an unbound one is a name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple

from sluice.contracts.graph.model import Edge, EdgeType, GraphDocument, Origin, document_node, symbol, unknown
from sluice.contracts.graph.model import Node as GraphNode
from sluice.graph.extract.addresses import name_address, path_address, path_beside
from sluice.graph.extract.languages.c import CPP, C, included
from sluice.graph.extract.languages.go import GO
from sluice.graph.extract.languages.java import JAVA
from sluice.graph.extract.languages.javascript import JAVASCRIPT, TSX, TYPESCRIPT
from sluice.graph.extract.languages.rules import (
    Imported,
    Placed,
    Rules,
    joined,
    known,
    last_line_of,
    line_of,
    stem_of,
    text_of,
)
from sluice.graph.extract.languages.rust import RUST
from sluice.text.grammar import grammar_of

if TYPE_CHECKING:
    from tree_sitter import Node, Query, Tree

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


_ONLY_QUALIFIED = frozenset({"variable", "constant", "constructor"})
"""Definitions that a bare name does not reach: no unknown receiver leads to them."""


def tagged_edges(document: GraphDocument, tree: Tree) -> list[Edge]:
    """Return DEFINED_IN, REFERS_TO, INHERITS and ALIAS_OF edges of a source in one of `RULES`."""
    return list(_Source(document, tree.root_node).edges())


class _Source:
    """The definitions and references of one source in one of `RULES`."""

    def __init__(self, document: GraphDocument, root: Node) -> None:
        grammar = document.language or ""
        self._rules = rules = RULES[grammar]
        self._document = document_node(document.document_id)
        self._module = rules.module(document.path, root)
        self._path = document.path or ""
        self._private = stem_of(document.path)
        self._last_line = root.end_point.row + 1
        self._included = list(included(root, document.path)) if rules.is_global else []
        self._imported = list(rules.imports(root, self._module, document.path))
        self._imports = {one.local: one for one in self._imported if one.local}
        self._definitions: dict[str, Definition] = {}
        """By path, the first of each."""
        self._overloads: list[Definition] = []
        self._references: list[Reference] = []
        self._classes: set[str] = set()
        self._is_header = self._path.endswith(_HEADERS)
        self._sweep(captures_in(root, grammar))

    def edges(self) -> Iterator[Edge]:
        yield from self._module_edges()
        for one in (*self._definitions.values(), *self._overloads):
            yield from self._defined(one)
        for imported in self._imported:
            yield from self._imported_edges(imported)
        for reference in self._references:
            yield from self._referred(reference)
        for file, is_beside, line in self._included:
            yield from self._included_edges(file, is_beside, line)

    def _module_edges(self) -> Iterator[Edge]:
        if self._module and self._rules.language != "java":
            lines = tuple(sorted({1, self._last_line}))
            node = symbol(self._rules.language, self._module)
            yield Edge(EdgeType.DEFINED_IN, node, self._document, Origin.DEFINITION, lines, "module")

    def _defined(self, one: Definition) -> Iterator[Edge]:
        language, lines = self._rules.language, tuple(sorted({one.first, one.last}))
        name = one.path.rpartition(".")[2]
        yield Edge(
            EdgeType.DEFINED_IN,
            symbol(language, self._name(one.path)),
            self._document,
            Origin.DEFINITION,
            lines,
            one.kind,
        )
        if one.kind not in _ONLY_QUALIFIED:
            yield Edge(EdgeType.DEFINED_IN, unknown(language, name), self._document, Origin.DEFINITION, lines, one.kind)

    def _imported_edges(self, one: Imported) -> Iterator[Edge]:
        target = symbol(self._rules.language, one.meaning)
        if one.exported:
            name = symbol(self._rules.language, joined(self._module, one.exported))
            if name != target:
                yield Edge(EdgeType.ALIAS_OF, name, target, Origin.IMPORT, (one.line,))
        if one.exported != "*":
            yield Edge(EdgeType.REFERS_TO, self._document, target, Origin.IMPORT, (one.line,))

    def _included_edges(self, file: str, is_beside: bool, line: int) -> Iterator[Edge]:
        targets = [(name_address(file.rpartition("/")[2]), Origin.NAME)]
        if "/" in file:
            targets = [(path_address(file), Origin.IMPORT)]
        elif is_beside and (beside := path_beside(self._path, file)) is not None:
            targets.append((beside, Origin.IMPORT))
        for target, origin in targets:
            yield Edge(EdgeType.LINKS_TO, self._document, target, origin, (line,), "include")

    def _referred(self, one: Reference) -> Iterator[Edge]:
        bound = self._bound(one)
        if bound is None:
            return
        target, origin = bound
        yield Edge(EdgeType.REFERS_TO, self._document, target, origin, (one.line,))
        if one.kind == "inherits" and one.class_path:
            child = symbol(self._rules.language, self._name(one.class_path))
            if child != target:
                yield Edge(EdgeType.INHERITS, child, target, origin, (one.line,))

    def _bound(self, one: Reference) -> tuple[GraphNode, Origin] | None:
        """Return the symbol that a reference means, and the origin of that; None where the reference says nothing."""
        rules, (head, *rest) = self._rules, one.chain
        last, is_value = one.chain[-1], one.kind == "value"
        if not head or head in rules.own:
            if head and one.class_path and len(rest) == 1:
                return self._symbol(joined(one.class_path, last)), Origin.SELF
            return None if is_value or not rest else (unknown(rules.language, last), Origin.NAME)
        defined = self._definitions
        if (path := self._in_scope(head, one.inside)) is not None:
            if rest and defined[path].kind in VALUES and joined(path, *rest) not in defined:
                return None if is_value else (unknown(rules.language, last), Origin.NAME)
            return self._symbol(joined(path, *rest)), Origin.SCOPE
        if head in self._imports:
            return symbol(rules.language, joined(self._imports[head].meaning, *rest)), Origin.IMPORT
        if is_value or head in known(rules.language) or (one.kind == "type" and len(head) == 1):
            return None
        if (qualified := rules.qualify(one.chain, one.is_path, self._module, self._path)) is not None:
            return symbol(rules.language, qualified[0]), qualified[1]
        if rest:
            is_type = one.is_path and head[:1].isupper()  # `Cart::new`: the type says more than `new`
            return unknown(rules.language, head if is_type else last), Origin.NAME
        if rules.sees_members and one.kind == "call" and one.class_path:
            return self._symbol(joined(one.class_path, head)), Origin.SELF
        if rules.sees_package:
            return self._symbol(head), Origin.IMPORT
        return (symbol if rules.is_global else unknown)(rules.language, head), Origin.NAME

    def _sweep(self, captures: list[Capture]) -> None:
        holders: list[tuple[int, str, str, str]] = []  # its end, its path, its class's path, its object's name
        for one in captures:
            while holders and holders[-1][0] <= one.start:
                holders.pop()
            inside, class_path, receiver = holders[-1][1:] if holders else ("", "", "")
            if one.kind.startswith("reference."):
                self._references.append(self._reference(one, inside, class_path, receiver))
                continue
            placed = self._rules.place(one.name, one.whole)
            path = placed.name if placed.is_absolute else joined(inside, placed.name)
            if not placed.name or len(path) > _MOST_CHARACTERS or len(holders) >= MOST_DEPTH:
                continue
            kind = one.kind.removeprefix("definition.")
            if one.whole.type in _DECLARATIONS and kind in ("function", "method"):
                if inside and inside not in self._classes:
                    continue  # in a function: a variable whose constructor has arguments
                kind = "declaration"
            is_class = kind in _CLASSES or kind == "scope"
            if kind != "scope":
                self._define(path, kind, one.whole, placed)
            if is_class:
                self._classes.add(path)
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
        before = self._definitions.setdefault(path, found)
        if before is not found and before.kind == "declaration" != kind:
            self._definitions[path] = found
        elif before is not found and kind != "declaration":
            self._overloads.append(found._replace(is_private=before.is_private))

    def _in_scope(self, head: str, inside: str) -> str | None:
        """Return the path of the definition that a name means, searched from the inside out."""
        while True:
            path = joined(inside, head)
            if path in self._definitions and (self._rules.sees_members or inside not in self._classes):
                return path
            if not inside:
                return None
            inside = inside.rpartition(".")[0]

    def _symbol(self, path: str) -> GraphNode:
        return symbol(self._rules.language, self._name(path))

    def _name(self, path: str) -> str:
        found = self._definitions.get(path)
        return joined(self._private if found is not None and found.is_private else self._module, path)
