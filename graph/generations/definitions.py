"""What documents define, and what is found for a name: by which rule, and names that stand for others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import NamedTuple

from sluice.contracts.graph.model import ANY, RESULT, UNKNOWN, Edge, EdgeType, NodeLabel

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
    """What one document defines, and by which further keys: `?.save` for each function named `save`.

    A name that is defined twice owns an edge with two pairs of lines, and gives two definitions.
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
    """Whether the key is a name whose holder is not known, like `python:?.save`."""
    return f":{UNKNOWN}." in key


def is_made(key: str) -> bool:
    """Whether the key is no name that a file writes: what a call gives (`f.<result>`), or a beginning (`visit_*`)."""
    return RESULT in key or key.endswith(ANY)


def last_segment(name: str) -> str:
    """`save` of `shop.cart.Cart.save`."""
    return name.rpartition(".")[2]


def name_of(label: NodeLabel, key: str) -> str:
    """What people call a symbol or a tool: the last part of its key."""
    return key.rpartition("/")[2] if label is NodeLabel.TOOL else last_segment(key.partition(":")[2])


def _spans(lines: Sequence[int], kind: str) -> list[tuple[int, int]]:
    if kind == MODULE or not lines:
        return [(0, 0)]
    if len(lines) > 2 and len(lines) % 2 == 0:
        return list(zip(lines[::2], lines[1::2], strict=True))
    return [(lines[0], lines[-1])]


class How(IntEnum):
    """By which rule a name was resolved, the surest first."""

    EXACT = 0
    SUFFIX = 1
    ALIAS = 2
    INHERITED = 3
    OVERRIDE = 4
    """By what runs in its place: a method of a subclass (of which class an instance is, only the run knows), or what a
    decorator puts there."""
    NAME = 5
    """By the name alone."""
    OUTSIDE = 6
    """By none: what it means is not in the corpus."""


class Found(NamedTuple):
    """A definition that a name can mean: its place in the list of definitions."""

    definition: int
    how: How


class Bond(NamedTuple):
    """A name that another name stands for, as `document` (its place in the order of ids) states it."""

    source: str
    target: str
    document: int


def by_source(bonds: Iterable[Bond]) -> dict[str, list[Bond]]:
    """The bonds of each source, in their order."""
    sources: dict[str, list[Bond]] = {}
    for bond in bonds:
        sources.setdefault(bond.source, []).append(bond)
    return sources
