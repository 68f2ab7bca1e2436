"""The ceiling that is used up most decides; what lies between the two shares changes nothing."""

from __future__ import annotations

import pytest

from sluice.evaluation.defence import judge_cost


@pytest.mark.parametrize(
    ("used", "verdict"),
    [
        ({}, "void"),
        ({"budget.day_usd": 0.1, "budget.day_pages": 0.95}, "bad"),
        ({"budget.day_usd": 0.9, "budget.day_pages": 0.2}, "neither"),
        ({"budget.day_usd": 0.79}, "good"),
    ],
)
def test_the_fullest_ceiling_decides(used: dict[str, float], verdict: str) -> None:
    assert judge_cost(used).verdict == verdict


def test_it_names_the_setting_to_raise() -> None:
    assert judge_cost({"budget.day_usd": 0.1, "budget.day_pages": 0.97}).why == "97% of budget.day_pages is used"
