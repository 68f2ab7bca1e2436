"""From passages that were found and a question to passages that are a few steps away."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from contracts.graph.retrieval import Expansion, GraphCandidate, GraphHit
from graph.generations.view import GraphView
from graph.walk.push import push
from graph.walk.seeds import seeds_of
from graph.walk.trails import Passage, Trails

MOST_CANDIDATES = 20


def expand(view: GraphView, question: str, hits: Sequence[GraphHit]) -> Expansion:
    """Walk from the hits and from what the question names, both ways along the edges."""
    begun = seeds_of(view, question, hits)
    if begun.reason:
        return Expansion(abstained=begun.reason, generation=view.name)
    walked = push(view, begun.seeds)
    trails = Trails(view, begun, walked)
    order = np.lexsort((walked.vertices, -walked.scores))
    candidates: dict[Passage, GraphCandidate] = {}
    best = 0.0
    for place in order.tolist():
        vertex = int(walked.vertices[place])
        passage = trails.passage(vertex)
        if passage is None or passage in candidates:
            continue
        best = best or float(walked.scores[place])
        if len(candidates) >= MOST_CANDIDATES or walked.scores[place] <= 0:
            break
        candidates[passage] = GraphCandidate(
            view.node(passage.document).key,
            passage.line,
            float(walked.scores[place]) / best,
            trails.path(vertex),
        )
    if not candidates:
        return Expansion(abstained="only names that lead to no passage", generation=view.name)
    return Expansion(tuple(candidates.values()), generation=view.name)
