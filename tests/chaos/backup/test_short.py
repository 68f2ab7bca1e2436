"""The short forms: a backup and a restoration are killed at some points, and a few times at any moment.

The whole is `python -m tests.chaos.backup`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.repository import IMPORT_PATH, REPOSITORY

pytestmark = pytest.mark.timeout(600)


def short_form(name: str, folder: Path) -> dict[str, int]:
    """The figures of a check's short form, which has passed."""
    report = folder / "results.json"
    done = subprocess.run(
        [sys.executable, "-m", "tests.chaos.backup", "--short", "--only", name, "--json", str(report)],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": IMPORT_PATH},
        capture_output=True,
        text=True,
        timeout=580,
        check=False,
    )
    assert report.exists(), done.stderr
    [result] = json.loads(report.read_text())
    assert result["problems"] == []
    figures: dict[str, int] = result["figures"]
    return figures


@pytest.mark.smoke
def test_a_backup_or_restoration_killed_at_any_point_is_whole_or_none_and_the_next_one_succeeds(tmp_path: Path) -> None:
    assert short_form("points", tmp_path)["points"] > 3


def test_a_backup_or_restoration_killed_at_any_moment_is_whole_or_none(tmp_path: Path) -> None:
    assert short_form("kills", tmp_path)["wrong"] == 0
