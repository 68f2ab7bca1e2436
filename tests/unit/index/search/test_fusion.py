"""Fusion: small lists whose order can be worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.contracts.retrieval import Strategy
from sluice.index.generations.view import NOTHING_FOUND, Ranked
from sluice.index.search.fusion import (
    FusionInput,
    RankedCandidates,
    add_weighted_scores,
    break_ties,
    combine_results,
    fuse_scores,
    list_candidates,
)
from sluice.index.settings import QuerySettings

DENSE = Ranked.of([(1, 0.9), (2, 0.8), (4, 0.1)])
LEXICAL = Ranked.of([(3, 12.0), (1, 6.0)])
SCORES = [6.5, 2.0, 0.0, 12.5]
"""BM25 of 1, 2, 4 and 3 with function words."""
SETTINGS = QuerySettings()


@pytest.fixture
def pool() -> FusionInput:
    return combine_results(DENSE, LEXICAL, [0.4], SCORES)


def _pool(scores: list[tuple[float, float]]) -> FusionInput:
    """Candidates of these cosines and BM25 scores, as if both retrievers had found them all."""
    count = len(scores)
    return FusionInput(
        numbers=list(range(count)),
        similarities=[cosine for cosine, _ in scores],
        dense_ranks=[1] * count,
        lexical_scores=[score for _, score in scores],
        lexical_ranks=[1] * count,
    )


def _order(pool: FusionInput, strategy: Strategy = Strategy.HYBRID, settings: QuerySettings = SETTINGS) -> list[int]:
    return [one.number for one in RankedCandidates(pool, fuse_scores(pool, strategy, settings), str)]


def test_the_pool_holds_each_candidate_once_with_both_scores_and_the_ranks_that_it_has(pool: FusionInput) -> None:
    told = {
        one.number: (one.similarity, one.dense_rank, one.lexical_score, one.lexical_rank)
        for one in RankedCandidates(pool, add_weighted_scores(pool, 0.01), str)
    }
    assert told == {
        1: (0.9, 1, 6.5, 2),
        2: (0.8, 2, 2.0, None),  # has a word of the question, but is not among the first by words
        3: (0.4, None, 12.5, 1),
        4: (0.1, 3, None, None),
    }


def test_the_weighted_sum_is_the_signed_square_of_the_cosine_and_the_weight_times_bm25(pool: FusionInput) -> None:
    assert dict(zip(pool.numbers, add_weighted_scores(pool, 0.01), strict=True)) == {
        1: pytest.approx(0.81 + 0.065),
        2: pytest.approx(0.64 + 0.02),
        3: pytest.approx(0.16 + 0.125),
        4: pytest.approx(0.01),
    }
    assert add_weighted_scores(_pool([(-0.5, 0.0), (0.0, 0.0), (0.5, 0.0)]), 0.01) == [-0.25, 0.0, 0.25]


def test_the_weight_decides_between_what_is_near_and_what_has_the_words(pool: FusionInput) -> None:
    by_weight = {weight: _order(pool, settings=QuerySettings(lexical_weight=weight)) for weight in (0.0, 0.012, 1.0)}
    assert by_weight == {0.0: [1, 2, 3, 4], 0.012: [1, 2, 3, 4], 1.0: [3, 1, 2, 4]}
    assert _order(pool, settings=QuerySettings(lexical_weight=0.06))[:2] == [1, 3]


def test_a_chunk_without_a_vector_is_ordered_by_its_words() -> None:
    pool = combine_results(NOTHING_FOUND, LEXICAL, [math.nan] * 2, None)
    found = RankedCandidates(pool, fuse_scores(pool, Strategy.HYBRID, SETTINGS), str)
    assert [(one.number, one.similarity) for one in found] == [(3, None), (1, None)]


def test_a_question_without_a_word_of_the_corpus_is_ordered_by_vectors() -> None:
    assert _order(combine_results(DENSE, NOTHING_FOUND, [], None)) == [1, 2, 4]


def test_nothing_found_is_nothing_fused() -> None:
    assert _order(combine_results(NOTHING_FOUND, NOTHING_FOUND, [], [])) == []


Scores = st.tuples(st.floats(-1, 1), st.floats(0, 80))


@pytest.mark.parametrize("raised", [0, 1], ids=["cosine", "bm25"])
@given(scores=st.lists(Scores, min_size=2, max_size=8), by=st.floats(0, 1))
def test_a_higher_score_of_either_retriever_never_lowers_a_candidate(raised: int, scores, by: float) -> None:
    before = add_weighted_scores(_pool(scores), SETTINGS.lexical_weight)
    first = list(scores[0])
    first[raised] += by
    after = add_weighted_scores(_pool([(first[0], first[1]), *scores[1:]]), SETTINGS.lexical_weight)
    assert after[0] >= before[0]
    assert after[1:] == before[1:]


def test_asking_for_more_changes_nothing_in_the_order_of_the_first() -> None:
    random = np.random.default_rng(2)
    cosines, scores = random.random(400), 20 * random.random(400)
    near, worded = np.argsort(-cosines), np.argsort(-scores)

    def fused(depth: int) -> dict[int, float]:
        dense = Ranked(near[:depth].tolist(), cosines[near[:depth]].tolist())
        lexical = Ranked(worded[:depth].tolist(), scores[worded[:depth]].tolist())
        numbers = list_candidates(dense, lexical)
        pool = combine_results(dense, lexical, cosines[numbers[depth:]].tolist(), scores[numbers].tolist())
        return {one.number: one.fused_score for one in RankedCandidates(pool, add_weighted_scores(pool, 0.012), str)}

    shallow, deep = fused(50), fused(400)
    assert shallow.items() <= deep.items()
    assert len(deep) == 400


def test_equal_scores_are_ordered_by_name() -> None:
    names = {1: "c", 2: "a", 3: "b"}
    found = break_ties(Ranked.of([(3, 0.7), (1, 0.5), (2, 0.5)]), names.__getitem__)
    assert found.numbers == [3, 2, 1]
    alike = _pool([(0.5, 3.0)] * 3)
    ordered = RankedCandidates(alike, add_weighted_scores(alike, 0.012), {0: "b", 1: "c", 2: "a"}.__getitem__)
    assert [one.number for one in ordered] == [2, 0, 1]


def test_a_retriever_alone_is_ordered_by_its_own_scores() -> None:
    lexical = combine_results(NOTHING_FOUND, LEXICAL, [math.nan] * 2, None)
    assert _order(lexical, Strategy.BM25) == [3, 1]
    dense = combine_results(DENSE, NOTHING_FOUND, [], None)
    assert _order(dense, Strategy.VECTOR) == [1, 2, 4]
