"""The measures of a gate: equal to their plain forms, and with intervals of whole questions."""

from __future__ import annotations

import numpy as np
import pytest

from sluice.evaluation.learned_gate import Resamples, area, calibration_error, confuse, count_said, f1

MISSING = np.array([True, True, False, False])
ONES = np.ones(4)


def test_f1_weighs_its_cases() -> None:
    goes = np.array([True, False, True, False])
    assert f1(MISSING, goes, ONES) == pytest.approx(0.5)
    assert f1(MISSING, goes, np.array([3.0, 1.0, 1.0, 1.0])) == pytest.approx(0.75)
    assert f1(MISSING, np.zeros(4, dtype=bool), ONES) == 0.0


def test_the_area_counts_a_tie_half() -> None:
    assert area(MISSING, np.array([0.9, 0.8, 0.2, 0.1]), ONES) == 1.0
    assert area(MISSING, np.array([0.5, 0.5, 0.5, 0.5]), ONES) == 0.5


def test_probabilities_that_are_right_have_no_calibration_error() -> None:
    said = np.repeat([0.25, 0.75], 4)
    happened = np.array([True, False, False, False, True, True, True, False])
    assert calibration_error(said, happened, np.ones(8), bins=2) == 0.0
    assert calibration_error(1 - said, happened, np.ones(8), bins=2) == pytest.approx(0.5)


def test_a_gate_that_differs_nowhere_differs_by_nothing_in_every_draw() -> None:
    goes = np.array([True, False, True, False])
    assert Resamples(np.arange(4)).f1_difference(MISSING, goes, goes, ONES) == (0.0, 0.0, 0.0)


def test_the_interval_of_a_difference_holds_it() -> None:
    random = np.random.default_rng(0)
    missing = random.random(600) < 0.5
    good, bad = missing ^ (random.random(600) < 0.1), missing ^ (random.random(600) < 0.3)
    found = Resamples(np.arange(600)).f1_difference(missing, good, bad, np.ones(600))
    assert 0.1 < found.low < found.value < found.high < 0.3


def test_cases_of_one_question_are_drawn_together() -> None:
    goes = np.array([True, True, False, True])
    [draws] = [Resamples(np.zeros(4, dtype=np.int64), draws=50).f1_difference(MISSING, goes, ~goes, ONES)]
    assert draws.low == pytest.approx(draws.value)
    assert draws.high == pytest.approx(draws.value)


def test_a_confusion_table_splits_at_its_thresholds_and_costs_what_was_stated() -> None:
    said = count_said([(0.1, False, 2.0), (0.4, True, 1.0), (0.9, True, 4.0), (0.9, False, 1.0)])
    found = confuse(said, search_below=0.5, full_loop_below=0.2)
    assert (found.missing_full_loop, found.covered_search, found.covered_retrieve) == (0.25, 0.125, 0.5)
    assert found.missing_retrieve == 0.125
    assert found.cost(outside=1.0, full_loop=4.0, miss=2.0) == pytest.approx(0.375)


def test_no_case_gives_no_share() -> None:
    assert confuse([], 0.5, 0.2).cost(1.0, 4.0, 1.0) == 0.0
