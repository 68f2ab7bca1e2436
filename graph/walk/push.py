"""Personalised PageRank from a few vertices, by forward push: it touches what is near, whatever the size of the graph.

After Andersen, Chung and Lang, *Local Graph Partitioning using PageRank Vectors* (2006). All vertices that hold enough
are pushed at once, in numpy. Measured by `bench/graph/walk.py`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from graph.generations.view import GraphView

RESTART = 0.5
LEAST_RESIDUE = 1e-4
"""What a vertex has to hold to be pushed, of 1 in all."""
MOST_STEPS = 20_000
"""Steps that one walk takes, and so its time: about 2 ms."""
MOST_ROUNDS = 6
"""Each goes one step further. With half of the weight kept at each, a sixth step carries a thirtieth."""


class Seeds(NamedTuple):
    """Where a walk begins: vertices and their weights, and by which step each was entered (-1: by none)."""

    vertices: NDArray[np.int64]
    weights: NDArray[np.float64]
    entered_by: NDArray[np.int64]
    origins: NDArray[np.int64]
    """What each belongs to: a number of the caller's."""


class Walked(NamedTuple):
    """What a walk reached: vertices, the weight that came to each, the step that led there first, and from where."""

    vertices: NDArray[np.int64]
    scores: NDArray[np.float64]
    parents: dict[int, tuple[int, int]]
    """Vertex to (vertex before, number of the step); a seed is not in it."""
    steps: int


def push(view: GraphView, seeds: Seeds) -> Walked:
    """Walk from seeds whose weights add up to 1 at most."""
    residue = np.zeros(view.vertices)
    rank = np.zeros(view.vertices)
    np.add.at(residue, seeds.vertices, seeds.weights)
    is_known = np.zeros(view.vertices, bool)
    active = np.unique(seeds.vertices)
    is_known[active] = True
    parents: dict[int, tuple[int, int]] = {}
    taken = 0
    for _ in range(MOST_ROUNDS):
        active = active[residue[active] >= LEAST_RESIDUE]
        if not len(active) or taken >= MOST_STEPS:
            break
        held = residue[active]
        rank[active] += RESTART * held
        residue[active] = 0.0
        starts, ends = view.step_offsets[active], view.step_offsets[active + 1]
        numbers, sources = _expand(starts, ends, held, MOST_STEPS - taken)
        taken += len(numbers)
        if not len(numbers):
            break
        targets = view.step_targets[numbers].astype(np.int64)
        given = (1 - RESTART) * held[sources] * view.step_shares[numbers]
        np.add.at(residue, targets, given)
        new = ~is_known[targets]
        if new.any():
            _keep_parents(parents, targets[new], active[sources[new]], numbers[new], given[new])
            is_known[targets[new]] = True
        active = np.unique(targets)
    reached = np.flatnonzero(is_known)
    return Walked(reached, rank[reached] + RESTART * residue[reached], parents, taken)


def _expand(
    starts: NDArray[np.int64], ends: NDArray[np.int64], held: NDArray[np.float64], most: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Numbers of the steps of each vertex, and the vertex's place; of too many those of the weightiest vertices."""
    counts = ends - starts
    places = np.arange(len(starts))
    if counts.sum() > most:
        order = np.argsort(-held, kind="stable")
        within = np.cumsum(counts[order]) <= most
        places = np.sort(order[within])
        counts = counts[places]
    sources = np.repeat(places, counts)
    inner = np.arange(len(sources)) - np.repeat(np.cumsum(counts) - counts, counts)
    return starts[sources] + inner, sources


def _keep_parents(
    parents: dict[int, tuple[int, int]],
    targets: NDArray[np.int64],
    sources: NDArray[np.int64],
    numbers: NDArray[np.int64],
    given: NDArray[np.float64],
) -> None:
    order = np.lexsort((numbers, -given, targets))
    targets, sources, numbers = targets[order], sources[order], numbers[order]
    _, first = np.unique(targets, return_index=True)
    parents.update(
        zip(targets[first].tolist(), zip(sources[first].tolist(), numbers[first].tolist(), strict=True), strict=True)
    )
