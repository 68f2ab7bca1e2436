"""The measures, against values worked out by hand."""

from __future__ import annotations

import sys
from math import log2

import pytest

from sluice.contracts.errors import InvalidSetting
from sluice.evaluation.retrieval.cases import Case
from sluice.evaluation.retrieval.measures import MEASURES, compute_measures

GRADED = Case(id="graded", query="x", relevant={"best": 2, "good": 1, "bad": 0})
DEEP = Case(id="deep", query="y", relevant={"a b\0#é": 1})
RANKINGS = {"graded": ["bad", "good", "other", "best"], "deep": [*map(str, range(49)), "a b\0#é"]}


def value(measure: str, case: Case) -> float:
    return compute_measures([GRADED, DEEP], RANKINGS)[measure][case.id]


def test_recall_counts_the_relevant_among_the_first() -> None:
    assert [value(f"recall@{k}", GRADED) for k in (1, 5, 10, 100)] == [0.0, 1.0, 1.0, 1.0]
    assert [value(f"recall@{k}", DEEP) for k in (1, 5, 10, 100)] == [0.0, 0.0, 0.0, 1.0]


def test_the_reciprocal_rank_ends_at_ten() -> None:
    assert value("MRR@10", GRADED) == 0.5
    assert value("MRR@10", DEEP) == 0.0


def test_a_hit_is_one_relevant_document_among_ten() -> None:
    assert (value("hit rate@10", GRADED), value("hit rate@10", DEEP)) == (1.0, 0.0)


def test_ndcg_weighs_grades_by_rank() -> None:
    expected = (1 / log2(3) + 2 / log2(5)) / (2 / log2(2) + 1 / log2(3))
    assert value("nDCG@10", GRADED) == pytest.approx(expected)


def test_a_question_that_found_nothing_counts_as_zero() -> None:
    for rankings in ({}, {"graded": RANKINGS["graded"]}):
        values = compute_measures([GRADED, DEEP], rankings)
        assert values.keys() == MEASURES.keys()
        assert all(by_case["deep"] == 0.0 for by_case in values.values())


def test_without_the_library_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ir_measures", None)
    with pytest.raises(InvalidSetting, match=r"pip install 'sluice\[eval\]'"):
        compute_measures([GRADED], RANKINGS)
