"""What the queries of a grammar (`queries/tags.scm`, and `more` of its rules) find in a source."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files

from tree_sitter import Node, Query, QueryCursor

from sluice.contracts.grammar import grammar_of
from sluice.graph.extract.languages.table import RULES

_DOC_PATTERN = re.compile(r"\(comment\)\* @doc\s*\.\s|\(#(?:strip|select-adjacent|set-adjacent)![^()]*\)")
"""What tags say of the comment above a definition: we do not need it, and a run of comments takes quadratic time."""


@dataclass(order=True)
class Capture:
    """Something at a place of the source; what holds others comes before them."""

    start: int
    negative_end: int
    number: int
    kind: str = field(compare=False)
    name: Node = field(compare=False)
    whole: Node = field(compare=False)


def captures_in(root: Node, grammar: str) -> list[Capture]:
    """What the queries find, in the order of the source, each name once as a definition or a reference."""
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
    rules = RULES[grammar]
    tags = (files(f"tree_sitter_{wheel}").joinpath("queries", "tags.scm").read_text() for wheel in rules.wheels)
    return Query(grammar_of(grammar), _DOC_PATTERN.sub("", "\n".join(tags)) + rules.more)


def _each_once(found: dict[tuple[int, str], Capture]) -> Iterator[Capture]:
    """Without references that are a definition's own name, and a function's name as a part of its qualified one."""
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
    """Which of two captures of one name counts: the one that says more."""
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
