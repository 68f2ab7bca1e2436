"""The index against a dictionary: whatever happens, it holds what a dictionary would hold.

The short form; the whole is `python -m tests.chaos.index --only model`.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.chaos.index.run import short_form

pytestmark = pytest.mark.timeout(600)

REACHED = ("publishes", "rebuilds", "rollbacks", "deaths between calls", "deaths in publish", "deaths in append")
"""What a short run must have come by, or it would prove nothing about it."""


@pytest.fixture(scope="module")
def results() -> dict[str, dict[str, Any]]:
    return short_form("model")


def test_no_order_of_what_can_happen_leaves_anything_but_what_a_dictionary_would_hold(
    results: dict[str, dict[str, Any]],
) -> None:
    assert results["model"]["problems"] == []
    assert [what for what in REACHED if not results["model"]["figures"].get(what)] == []


def test_a_planted_bug_is_noticed(results: dict[str, dict[str, Any]]) -> None:
    assert results["model, planted bugs"]["problems"] == []
