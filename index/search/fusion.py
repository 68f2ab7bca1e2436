"""Fusion: one order of the results of two retrievers, dense and BM25; and the retrieval from a local corpus by both.

    cosine · |cosine| + `lexical_weight` · BM25

Chunks that the graph leads to get `graph_weight` · their score on top. They rise up to the hits that the walk began
from and no further: hits stay before the chunks that they lead to.

The sum takes both scores as they are, and both of every candidate, whichever retriever found it; BM25 counts function
words too, which the search for candidates leaves out. Nothing is normalised over a question: the size of BM25 tells how
many words match and how rare they are, which normalising would lose. docs/decisions/0012-fusion.md has the
measurements.

Equal scores are ordered by chunk id, so the same corpus and question always give the same list.

There are about a hundred candidates, for which lists are faster than arrays: a call into numpy costs as much as a pass
over fifty of them.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import overload

import numpy as np

from sluice.contracts.graph.model import GraphCandidate, GraphPath
from sluice.contracts.retrieval import Strategy
from sluice.index.generations.view import NOTHING_FOUND, Floats, Masks, Numbers, Ranked, View
from sluice.index.journal.records import Vectors
from sluice.index.settings import QuerySettings
from sluice.index.terms.terms import USUAL_BOOSTS, Boosts, Hit

NameOf = Callable[[int], str]
"""Returns the chunk id of a chunk number, for ties."""

CANDIDATES = 50
"""Candidates that each retriever gives to fusion."""
_STEP = 1e-9
"""Step between the scores of candidates that would rise above a ceiling."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A chunk with its ranks and scores. A rank is None where that retriever did not find it.

    `similarity` is a cosine, None without vectors; `lexical_score` BM25, None for a chunk without a word of the
    question; `fused_score` orders the results.
    """

    number: int
    fused_score: float
    similarity: float | None = None
    dense_rank: int | None = None
    lexical_score: float | None = None
    lexical_rank: int | None = None
    graph_score: float | None = None
    tell_graph_path: Callable[[], GraphPath] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class FusionInput:
    """The candidates of both retrievers, each once, as parallel lists with one value per candidate.

    A rank is 0 where that retriever did not find the candidate. A similarity is NaN where there is no vector.
    """

    numbers: Numbers
    similarities: Floats
    dense_ranks: Numbers
    lexical_scores: Floats
    lexical_ranks: Numbers


def list_candidates(dense: Ranked, lexical: Ranked) -> Numbers:
    """List the chunks that either retriever found, each once: the vectors' chunks first, then those of words alone."""
    near = set(dense.numbers)
    return dense.numbers + [number for number in lexical.numbers if number not in near]


def combine_results(dense: Ranked, lexical: Ranked, cosines: Floats, lexical_scores: Floats | None) -> FusionInput:
    """Combine the results of both retrievers.

    `cosines` belong to the candidates that only the words found (NaN without a vector), `lexical_scores` to all, in the
    order of `list_candidates`; None keeps the scores of the words' retriever, with 0 for the others.
    """
    numbers, count = list_candidates(dense, lexical), len(dense.numbers)
    rank_of = dict(zip(lexical.numbers, range(1, len(lexical.numbers) + 1), strict=True))
    if lexical_scores is None:
        score_of = dict(zip(lexical.numbers, lexical.scores, strict=True))
        lexical_scores = [score_of.get(number, 0.0) for number in numbers]
    return FusionInput(
        numbers=numbers,
        similarities=dense.scores + cosines,
        dense_ranks=[*range(1, count + 1), *[0] * (len(numbers) - count)],
        lexical_scores=lexical_scores,
        lexical_ranks=[rank_of.get(number, 0) for number in numbers],
    )


def fuse_scores(results: FusionInput, strategy: Strategy, settings: QuerySettings) -> Floats:
    """Compute the score that orders each candidate; higher is better."""
    match strategy:
        case Strategy.BM25:
            return results.lexical_scores
        case Strategy.VECTOR:
            return results.similarities
        case _:
            return add_weighted_scores(results, settings.lexical_weight)


def add_weighted_scores(results: FusionInput, lexical_weight: float) -> Floats:
    """Compute cosine · |cosine| + `lexical_weight` · BM25; a chunk without a vector counts as one at right angles."""
    return [
        (cosine * abs(cosine) if cosine == cosine else 0.0) + lexical_weight * score
        for cosine, score in zip(results.similarities, results.lexical_scores, strict=True)
    ]


def keep_below(ceiling: float, before: Floats, lifted: Floats) -> Floats:
    """Return the `lifted` scores, with none raised above the ceiling from below; those at it keep their order."""
    scores = list(before)
    order = sorted(range(len(lifted)), key=lifted.__getitem__, reverse=True)
    above = [place for place in order if before[place] < ceiling <= lifted[place]]
    for place in order:
        scores[place] = max(before[place], min(lifted[place], ceiling))
    for position, place in enumerate(above, start=1):
        scores[place] = ceiling - position * _STEP
    return scores


class RankedCandidates(Sequence[Candidate]):
    """The candidates, best first; each is made when it is accessed."""

    def __init__(
        self, results: FusionInput, fused: Floats, name_of: NameOf, reached: Mapping[int, GraphCandidate] | None = None
    ) -> None:
        self._results = results
        self._fused = fused
        self._name_of = name_of
        self._reached = reached
        self._order = _by_score(results.numbers, fused, name_of)

    def with_graph(
        self,
        reached: Mapping[int, GraphCandidate],
        ceiling: float,
        cosines: Floats,
        lexical_scores: Floats,
        settings: QuerySettings,
    ) -> RankedCandidates:
        """Return these candidates and those that the graph `reached`, by chunk number, in one order.

        `cosines` and `lexical_scores` belong to the new candidates, in the order of `missing`. The graph lifts no score
        above `ceiling`.
        """
        new, old = self.missing(reached), self._results
        nothing = [0] * len(new)
        results = FusionInput(
            numbers=old.numbers + new,
            similarities=old.similarities + cosines,
            dense_ranks=old.dense_ranks + nothing,
            lexical_scores=old.lexical_scores + lexical_scores,
            lexical_ranks=old.lexical_ranks + nothing,
        )
        fused = fuse_scores(results, Strategy.HYBRID, settings)
        added = {number: settings.graph_weight * one.score for number, one in reached.items()}
        lifted = [score + added.get(number, 0.0) for number, score in zip(results.numbers, fused, strict=True)]
        return RankedCandidates(results, keep_below(ceiling, fused, lifted), self._name_of, reached)

    def missing(self, reached: Iterable[int]) -> Numbers:
        """Return the numbers that are not among the candidates, in their order."""
        known = set(self._results.numbers)
        return [number for number in reached if number not in known]

    def __len__(self) -> int:
        return len(self._order)

    @overload
    def __getitem__(self, place: int) -> Candidate: ...
    @overload
    def __getitem__(self, place: slice) -> list[Candidate]: ...
    def __getitem__(self, place: int | slice) -> Candidate | list[Candidate]:
        if isinstance(place, slice):
            return [self._at(position) for position in self._order[place]]
        return self._at(self._order[place])

    def _at(self, position: int) -> Candidate:
        results = self._results
        similarity, lexical_rank = results.similarities[position], results.lexical_ranks[position]
        lexical_score = results.lexical_scores[position]
        number = results.numbers[position]
        reached = self._reached.get(number) if self._reached else None
        return Candidate(
            number=number,
            fused_score=self._fused[position],
            similarity=None if math.isnan(similarity) else similarity,
            dense_rank=results.dense_ranks[position] or None,
            lexical_score=lexical_score if lexical_rank or lexical_score > 0 else None,
            lexical_rank=lexical_rank or None,
            graph_score=reached.score if reached else None,
            tell_graph_path=reached.tell_path if reached else None,
        )


def break_ties(ranked: Ranked, name_of: NameOf) -> Ranked:
    """Order equal scores by chunk id."""
    if not _has_ties(ranked.scores):
        return ranked
    order = _untied(range(len(ranked.scores)), ranked.numbers, ranked.scores, name_of)
    return Ranked([ranked.numbers[place] for place in order], [ranked.scores[place] for place in order])


def _by_score(numbers: Numbers, scores: Floats, name_of: NameOf) -> list[int]:
    """Return the positions, highest score first. Chunk ids are looked up only among equal scores."""
    order = sorted(range(len(scores)), key=scores.__getitem__, reverse=True)
    return _untied(order, numbers, scores, name_of) if _has_ties(scores) else order


def _untied(order: Sequence[int], numbers: Numbers, scores: Floats, name_of: NameOf) -> list[int]:
    """Return the positions in the order of their scores, with equal scores ordered by chunk id."""
    groups = [list(run) for _, run in groupby(order, key=scores.__getitem__)]
    return [
        place
        for group in groups
        for place in (sorted(group, key=lambda one: name_of(numbers[one])) if len(group) > 1 else group)
    ]


def _has_ties(scores: Floats) -> bool:
    return len(set(scores)) < len(scores)


_FEW_CHUNKS = 2_000
"""Up to this many passing chunks are listed for the term index, which is cheaper than searching deeper."""
_MOST_KEPT = 16
"""Number of searches whose candidates are kept: an equal one comes within milliseconds, or never."""


@dataclass(frozen=True, slots=True, eq=False)
class Search:
    """A question, and the rows of one view to search: those in `masks` (None for all)."""

    text: str
    vector: Vectors | None
    strategy: Strategy
    masks: Masks
    is_filtered: bool
    lexical_weight: float | None = None
    """The question's own weight of BM25; None for that of the settings."""

    def weighed(self, settings: QuerySettings) -> QuerySettings:
        """Return the settings with the question's own weight."""
        own = self.lexical_weight
        return settings if own is None else settings.model_copy(update={"lexical_weight": own})


def retrieve_candidates(view: View, search: Search, depth: int, settings: QuerySettings) -> RankedCandidates:
    """Retrieve `depth` candidates by each retriever, fuse them, and return them best first.

    A filter costs no results: the dense retriever scans only rows that pass, and BM25 either searches only those (when
    they are few) or searches deeper until it has enough or no more exist.
    """
    lexical = dense = NOTHING_FOUND
    if search.strategy is not Strategy.VECTOR:
        lexical = break_ties(Ranked.of(retrieve_by_terms(view, search, depth, USUAL_BOOSTS)), view.chunk_id)
    if search.strategy is not Strategy.BM25 and search.vector is not None:
        dense = break_ties(view.nearest(search.vector, depth, search.masks), view.chunk_id)
    numbers = list_candidates(dense, lexical)
    by_words_alone = numbers[len(dense.numbers) :]
    cosines = [math.nan] * len(by_words_alone)
    if search.vector is not None:
        cosines = view.similarities(search.vector, by_words_alone)
    is_mixed = search.strategy in (Strategy.HYBRID, Strategy.HYBRID_GRAPH)
    scores = view.terms.score(search.text, USUAL_BOOSTS, numbers) if is_mixed else None
    results = combine_results(dense, lexical, cosines, scores)
    return RankedCandidates(results, fuse_scores(results, search.strategy, search.weighed(settings)), view.chunk_id)


class LatestCandidates:
    """The candidates of a reader's latest searches: the gate and the answer search alike. Safe for threads.

    Only an equal search gets them: the same text, vector, strategy, weight and depth, without a filter, from the same
    view. They are given out once; later searches displace those that nobody fetches.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[object, ...], tuple[View, RankedCandidates]] = OrderedDict()
        self._lock = threading.Lock()

    def keep(self, view: View, search: Search, depth: int, candidates: RankedCandidates) -> None:
        """Keep the candidates that an unfiltered search retrieved from `view`."""
        if search.is_filtered:
            return
        with self._lock:
            self._kept[_asked(search, depth)] = view, candidates
            while len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)

    def take(self, view: View, search: Search, depth: int) -> RankedCandidates | None:
        """Return and forget the candidates of an equal search; None where none are kept for it."""
        with self._lock:
            kept = None if search.is_filtered else self._kept.pop(_asked(search, depth), None)
        return kept[1] if kept and kept[0] is view else None

    def clear(self) -> None:
        """Forget everything, and so release the views."""
        with self._lock:
            self._kept.clear()


def _asked(search: Search, depth: int) -> tuple[object, ...]:
    vector = None if search.vector is None else search.vector.tobytes()
    return search.text, search.strategy, search.lexical_weight, depth, vector


def retrieve_by_terms(view: View, search: Search, limit: int, boosts: Boosts) -> list[Hit]:
    """Retrieve the best `limit` chunks by BM25 among the rows that pass."""
    if not search.is_filtered:
        return view.terms.search(search.text, boosts, limit)
    passing = list_passing_numbers(view, search.masks)
    if len(passing) <= _FEW_CHUNKS:
        return view.terms.search(search.text, boosts, limit, only=passing.tolist()) if len(passing) else []
    depth = limit * max(2, round(1.5 * view.chunk_count / len(passing)))
    while True:
        hits = view.terms.search(search.text, boosts, depth)
        numbers = np.array([number for number, _ in hits], dtype=np.uint64)
        passed = np.nonzero(np.isin(numbers, passing))[0][:limit].tolist()
        if len(passed) == limit or len(hits) < depth:
            return [hits[position] for position in passed]
        depth *= 4


def list_passing_numbers(view: View, masks: Masks) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """Return the numbers of the chunks that pass, ascending."""
    parts = zip(view.parts, masks, strict=True)
    chosen = [part.segment.numbers if mask is None else part.segment.numbers[mask] for part, mask in parts]
    return np.concatenate(chosen) if chosen else np.empty(0, dtype=np.uint64)
