"""The short forms: a taste of every harm, and the proof that each check notices a bug that is planted.

The whole is `python -m tests.chaos.index`; the model test's short form is `tests/chaos/index/test_model.py`.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.chaos.index.run import short_form

CHECKS = ("corruption", "journal", "kills", "power", "disk")

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def results() -> dict[str, dict[str, Any]]:
    return short_form(*CHECKS)


def _passed(results: dict[str, dict[str, Any]], name: str) -> dict[str, Any]:
    """The figures of a check that passed, its planted bugs noticed."""
    if results[name]["done"].startswith("skipped"):
        pytest.skip(results[name]["done"])
    for one in (results[name], results[f"{name}, planted bugs"]):
        assert one["problems"] == []
        assert one["passed"]
    figures: dict[str, Any] = results[name]["figures"]
    return figures


def test_no_corrupted_byte_is_served_and_the_writer_heals_what_is_damaged(results: dict[str, dict[str, Any]]) -> None:
    assert _passed(results, "corruption")["served within (s)"] > 0


def test_damage_to_the_journal_is_reported_and_never_skipped(results: dict[str, dict[str, Any]]) -> None:
    _passed(results, "journal")


def test_a_writer_killed_at_any_system_call_leaves_a_whole_generation(results: dict[str, dict[str, Any]]) -> None:
    assert _passed(results, "kills")["kinds of publish"] >= 7


def test_a_power_cut_takes_nothing_that_was_acknowledged(results: dict[str, dict[str, Any]]) -> None:
    assert _passed(results, "power")["files and names lost"] > 0


def test_a_full_disk_leaves_the_old_generation_and_the_same_writer_resumes(results: dict[str, dict[str, Any]]) -> None:
    assert _passed(results, "disk")["refused"] > 0
