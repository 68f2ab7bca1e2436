"""The short forms: a taste of every harm, and the proof that each check notices a bug that is planted.

The whole is `python -m tests.chaos.memory`. Each runs in a process of its own, which forks.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.memory.bugs import BUGS
from tests.support.repository import IMPORT_PATH, REPOSITORY

pytestmark = pytest.mark.timeout(300)


def short_form(name: str, folder: Path, *arguments: str) -> dict[str, Any]:
    """The result of a check's short form; skips where it cannot run."""
    report = folder / "results.json"
    command = [sys.executable, "-m", "tests.chaos.memory", "--short", "--only", name, "--json", str(report)]
    done = subprocess.run(
        [*command, *arguments],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": IMPORT_PATH},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert report.exists(), done.stderr
    result: dict[str, Any] = json.loads(report.read_text())[0]
    if result["done"].startswith("skipped"):
        pytest.skip(result["done"])
    assert result["problems"] == []
    assert result["passed"]
    return result


@pytest.mark.smoke
def test_a_writer_killed_at_any_system_call_leaves_all_of_its_entries_or_none(tmp_path: Path) -> None:
    assert short_form("calls", tmp_path, "--unplanted")["figures"]["kinds of transaction"] == 6


def test_a_power_cut_takes_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    assert short_form("power", tmp_path, "--unplanted")["figures"]["files and names lost"] > 0


def test_a_full_or_failing_disk_is_a_clear_error_and_the_same_journal_goes_on(tmp_path: Path) -> None:
    short_form("disk", tmp_path, "--unplanted")


def test_every_whole_line_of_a_damaged_journal_counts_and_every_other_is_told(tmp_path: Path) -> None:
    assert short_form("damage", tmp_path, "--unplanted")["figures"]["damaged lines"] > 60


@pytest.mark.smoke
def test_writers_of_many_features_that_are_killed_lose_nothing_and_double_nothing(tmp_path: Path) -> None:
    assert short_form("writers", tmp_path, "--unplanted")["figures"]["entries"] > 400


def test_agents_that_are_killed_while_they_record_lose_nothing_and_double_nothing(tmp_path: Path) -> None:
    assert short_form("recorders", tmp_path)["figures"]["entries"] == 400


@pytest.mark.parametrize("check", BUGS)
def test_each_check_notices_every_bug_that_is_planted_for_it(check: str, tmp_path: Path) -> None:
    short_form(check, tmp_path, "--only-planted")
