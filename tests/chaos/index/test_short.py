"""The short forms: a taste of every harm, and the proof that each check notices a bug that is planted.

The whole is `python -m tests.chaos.index`.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.chaos.index.bugs import BUGS
from tests.chaos.index.run import short_form

pytestmark = pytest.mark.timeout(600)

REACHED = ("publishes", "rebuilds", "rollbacks", "deaths between calls", "deaths in publish", "deaths in append")
"""What a short run of the model must have come by, or it would prove nothing about it."""


def _passed(check: str) -> dict[str, Any]:
    """The figures of a check that passed."""
    result = short_form(check, arguments=["--unplanted"])[check]
    if result["done"].startswith("skipped"):
        pytest.skip(result["done"])
    assert result["problems"] == []
    assert result["passed"]
    figures: dict[str, Any] = result["figures"]
    return figures


def test_no_corrupted_byte_is_served_and_the_writer_heals_what_is_damaged() -> None:
    assert _passed("corruption")["served within (s)"] > 0


def test_damage_to_the_journal_is_reported_and_never_skipped() -> None:
    _passed("journal")


@pytest.mark.smoke
def test_a_writer_killed_at_any_system_call_leaves_a_whole_generation() -> None:
    assert _passed("kills")["kinds of publish"] >= 7


def test_a_power_cut_takes_nothing_that_was_acknowledged() -> None:
    assert _passed("power")["files and names lost"] > 0


def test_a_full_disk_leaves_the_old_generation_and_the_same_writer_resumes() -> None:
    assert _passed("disk")["refused"] > 0


def test_no_order_of_what_can_happen_leaves_anything_but_what_a_dictionary_would_hold() -> None:
    figures = _passed("model")
    assert [what for what in REACHED if not figures.get(what)] == []


@pytest.mark.parametrize("check", BUGS)
def test_each_check_notices_every_bug_that_is_planted_for_it(check: str) -> None:
    result = short_form(check, arguments=["--only-planted"])
    told = next(iter(result.values()))
    if told["done"].startswith("skipped"):
        pytest.skip(told["done"])
    assert told["problems"] == []
