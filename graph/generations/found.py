"""What is found for a name, and by which rule; and names that stand for others."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import NamedTuple


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
