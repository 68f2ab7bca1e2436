"""Tests that hold at every look: the ratio and the interval say the same, and runs of one session count as one."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sluice.evaluation.rollout.arm_figures import (
    Moments,
    confidence_sequence,
    equal_rates_p,
    half_width,
    sample_ratio_p,
)


def probability_ratio(difference: float, variance: float, scale: float) -> float:
    """The mixture ratio for a difference that is not 0, against 0."""
    wide = variance + scale**2
    return math.sqrt(variance / wide) * math.exp(scale**2 * difference**2 / (2 * variance * wide))


@pytest.mark.parametrize("variance", [1e-5, 1e-3, 0.1])
@pytest.mark.parametrize("scale", [0.01, 0.05, 1.0])
def test_the_interval_ends_where_the_ratio_reaches_one_over_alpha(variance: float, scale: float) -> None:
    half = half_width(variance, scale, 0.05)
    assert probability_ratio(half, variance, scale) == pytest.approx(20)


def test_the_half_width_is_that_of_the_published_confidence_sequence() -> None:
    sigma, t, rho = 0.4, 1_000, 0.07
    published = sigma * math.sqrt(2 * (t * rho**2 + 1) / (t**2 * rho**2) * math.log(math.sqrt(t * rho**2 + 1) / 0.05))
    assert half_width(sigma**2 / t, sigma * rho, 0.05) == pytest.approx(published)


def test_a_mean_without_a_difference_leaves_its_interval_at_hardly_any_look() -> None:
    generator = np.random.default_rng(17)
    left = 0
    for _ in range(400):
        sums, counts = np.cumsum(generator.normal(0, 1, 4_000))[99::50], np.arange(100, 4_001, 50)
        halves = np.array([half_width(1 / count, 0.05, 0.05) for count in counts])
        left += bool(np.any(np.abs(sums / counts) > halves))
    assert left <= 20


def test_moments_add_up_and_give_the_usual_variance_where_each_unit_has_one_value() -> None:
    values = [0.0, 1.0, 1.0, 0.5, 0.25]
    moments = Moments.of([(1, value) for value in values])
    assert moments == Moments.of([(1, 0.0), (1, 1.0)]) + Moments.of([(1, 1.0), (1, 0.5), (1, 0.25), (0, 0.0)])
    assert moments.mean == pytest.approx(np.mean(values))
    assert moments.variance_of_mean == pytest.approx(np.var(values, ddof=1) / 5)


def test_runs_of_one_session_that_go_alike_tell_no_more_than_one_of_them() -> None:
    alone = Moments.of([(1, float(number % 2)) for number in range(100)])
    together = Moments.of([(10, 10.0 * (number % 2)) for number in range(100)])
    assert together.count == 10 * alone.count
    assert together.variance_of_mean == pytest.approx(alone.variance_of_mean)


def test_without_two_units_there_is_no_variance_and_without_variance_the_estimate_is_the_interval() -> None:
    assert Moments().mean is None
    assert Moments.of([(3, 2.0)]).variance_of_mean is None
    interval = confidence_sequence(0.5, 0.0, 0.05, 0.05)
    assert (interval.low, interval.high) == (0.5, 0.5)


def test_unequal_arms_and_unequal_feedback_are_seen() -> None:
    assert sample_ratio_p(0, 0) == 1.0
    assert sample_ratio_p(1_000, 1_010) > 0.5
    assert sample_ratio_p(1_000, 1_200) < 0.001
    assert sample_ratio_p(60, 40) == pytest.approx(0.0455, abs=1e-4)
    assert equal_rates_p((200, 1_000), (205, 1_000)) > 0.5
    assert equal_rates_p((200, 1_000), (300, 1_000)) < 0.001
    assert equal_rates_p((0, 10), (0, 10)) == equal_rates_p((0, 0), (3, 10)) == 1.0
