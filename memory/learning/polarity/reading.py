"""Parses a short text into clauses of words, and the phrases that belong to them."""

from __future__ import annotations

from dataclasses import dataclass

from sluice.memory.learning.polarity.tokens import Kind

MAIN = ""
"""The relator of a main clause."""


@dataclass(frozen=True, slots=True)
class Atom:
    """A word in its base form, an identifier or a number; `negated`: with a "not" before it."""

    text: str
    kind: Kind
    negated: bool = False


Phrase = tuple[str, tuple[Atom, ...]]
"""A preposition and its words. Modal verbs and adverbs are phrases too, as they may stand anywhere."""


@dataclass(frozen=True, slots=True)
class Clause:
    """`relator`: what ties it to the main clause, which has the empty one."""

    relator: str
    main: tuple[Atom, ...]
    phrases: tuple[Phrase, ...] = ()


@dataclass(frozen=True, slots=True)
class Reading:
    """A text read. `modality`: the words that say how much it binds, of "<must>" and "<should>"."""

    clauses: tuple[Clause, ...]
    modality: frozenset[str]
