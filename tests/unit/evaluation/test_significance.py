"""Intervals and p-values, against what is known exactly."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from sluice.evaluation.retrieval.measures import bootstrap_interval, randomisation_p


def test_the_interval_of_a_mean_is_that_of_the_normal_distribution_where_that_holds() -> None:
    values = np.random.default_rng(1).normal(0.5, 0.2, size=(2_000, 1))
    low, high = bootstrap_interval(values)
    margin = 1.96 * values.std() / np.sqrt(len(values))
    assert low[0] == pytest.approx(values.mean() - margin, abs=0.1 * margin)
    assert high[0] == pytest.approx(values.mean() + margin, abs=0.1 * margin)


def test_values_that_do_not_differ_have_no_width() -> None:
    low, high = bootstrap_interval(np.full((5, 2), 0.25))
    assert low.tolist() == high.tolist() == [0.25, 0.25]


def test_p_is_that_of_all_permutations() -> None:
    differences = np.array([0.3, -0.1, 0.2, 0.05, 0.4, -0.2, 0.15, 0.0])
    observed = abs(differences.sum())
    signs = np.array(list(itertools.product((-1, 1), repeat=len(differences))))
    exact = np.mean(np.abs(signs @ differences) >= observed - 1e-9)
    assert randomisation_p(differences[:, None])[0] == pytest.approx(exact, abs=0.015)


def test_no_difference_is_certain_chance_and_a_clear_one_hardly_any() -> None:
    p = randomisation_p(np.column_stack([np.zeros(100), np.full(100, 0.1)]))
    assert p[0] == 1.0
    assert p[1] == pytest.approx(1 / 10_001)


def test_p_is_two_sided_and_the_same_every_time() -> None:
    differences = np.random.default_rng(2).normal(0.02, 0.1, size=(60, 1))
    assert randomisation_p(differences).tolist() == randomisation_p(differences).tolist()
    assert randomisation_p(differences)[0] == pytest.approx(randomisation_p(-differences)[0], abs=1e-12)
