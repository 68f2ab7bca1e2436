"""Intervals hold what they promise: the true figure, in 95 of 100 samples."""

from __future__ import annotations

import numpy as np
import pytest

from sluice.evaluation.run_totals import Quantiles, mean_interval, ratio_interval, wilson_interval


def test_wilson_gives_the_figures_of_the_literature() -> None:
    found = wilson_interval(8, 10)  # Wilson 1927 by Newcombe 1998's method 3
    assert found is not None
    assert (found.low, found.high) == (pytest.approx(0.4902, abs=1e-4), pytest.approx(0.9433, abs=1e-4))


def test_nothing_has_no_interval() -> None:
    assert wilson_interval(0, 0) is None
    assert mean_interval(0, 0, 0) is None
    assert ratio_interval(1, 1, 0, 0, 0, 5) is None


def test_the_interval_of_a_share_holds_the_true_share() -> None:
    generator = np.random.default_rng(7)
    drawn = generator.binomial(50, 0.72, size=4_000)
    found = [wilson_interval(float(total), 50) for total in drawn]
    held = sum(one is not None and one.low <= 0.72 <= one.high for one in found)
    assert held / len(found) == pytest.approx(0.95, abs=0.02)


def test_the_interval_of_a_ratio_holds_the_true_ratio() -> None:
    generator = np.random.default_rng(7)
    held = 0
    for _ in range(1_000):
        success = (generator.random(200) < 0.7).astype(float)
        usd = generator.exponential(0.02, 200) * (2 - success)
        found = ratio_interval(
            usd.sum(), (usd**2).sum(), success.sum(), success.sum(), float((usd * success).sum()), 200
        )
        assert found is not None
        held += found.low <= 0.02 * 1.3 / 0.7 <= found.high
    assert held / 1_000 == pytest.approx(0.95, abs=0.03)


@pytest.mark.parametrize("share", [0.5, 0.95, 0.99])
def test_a_quantile_differs_by_at_most_one_percent_however_the_sketch_was_filled(share: float) -> None:
    values = np.random.default_rng(7).lognormal(6, 2, 20_000)
    whole, half = Quantiles(), Quantiles()
    for number, value in enumerate(values):
        (whole if number % 2 else half).add(float(value))
    whole.merge(half)
    true = float(np.sort(values)[int(np.ceil(share * len(values))) - 1])
    assert whole.quantile(share) == pytest.approx(true, rel=0.0101)


def test_a_sketch_is_bounded_for_whatever_it_is_given() -> None:
    sketch = Quantiles()
    for exponent in range(-300, 300):
        sketch.add(10.0**exponent)
        sketch.add(0.0)
    assert sketch.count == 1_200
    assert sketch.size < 1_600
