"""The measures of the gate's bench, on numbers that can be counted by hand."""

from __future__ import annotations

import numpy as np
import pytest

from bench.gate.measures import area_under_curve, calibration_error, f1_score, logistic, reliability

TARGETS = np.array([False, False, True, True])
ONES = np.ones(4)


def test_the_area_is_the_share_of_pairs_in_order_and_a_tie_counts_half() -> None:
    assert area_under_curve(TARGETS, np.array([0.1, 0.4, 0.3, 0.9])) == 0.75
    assert area_under_curve(TARGETS, np.array([0.5, 0.5, 0.5, 0.5])) == 0.5


def test_f1_counts_what_scores_at_least_the_threshold() -> None:
    assert f1_score(TARGETS, np.array([0.1, 0.4, 0.4, 0.9]), 0.4) == pytest.approx(0.8)
    assert f1_score(TARGETS, np.zeros(4), 0.4) == 0.0


def test_a_calibrated_prediction_has_no_error_and_a_sure_wrong_one_has_all() -> None:
    happened = TARGETS.astype(float)
    assert calibration_error(happened, happened, ONES, bins=2) == 0.0
    assert calibration_error(1 - happened, happened, ONES, bins=2) == 1.0
    assert calibration_error(np.full(4, 0.5), happened, ONES, bins=1) == 0.0


def test_the_bins_have_equal_weight() -> None:
    rows = reliability(np.array([0.1, 0.2, 0.8, 0.9]), TARGETS.astype(float), np.array([1.0, 1.0, 2.0, 2.0]), bins=3)
    assert rows[2:] == ["| 0.15 | 0.00 |", "| 0.80 | 1.00 |", "| 0.90 | 1.00 |"]


def test_the_logistic_fit_finds_the_odds() -> None:
    inputs = np.array([[0.0]] * 4 + [[1.0]] * 4)
    happened = np.array([True, False, False, False, True, True, True, False])
    bias, slope = logistic(inputs, happened, ridge=1e-6)
    assert 1 / (1 + np.exp(-bias)) == pytest.approx(0.25, abs=1e-3)
    assert 1 / (1 + np.exp(-bias - slope)) == pytest.approx(0.75, abs=1e-3)
