"""The graph as a retriever of a search: from found passages and a question to passages that are a few steps away.

It reads the current generation, and abstains where there is none.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sluice.contracts.errors import Corrupted
from sluice.contracts.graph.model import Expansion, GraphArm, GraphCandidate, GraphHit, NodeLabel
from sluice.graph.generations.publish import FILE, POINTER, current, open_generation
from sluice.graph.generations.view import GraphView
from sluice.graph.walk.nodes import Kind, document_of, kind_of
from sluice.graph.walk.paths import Passage, Trails
from sluice.graph.walk.push import RESTART, RESTART_IF_FAR, Walked, push
from sluice.graph.walk.question import Wanted, wanted_by
from sluice.graph.walk.seeds import seeds_of
from sluice.otel import metrics
from sluice.text.words import sigmoid

NO_GRAPH = "no graph is published"
DAMAGED = "the graph is damaged"
_State = tuple[int, int, int]


class Arm(GraphArm):
    """Walks the current generation of the graph of one corpus. Safe for threads.

    Each question checks the pointer (one `stat`) and opens a new generation if there is one. An open generation stays
    readable when its file is deleted; a damaged one is not tried again until another takes its place.
    """

    def __init__(self, folder: Path) -> None:
        """`folder` is that of the corpus's graph. Nothing is opened before the first question."""
        self._folder = folder
        self._lock = threading.Lock()
        self._state: _State | None = None
        self._view: GraphView | None = None
        self._problem = NO_GRAPH

    def expand(self, question: str, hits: Sequence[GraphHit]) -> Expansion:
        """Walk from the hits and from the names in the question; time that, or count why not. Raises nothing."""
        began = time.perf_counter()
        view, problem = self.view()
        found = Expansion(abstained=problem) if view is None else expand(view, question, hits)
        if found.abstained:
            reason = {NO_GRAPH: "absent", DAMAGED: "damaged"}.get(found.abstained, "unconnected")
            metrics.GRAPH_ABSTAINED.labels(reason).inc()
        else:
            metrics.GRAPH_WALK_SECONDS.observe(time.perf_counter() - began)
        return found

    def view(self) -> tuple[GraphView | None, str]:
        """Return the generation to read, or the reason that there is none."""
        state = self._look()
        if state is None or state == self._state:
            return self._view, self._problem
        with self._lock:
            if state != self._state:
                self._open()
                self._state = state
            return self._view, self._problem

    def _look(self) -> _State | None:
        try:
            found = (self._folder / POINTER / FILE).stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size

    def _open(self) -> None:
        try:
            generation = current(self._folder)
            if generation is not None:
                self._view, self._problem = open_generation(self._folder, generation), ""
        except Corrupted:
            self._problem = DAMAGED


MOST_CANDIDATES = 20
OTHER_KIND = 0.2
"""Factor on the score of a document that is no test, page or code, where the question asks for that."""
_UNASKED_KINDS: dict[Kind | None, float] = {Kind.TEST: 0.5, Kind.PAGE: 0.2}
"""Factors on the scores of tests and pages, where the question asks for things related to something, not for these."""
FLATTENED = 0.5
"""Exponent of scores where the question asks for things related to something: of many callers, the one nearest to the
question comes first."""
UNASKED = 0.7
"""Factor on the score of a reached vertex where the question neither asks for related things nor names anything."""
GUESSED = 0.1
"""Further factor where a step on the way is a guess."""
_MOST_WEIGHED = 200
"""Vertices that are examined, the best: names that lead to no passage are among them."""


def expand(view: GraphView, question: str, hits: Sequence[GraphHit]) -> Expansion:
    """Walk from the hits and from the names in the question, both ways along the edges."""
    begun = seeds_of(view, question, hits)
    if begun.reason:
        return Expansion(abstained=begun.reason, generation=view.name)
    wanted = wanted_by(question)
    walked = push(view, begun.seeds, RESTART_IF_FAR if wanted.is_far else RESTART, wanted.is_back)
    trails = Trails(view, begun, walked)
    is_asked_for = wanted.is_back is not None
    unasked = 1.0 if any(start.label is not NodeLabel.DOCUMENT for start in begun.starts) else UNASKED
    candidates: dict[Passage, GraphCandidate] = {}
    best = 0.0
    for vertex, score in _ordered(view, walked, wanted):
        passage = trails.passage(vertex)
        if passage is None or passage in candidates or vertex in begun.subjects:
            continue
        best = best or score
        if len(candidates) >= MOST_CANDIDATES or score <= 0:
            break
        sureness = 1.0 if trails.is_sure(vertex) else GUESSED
        weight = (score / best) ** FLATTENED if is_asked_for else score / best * unasked * sureness
        if begun.subjects:
            weight = likelihood(evidence_of(view, trails, vertex, wanted, weight))
        path = partial(trails.path, vertex)
        candidates[passage] = GraphCandidate(view.node(passage.document).key, passage.line, weight, path)
    if not candidates:
        return Expansion(abstained="only names that lead to no passage", generation=view.name)
    return Expansion(
        tuple(candidates.values()), generation=view.name, is_asked_for=is_asked_for, is_named=bool(begun.subjects)
    )


class Evidence(NamedTuple):
    """Figures of a passage that the walk from a named subject reached, for `likelihood`."""

    weight: float
    """Its score, as a share of the best one's."""
    is_direct: bool
    """Whether one reference in the direction of the question leads there, to a document of the kind asked for."""
    is_outside: bool
    """Whether it stands in code outside of all definitions, as imports do."""


def evidence_of(view: GraphView, trails: Trails, vertex: int, wanted: Wanted, weight: float) -> Evidence:
    """Return the figures of a reached vertex."""
    step, kind = trails.only_step(vertex), kind_of(view, vertex)
    is_kind = kind is wanted.kind if wanted.kind else kind is not Kind.PAGE
    is_direct = step is not None and is_kind and step.is_reverse is wanted.is_back
    return Evidence(weight, is_direct, vertex < view.documents and kind is not Kind.PAGE)


def likelihood(evidence: Evidence) -> float:
    """Return the probability that a passage has the relation to the subject that a question asks for.

    Fitted by `bench.graph.related` on the recorded calls and the pages of two repositories.
    """
    odds = sum(weight * figure for weight, figure in zip(_OF_EVIDENCE, evidence, strict=True)) + _BIAS
    return sigmoid(odds)


_BIAS = -6.68
_OF_EVIDENCE = (4.38, 4.09, -2.54)


def _ordered(view: GraphView, walked: Walked, wanted: Wanted) -> list[tuple[int, float]]:
    """Return vertices and scores, the highest first; documents of another kind than requested get a lower score."""
    order = np.lexsort((walked.vertices, -walked.scores))[:_MOST_WEIGHED]
    found = list(zip(walked.vertices[order].tolist(), walked.scores[order].tolist(), strict=True))
    if wanted.is_back is None:
        return found
    documents = [document_of(view, vertex) for vertex, _ in found]
    fits = {document: _fit(view, document, wanted) for document in set(documents)}
    fitting = ((vertex, score * fits[document]) for (vertex, score), document in zip(found, documents, strict=True))
    return sorted(fitting, key=lambda one: -one[1])


def _fit(view: GraphView, document: int | None, wanted: Wanted) -> float:
    """Return the factor by which a document fits the question's kind. `document` is None for a vertex in none."""
    kind = None if document is None else kind_of(view, document)
    if wanted.kind is None:
        return _UNASKED_KINDS.get(kind, 1.0)
    return 1.0 if kind is wanted.kind else OTHER_KIND
