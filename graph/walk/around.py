"""What stands around lines of a document, and how much each of it counts in a walk that begins there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sluice.contracts.graph.model import EdgeType
from sluice.graph.generations.steps import REVERSE
from sluice.graph.generations.view import GraphView
from sluice.graph.walk.push import OTHER_WAY
from sluice.graph.walk.wanted import Wanted

USERS_WEIGHT = 1.0
"""Of what refers to the definitions that begin in a passage, beside what the passage refers to itself, which has 1."""
OUTER_WEIGHT = 0.2
"""Of the rest of the passage's document, beside these."""
BASE_WEIGHT = 5.0
"""Of the step from a class to its base or back, where classes are asked for."""
_WAYS = {None: (1.0, 1.0), False: (1.0, OTHER_WAY), True: (OTHER_WAY, 1.0)}
_MOST_STEPS = 128
"""Of one definition, the likeliest."""

Entry = tuple[int, float, int]
"""A vertex, its weight, and the step that it was entered by; -1: by none."""


class Lines(NamedTuple):
    """Lines of a document (its place). `named`: the definition that they are, where a question names it."""

    document: int
    first: int
    last: int
    named: int | None = None


class Part(NamedTuple):
    """Entries, and the share of the whole that they have together; the shares add up to 1 at most."""

    entries: list[Entry]
    share: float


def around(view: GraphView, lines: Lines, wanted: Wanted) -> list[Part]:
    """What the lines refer to, what refers to the definitions in them, and, damped, what else stands around.

    That is: the rest of these definitions, the uses of those that the lines are within, and the document itself. Of a
    named definition only its own uses count as such, of a document without definitions those of the document. A
    question that says which way it asks leaves the other way little, even where its own has nothing; it also takes the
    innermost definition that the lines begin in for one of theirs.
    """
    referred: list[Entry] = []
    users: list[Entry] = []
    outer: list[Entry] = [(lines.document, 1.0, -1)]
    outer_users: list[Entry] = []
    spans = view.definitions_in(lines.document)
    touching, inside = _definitions(view, spans, lines)
    own = _own(view, touching, inside, lines, wanted)
    for vertex in [lines.document, *touching.tolist()]:
        is_own = vertex in own or not len(spans)
        for entry, is_back, is_within in _steps(view, vertex, lines, is_base=wanted.is_base):
            if entry[0] == lines.document or entry[0] in inside:
                continue
            if is_back:
                (users if is_own else outer_users).append(entry)
            else:
                (referred if is_within else outer).append(entry)
    forward, back = _WAYS[wanted.is_back]
    weighed = [
        (referred, forward),
        (users, USERS_WEIGHT * back),
        (outer, OUTER_WEIGHT * forward),
        (outer_users, OUTER_WEIGHT * back),
    ]
    total = sum(weight for entries, weight in weighed if entries)
    if wanted.is_back is not None:
        total = max(total, 1.0)
    return [Part(entries, weight / total) for entries, weight in weighed if entries]


def _definitions(view: GraphView, spans: range, lines: Lines) -> tuple[NDArray[np.int64], set[int]]:
    """The definitions that have some of the lines, and those that begin in them."""
    places = slice(spans.start - view.nodes, spans.stop - view.nodes)
    firsts, lasts = view.definition_firsts[places], view.definition_lasts[places]
    touching = np.flatnonzero((firsts <= lines.last) & (lasts >= lines.first)) + spans.start
    inside = np.flatnonzero((firsts >= lines.first) & (firsts <= lines.last)) + spans.start
    return touching, set(inside.tolist())


def _own(view: GraphView, touching: NDArray[np.int64], inside: set[int], lines: Lines, wanted: Wanted) -> set[int]:
    """The definitions whose uses are those of the lines."""
    if lines.named is not None:
        return {lines.named}
    if wanted.is_back is None:
        return inside
    places = touching - view.nodes
    firsts = view.definition_firsts[places]
    holding = np.flatnonzero((firsts <= lines.first) & (view.definition_lasts[places] >= lines.first))
    return inside | {int(touching[place]) for place in holding[np.argsort(firsts[holding])[-1:]]}


def _steps(view: GraphView, vertex: int, lines: Lines, *, is_base: bool) -> Iterator[tuple[Entry, bool, bool]]:
    """The likeliest steps from a vertex: the entry, whether it goes back, whether its reference is in the lines."""
    start = int(view.step_offsets[vertex])
    stop = min(int(view.step_offsets[vertex + 1]), start + _MOST_STEPS)
    is_back = (view.step_hows[start:stop] & REVERSE) != 0
    is_within = (view.step_firsts[start:stop] <= lines.last) & (view.step_lasts[start:stop] >= lines.first)
    for number, target, share, back, within in zip(
        range(start, stop),
        view.step_targets[start:stop].tolist(),
        view.step_shares[start:stop].tolist(),
        is_back.tolist(),
        is_within.tolist(),
        strict=True,
    ):
        is_weighty = is_base and view.step_type(number) is EdgeType.INHERITS
        yield (target, share * BASE_WEIGHT if is_weighty else share, number), back, within
