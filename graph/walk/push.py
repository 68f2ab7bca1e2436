"""Personalised PageRank from a few vertices, by forward push: it touches the neighbourhood, whatever the graph's size.

After Andersen, Chung and Lang, *Local Graph Partitioning using PageRank Vectors* (2006). All vertices that hold enough
are pushed at once, in numpy. Measured by `bench/graph/walk.py`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sluice.graph.generations.fold import REVERSE
from sluice.graph.generations.view import GraphView

RESTART = 0.7
"""Share of a vertex's weight that stays there. Of the answers that are one step from a found passage, 82 % were among
the first ten with it, 78 % with 0.5 (the standard library; 85 and 79 % on fsspec, where it was checked)."""
RESTART_IF_FAR = 0.3
"""The same where a question goes two steps."""
OTHER_WAY = 0.2
"""Factor on steps against the direction of a question."""
LEAST_RESIDUE = 1e-4
"""Least weight at which a vertex is pushed, of 1 in all."""
MOST_STEPS = 20_000
"""Steps that one walk takes, and so its time: some milliseconds. Half of all walks take a tenth of them."""
MOST_ROUNDS = 4
"""Each goes one step further; a fifth step would carry less than a hundredth of the weight."""


class Seeds(NamedTuple):
    """The start of a walk: vertices and their weights, and the step by which each was entered (-1: none)."""

    vertices: NDArray[np.int64]
    weights: NDArray[np.float64]
    entered_by: NDArray[np.int64]
    origins: NDArray[np.int64]
    """The caller's number for the origin of each."""


class Walked(NamedTuple):
    """The result of a walk: the reached vertices, and the weight of each."""

    vertices: NDArray[np.int64]
    scores: NDArray[np.float64]
    before: NDArray[np.int64]
    """By vertex: the vertex from which it was first reached."""
    by: NDArray[np.int64]
    """By vertex: the number of the step that first led there, counted from 1; 0: a seed, or not reached."""
    steps: int


def push(view: GraphView, seeds: Seeds, restart: float = RESTART, is_back: bool | None = None) -> Walked:
    """Walk from seeds whose weights add up to 1 at most; `is_back` sets the direction, and damps steps against it.

    The lower `restart`, the more weight reaches distant vertices.
    """
    count = view.vertices
    residue, is_known, is_active = np.zeros(count), np.zeros(count, bool), np.zeros(count, bool)
    rank, before, by = np.empty(count), np.empty(count, np.int64), np.empty(count, np.int64)  # set where known
    np.add.at(residue, seeds.vertices, seeds.weights)
    active = np.unique(seeds.vertices)
    is_known[active], rank[active], before[active], by[active] = True, 0.0, -1, 0
    taken = 0
    for _ in range(MOST_ROUNDS):
        active = active[residue[active] >= LEAST_RESIDUE]
        if not len(active) or taken >= MOST_STEPS:
            break
        held = residue[active]
        rank[active] += restart * held
        residue[active] = 0.0
        numbers, sources = _expand(view, active, held, MOST_STEPS - taken)
        taken += len(numbers)
        targets = view.step_targets[numbers]
        given = (1 - restart) * held[sources] * view.step_shares[numbers]
        if is_back is not None:
            given *= np.where(((view.step_hows[numbers] & REVERSE) != 0) == is_back, 1.0, OTHER_WAY)
        np.add.at(residue, targets, given)
        new = np.flatnonzero(~is_known[targets])
        new = new[np.argsort(given[new], kind="stable")]
        before[targets[new]] = active[sources[new]]
        by[targets[new]] = numbers[new] + 1
        rank[targets[new]] = 0.0
        is_known[targets] = True
        is_active[targets] = True
        active = np.flatnonzero(is_active)
        is_active[active] = False
    reached = np.flatnonzero(is_known)
    return Walked(reached, rank[reached] + restart * residue[reached], before, by, taken)


def _expand(
    view: GraphView, active: NDArray[np.int64], held: NDArray[np.float64], most: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the numbers of the steps to take, each vertex's likeliest, and the place of each one's vertex in `active`.

    A vertex takes as many as carry `LEAST_RESIDUE` each, were they equal. Beyond `most`, only the weightiest do.
    """
    starts = view.step_offsets[active]
    counts = np.minimum(view.step_offsets[active + 1] - starts, np.ceil(held / LEAST_RESIDUE).astype(np.int64))
    places = np.arange(len(active))
    if counts.sum() > most:
        order = np.argsort(-held, kind="stable")
        places = np.sort(order[np.cumsum(counts[order]) <= most])
        counts = counts[places]
    sources = np.repeat(places, counts)
    inner = np.arange(len(sources)) - np.repeat(np.cumsum(counts) - counts, counts)
    return starts[sources] + inner, sources
