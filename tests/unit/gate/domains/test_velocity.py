"""Velocity of mentions: spikes raise the feature, more of the same does not."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from sluice.gate.domains import measure_velocity, rate_velocity
from tests.unit.gate.samples import NOW


def rate(*days: float) -> float:
    return rate_velocity(measure_velocity("Acme", [NOW - timedelta(days=day) for day in days], NOW))[0]


def test_eight_times_as_much_as_before_is_a_full_spike() -> None:
    assert rate(*[1] * 16, *[20] * 8) > 0.95


def test_as_much_as_before_is_next_to_nothing_and_less_is_nothing() -> None:
    assert rate(1, 3, 5, 8, 10, 12, 15, 17, 19, 22, 24, 26, 29, 31, 33) < 0.1
    assert rate(1, 3, 5, *range(8, 34)) == 0.0


def test_two_reports_of_one_event_are_no_spike() -> None:
    assert rate(1, 1) == 0.0


def test_what_is_older_than_five_weeks_counts_nowhere() -> None:
    assert measure_velocity("Acme", [NOW - timedelta(days=36)], NOW).earlier_documents == 0


def test_a_question_without_a_brand_is_told_as_such() -> None:
    assert rate_velocity(None) == (0.0, "the question names no brand or company")


@given(st.lists(st.floats(0, 40), max_size=40), st.floats(0, 6.9))
def test_one_more_recent_document_never_lowers_the_feature(days: list[float], new: float) -> None:
    assert 0.0 <= rate(*days) <= rate(*days, new) <= 1.0
