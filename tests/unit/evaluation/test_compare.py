"""Comparisons: what counts as a drop, and what may be compared at all."""

from __future__ import annotations

import pytest

from sluice.contracts.errors import Conflict
from sluice.contracts.retrieval import Strategy
from sluice.evaluation.retrieval.report import Change, Comparison, compare
from sluice.evaluation.retrieval.tables import comparison_table, write_verdict
from tests.support.evaluation_samples import report


def change(comparison: Comparison, measure: str) -> Change:
    return next(one for one in comparison.changes if one.measure == measure)


def test_equal_reports_differ_in_nothing() -> None:
    found = compare(report([1, 2, None]), report([1, 2, None]))
    assert found.drops == ()
    assert {(one.difference, one.p, one.wins, one.losses, one.ties) for one in found.changes} == {(0, 1.0, 0, 0, 3)}
    assert "none of nDCG@10, MRR@10, recall@10 dropped" in write_verdict(found)


def test_wins_losses_and_ties_are_counted_by_question() -> None:
    found = change(compare(report([2, 1, 1, 1]), report([1, 2, 1, None])), "MRR@10")
    assert (found.wins, found.losses, found.ties) == (1, 2, 1)
    assert found.difference == pytest.approx((1 + 0.5 + 1 + 0) / 4 - (0.5 + 3) / 4)


def test_a_drop_of_more_than_a_twentieth_is_one_and_of_less_is_none() -> None:
    before = report([1] * 100)
    six_lost, four_lost = report([1] * 94 + [None] * 6), report([1] * 96 + [None] * 4)
    assert compare(before, report([1] * 95 + [None] * 5)).drops == ()
    assert {drop.measure for drop in compare(before, six_lost).drops} == {"nDCG@10", "MRR@10", "recall@10"}
    assert compare(before, four_lost).drops == ()
    assert compare(before, six_lost, max_drop=0.1).drops == ()
    assert len(compare(before, four_lost, max_drop=0.0).drops) == 3
    assert "hybrid nDCG@10 1.0000 → 0.9400" in write_verdict(compare(before, six_lost))


def test_a_gain_is_no_drop_and_a_clear_one_no_chance() -> None:
    found = compare(report([5] * 40), report([1] * 40))
    assert found.drops == ()
    assert change(found, "MRR@10").p < 0.001
    assert change(found, "MRR@10").relative == pytest.approx(4.0)


def test_from_nothing_there_is_no_relative_difference() -> None:
    found = compare(report([None, None]), report([1, None]))
    assert change(found, "nDCG@10").relative is None
    assert "–" in comparison_table(found).rows[0]


def test_reports_of_different_questions_are_refused() -> None:
    with pytest.raises(Conflict, match="different questions"):
        compare(report([1, 1]), report([1, 1, 1]))


def test_only_strategies_that_both_have_are_compared_and_the_others_named() -> None:
    found = compare(report([1], Strategy.BM25, Strategy.HYBRID), report([1], Strategy.HYBRID))
    assert {one.strategy for one in found.changes} == {Strategy.HYBRID}
    assert found.only_in_one == (Strategy.BM25,)
    assert "only in one of the reports: bm25" in write_verdict(found)
    with pytest.raises(Conflict, match="no strategy in common"):
        compare(report([1], Strategy.BM25), report([1], Strategy.HYBRID))


def test_a_report_whose_values_were_taken_out_is_refused() -> None:
    whole = report([1, 1])
    part = whole.strategies[Strategy.HYBRID]
    values = {name: {"q0": 1.0} for name in part.values}
    other = whole.model_copy(update={"strategies": {Strategy.HYBRID: part.model_copy(update={"values": values})}})
    with pytest.raises(Conflict, match="values of different questions"):
        compare(whole, other)
