"""Fusion: small lists whose order can be worked out by hand."""

from __future__ import annotations

import pytest

from index.fuse import candidates, in_order, reciprocal_ranks, weighted_sum, z_scores

DENSE = [(1, 0.9), (2, 0.8), (3, 0.1)]
LEXICAL = [(3, 12.0), (1, 6.0)]


def test_reciprocal_ranks_add_up_over_the_arms() -> None:
    fused = reciprocal_ranks(DENSE, LEXICAL, k=60)
    assert fused[1] == pytest.approx(1 / 61 + 1 / 62)
    assert fused[2] == pytest.approx(1 / 62)
    assert fused[3] == pytest.approx(1 / 63 + 1 / 61)


def test_the_weighted_mix_leans_to_the_heavier_arm() -> None:
    similarities = dict(DENSE)
    dense_only = weighted_sum(similarities, LEXICAL, alpha=0.0, beta=1.0)
    lexical_only = weighted_sum(similarities, LEXICAL, alpha=1.0, beta=0.0)
    assert max(dense_only, key=dense_only.__getitem__) == 1
    assert max(lexical_only, key=lexical_only.__getitem__) == 3
    assert lexical_only[2] == min(lexical_only.values())


def test_scores_that_do_not_differ_say_nothing() -> None:
    assert z_scores({1: 4.0, 2: 4.0}) == {1: 0.0, 2: 0.0}
    assert z_scores({}) == {}


def test_equal_scores_are_ordered_by_name() -> None:
    names = {1: "c", 2: "a", 3: "b"}
    assert in_order([(1, 0.5), (2, 0.5), (3, 0.7)], names.__getitem__) == [(3, 0.7), (2, 0.5), (1, 0.5)]


def test_a_candidate_keeps_what_each_arm_said() -> None:
    fused = reciprocal_ranks(DENSE, LEXICAL, k=60)
    best, _, last = candidates(fused, DENSE, LEXICAL, dict(DENSE), str)
    assert (best.number, best.dense_rank, best.lexical_rank, best.lexical_score) == (1, 1, 2, 6.0)
    assert (last.number, last.dense_rank, last.lexical_rank, last.lexical_score) == (2, 2, None, None)
