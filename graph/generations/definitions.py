"""Indexes definitions by name, with the rules that resolve names."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from enum import IntEnum
from itertools import takewhile
from typing import NamedTuple

from sluice.contracts.graph.model import RESULT, UNKNOWN, Edge, EdgeType, NodeLabel

CLASS, METHOD, MODULE = "class", "method", "module"
"""Kinds of definitions; a module is its document as a whole."""


class Definition(NamedTuple):
    """A name and the lines that define it. `document` is the document's place in the order of ids."""

    document: int
    first: int
    last: int
    """0 and 0: the document as a whole."""
    label: NodeLabel
    key: str
    kind: str


def definitions_of(document: int, edges: Iterable[Edge]) -> tuple[list[Definition], list[tuple[str, Definition]]]:
    """Return the definitions of one document, and those with further keys: `?.save` for each function named `save`.

    A name that is defined twice has an edge with two pairs of lines, and gives two definitions.
    """
    defining = [edge for edge in edges if edge.type is EdgeType.DEFINED_IN]
    qualified = [edge for edge in defining if not is_unknown(edge.source.key)]
    found = [
        Definition(document, first, last, edge.source.label, edge.source.key, edge.detail)
        for edge in qualified
        for first, last in _spans(edge.lines, edge.detail)
    ]
    by_name: dict[tuple[str, str], list[Definition]] = {}
    for definition in found:
        if definition.label is NodeLabel.SYMBOL and definition.kind != MODULE:
            language, _, name = definition.key.partition(":")
            by_name.setdefault((language, last_segment(name)), []).append(definition)
    also: list[tuple[str, Definition]] = []
    for edge in defining:
        if not is_unknown(edge.source.key):
            continue
        language, _, name = edge.source.key.partition(":")
        named = by_name.get((language, last_segment(name)), [])
        same = [definition for definition in named if definition.first in edge.lines]
        if not named:
            same = [
                Definition(document, first, last, edge.source.label, edge.source.key, edge.detail)
                for first, last in _spans(edge.lines, edge.detail)
            ]
            found += same
        also += [(edge.source.key, definition) for definition in same or named]
    return found, also


def is_unknown(key: str) -> bool:
    """Return whether the key is a name whose holder is not known, like `python:?.save`."""
    return f":{UNKNOWN}." in key


def is_made(key: str) -> bool:
    """Return whether the key is not written in a file but stands for the result of a call: `f.<result>`."""
    return RESULT in key


def last_segment(name: str) -> str:
    """Return the last segment: `save` of `shop.cart.Cart.save`."""
    return name.rpartition(".")[2]


def name_of(label: NodeLabel, key: str) -> str:
    """Return the short name of a symbol or a tool: the last part of its key."""
    return key.rpartition("/")[2] if label is NodeLabel.TOOL else last_segment(key.partition(":")[2])


def _spans(lines: Sequence[int], kind: str) -> list[tuple[int, int]]:
    if kind == MODULE or not lines:
        return [(0, 0)]
    if len(lines) > 2 and len(lines) % 2 == 0:
        return list(zip(lines[::2], lines[1::2], strict=True))
    return [(lines[0], lines[-1])]


class How(IntEnum):
    """The rule that resolved a name, the surest first."""

    EXACT = 0
    SUFFIX = 1
    ALIAS = 2
    INHERITED = 3
    OVERRIDE = 4
    """By a method that may run in its place: one of a subclass (the instance's class is known only at run time), or the
    wrapper of a decorator."""
    NAME = 5
    """By the name alone."""
    OUTSIDE = 6
    """By none: its definition is not in the corpus."""


class Found(NamedTuple):
    """A definition that a name can mean: its place in the list of definitions."""

    definition: int
    how: How


class Bond(NamedTuple):
    """What a name stands for, as `document` (its place in the order of ids) states it."""

    target: str
    document: int


def nearest(found: Sequence[tuple[Found, str]], folder: str, key: str) -> tuple[Found, ...]:
    """Return those of the modules found by path ending that share most of the referring file's path."""
    if not found or not found[0][1]:
        return tuple(entry for entry, _ in found)
    top = key.partition(":")[2].partition(".")[0]
    if top in sys.stdlib_module_names:
        found = [(entry, root) for entry, root in found if not root or f"{folder}/".startswith(f"{root}/")]
    shared = [shared_parts(root.split("/"), folder.split("/")) for _, root in found]
    most = max(shared, default=0)
    return tuple(dict.fromkeys(entry for (entry, _), share in zip(found, shared, strict=True) if share == most))


def shared_parts(one: Sequence[str], other: Sequence[str]) -> int:
    """Count the parts that two paths share from the beginning."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def folder_of(path: str | None) -> str:
    """Return the folder of a file; empty for None."""
    return path.rpartition("/")[0] if path else ""
