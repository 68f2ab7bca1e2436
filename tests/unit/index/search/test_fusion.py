"""Fusion: small lists whose order can be worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from contracts.retrieval import Strategy
from index.generations.ranked import NOTHING_FOUND, Ranked
from index.search.fusion import (
    FusionInput,
    RankedCandidates,
    break_ties,
    combine_results,
    fuse_scores,
    lexical_weight,
    reciprocal_ranks,
    standardise,
    weighted_sum,
)
from index.settings import QuerySettings

DENSE = Ranked.of([(1, 0.9), (2, 0.8), (4, 0.1)])
LEXICAL = Ranked.of([(3, 12.0), (1, 6.0)])


def _cosines(numbers):
    return [{3: 0.4}[number] for number in numbers]


@pytest.fixture
def pool() -> FusionInput:
    return combine_results(DENSE, LEXICAL, _cosines)


def _by_number(pool: FusionInput, scores) -> dict[int, float]:
    return dict(zip(pool.numbers, scores, strict=True))


def test_the_pool_holds_each_candidate_once_with_what_each_arm_said(pool: FusionInput) -> None:
    first, *_, last = RankedCandidates(pool, reciprocal_ranks(pool, 60), str)
    assert (first.number, first.dense_rank, first.lexical_rank, first.lexical_score) == (1, 1, 2, 6.0)
    assert (last.number, last.dense_rank, last.lexical_rank, last.lexical_score) == (4, 3, None, None)
    assert _by_number(pool, pool.similarities)[3] == 0.4


def test_reciprocal_ranks_add_up_over_the_arms(pool: FusionInput) -> None:
    fused = _by_number(pool, reciprocal_ranks(pool, 60))
    assert fused[1] == pytest.approx(1 / 61 + 1 / 62)
    assert fused[2] == pytest.approx(1 / 62)
    assert fused[3] == pytest.approx(1 / 61)


def test_the_weighted_mix_leans_to_the_heavier_arm(pool: FusionInput) -> None:
    dense_only = _by_number(pool, weighted_sum(pool, 0.0, 1.0, 50))
    lexical_only = _by_number(pool, weighted_sum(pool, 1.0, 0.0, 50))
    assert max(dense_only, key=dense_only.__getitem__) == 1
    assert max(lexical_only, key=lexical_only.__getitem__) == 3
    assert lexical_only[2] == lexical_only[4] == min(lexical_only.values())


def test_scores_that_do_not_differ_say_nothing() -> None:
    assert standardise([4.0, 4.0]) == (4.0, 0.0)
    assert standardise([]) == (0.0, 0.0)


def test_a_unit_is_so_many_standard_deviations() -> None:
    assert standardise([1.0, 3.0, 5.0]) == (3.0, pytest.approx(1 / (8 / 3) ** 0.5))


def test_words_that_tell_nobody_apart_weigh_nothing_and_a_winner_weighs_much() -> None:
    flat = combine_results(NOTHING_FOUND, Ranked.of([(number, 5.0) for number in range(12)]), None, best_possible=10.0)
    winner = combine_results(
        NOTHING_FOUND, Ranked.of([(0, 9.0), *((number, 1.0) for number in range(1, 12))]), None, best_possible=10.0
    )
    assert lexical_weight(flat, 2.65) == 0.0
    assert lexical_weight(winner, 2.65) == pytest.approx(0.9)
    assert lexical_weight(combine_results(DENSE, NOTHING_FOUND, None), 2.65) == 0.0


def test_the_less_of_the_question_is_matched_the_less_the_words_weigh() -> None:
    hits = Ranked.of([(0, 4.0), *((number, 2.0) for number in range(1, 12))])
    covered, barely = (combine_results(NOTHING_FOUND, hits, None, best) for best in (5.0, 40.0))
    assert lexical_weight(covered, 2.65) == pytest.approx(2.65 * 0.8 * 0.25)
    assert lexical_weight(barely, 2.65) == pytest.approx(2.65 * 0.1 * 0.25)


@pytest.mark.parametrize("fusion", ["adaptive", "weighted"])
def test_asking_for_more_changes_nothing_in_the_order_of_the_first(fusion: str) -> None:
    random = np.random.default_rng(2)
    dense = Ranked(random.permutation(400).tolist(), np.sort(random.random(400))[::-1].tolist())
    lexical = Ranked(random.permutation(400).tolist(), np.sort(20 * random.random(400))[::-1].tolist())
    cosines = dict(zip(dense.numbers, dense.scores, strict=True))
    settings = QuerySettings.model_validate({"fusion": fusion})

    def best(depth: int) -> list[int]:
        pool = combine_results(
            Ranked(dense.numbers[:depth], dense.scores[:depth]),
            Ranked(lexical.numbers[:depth], lexical.scores[:depth]),
            lambda numbers: [cosines[number] for number in numbers],
        )
        found = RankedCandidates(pool, fuse_scores(pool, Strategy.HYBRID, settings), str)
        first = set(dense.numbers[:50]) | set(lexical.numbers[:50])
        return [candidate.number for candidate in found if candidate.number in first][:20]

    assert best(50) == best(200) == best(400)


def test_equal_scores_are_ordered_by_name() -> None:
    names = {1: "c", 2: "a", 3: "b"}
    found = break_ties(Ranked.of([(3, 0.7), (1, 0.5), (2, 0.5)]), names.__getitem__)
    assert found.numbers == [3, 2, 1]


def test_an_arm_alone_is_ordered_by_its_own_scores() -> None:
    settings = QuerySettings()
    lexical = combine_results(NOTHING_FOUND, LEXICAL, None)
    assert [one.number for one in RankedCandidates(lexical, fuse_scores(lexical, Strategy.BM25, settings), str)] == [
        3,
        1,
    ]
    dense = combine_results(DENSE, NOTHING_FOUND, _cosines)
    assert [one.number for one in RankedCandidates(dense, fuse_scores(dense, Strategy.VECTOR, settings), str)] == [
        1,
        2,
        4,
    ]
