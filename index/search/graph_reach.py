"""The graph in a search: from the best hits to the chunks that the graph leads to from them.

The graph names a document and a line of it, or a document as a whole. Here these become chunks of the view that is
searched: the chunk that holds the line; for a whole document, the chunk nearest to the question. Documents that the
view lacks or the query's filters exclude are skipped, so a graph that is behind or ahead of the index does no harm.
"""

from __future__ import annotations

import math
import time
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sluice.contracts.graph.model import GraphArm, GraphCandidate, GraphHit, GraphUse
from sluice.contracts.retrieval import Query
from sluice.index.generations.view import View
from sluice.index.search.candidates import SelectedCandidate
from sluice.index.search.fusion import RankedCandidates, Search
from sluice.index.segments.segment import Mask, Segment
from sluice.index.settings import QuerySettings
from sluice.index.terms.terms import USUAL_BOOSTS

HITS = 2
"""Hits from which a walk begins; no chunk that the graph reaches rises above them
(docs/decisions/0028-graph-retrieval.md)."""
HELD_IF_ASKED = 1
"""Hits that no reached chunk rises above where the question asks for things related to something: these hits are then
the subject of the question, and not its answer. None where it names the subject."""
WEIGHT_IF_ASKED = 2.0
"""Factor of `query.graph_weight` for such a question: words and vectors say little about its answer."""
MOST_REACHED = 50
"""Chunks that the graph may add to the candidates: as many as each of the other retrievers."""

NO_ARM = "the graph is not searched here"
"""Reason why a reader without a graph adds nothing."""


@dataclass(frozen=True, slots=True)
class Expanded:
    """The chunks that the graph leads to, by number, and the facts of the walk."""

    reached: dict[int, GraphCandidate]
    use: GraphUse
    ceiling: float = 0.0
    """Score of the last of the hits that the walk began from."""
    is_asked_for: bool = False
    """Whether the question asks for things related to something."""


def as_hits(query: Query) -> Query:
    """Return the query for the hits that a walk begins from: `HITS` of them, whatever number the query asks for."""
    return query.model_copy(update={"top_k": HITS, "diversity": None, "rerank": False})


def expand(arm: GraphArm | None, view: View, search: Search, hits: Sequence[SelectedCandidate]) -> Expanded:
    """Walk from the best of `hits` that do not merely repeat the question to chunks that pass `search.masks`."""
    if arm is None:
        return Expanded({}, GraphUse(abstained=NO_ARM))
    started = time.perf_counter()
    first = [_as_hit(one) for one in hits if not one.is_echo][:HITS]
    found = arm.expand(search.text, first)
    reached: dict[int, GraphCandidate] = {}
    for candidate in found.candidates:
        number = _find_chunk(view, search, candidate)
        if number is not None and (number not in reached or reached[number].score < candidate.score):
            reached[number] = candidate
        if len(reached) == MOST_REACHED:
            break
    abstained = found.abstained or ("" if reached else "it leads to nothing that may be found")
    duration_ms = (time.perf_counter() - started) * 1e3
    facts = GraphUse(candidates=len(reached), abstained=abstained, generation=found.generation, duration_ms=duration_ms)
    is_named = found.is_asked_for and found.is_named
    use = facts.model_copy(update={"is_asked_for": is_named})
    held = first[:HELD_IF_ASKED] if found.is_asked_for else first
    ceiling = math.inf if is_named else min((hit.score for hit in held), default=0.0)
    return Expanded(reached, use, ceiling, found.is_asked_for)


def add_reached(
    ranked: RankedCandidates, expanded: Expanded, view: View, search: Search, settings: QuerySettings
) -> RankedCandidates:
    """Fuse the chunks that the graph reached with the other candidates; all are scored by cosine and BM25 alike."""
    reached = expanded.reached
    if not reached or search.vector is None:
        return ranked
    new = ranked.missing(reached)
    cosines = view.similarities(search.vector, new)
    scores = view.terms.score(search.text, USUAL_BOOSTS, new) if new else []
    settings = search.weighed(settings)
    if expanded.is_asked_for:
        settings = settings.model_copy(update={"graph_weight": settings.graph_weight * WEIGHT_IF_ASKED})
    return ranked.with_graph(reached, expanded.ceiling, cosines, scores, settings)


def _as_hit(one: SelectedCandidate) -> GraphHit:
    chunk = one.chunk
    return GraphHit(chunk.document_id, chunk.start_line, chunk.end_line, one.candidate.fused_score)


def _find_chunk(view: View, search: Search, candidate: GraphCandidate) -> int | None:
    """Return the number of the chunk that the graph means; None where the view lacks it or a filter excludes it."""
    place = view.find_document(candidate.document_id)
    if place is None or not len(place.rows):
        return None
    segment, mask = view.parts[place.part].segment, search.masks[place.part]
    if candidate.line is None:
        row = _nearest_row(segment, place.rows, mask, search)
    else:
        row = find_row(segment, place.rows, candidate.line)
        row = row if mask is None or mask[row] else None
    return None if row is None else int(segment.numbers[row])


def find_row(segment: Segment, rows: range, line: int) -> int:
    """Return the row of a document's chunk that holds the line: the last chunk that begins at or before it, so that of
    two overlapping chunks the later one is chosen. A document's chunks are in its order."""
    behind = bisect_right(rows, line, key=segment.start_line)
    return rows[max(0, behind - 1)]


def _nearest_row(segment: Segment, rows: range, mask: Mask | None, search: Search) -> int | None:
    """Return the nearest row to the question among those that pass the mask; None where there is none."""
    passing = np.array([row for row in rows if mask is None or mask[row]], dtype=np.int64)
    if not len(passing) or search.vector is None:
        return None
    return int(passing[int(segment.products(passing, search.vector).argmax())])
