"""The short forms: a backup and a restoration are killed at some points, and a few times at any moment.

The whole is `python -m tests.chaos.backup`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.family import short_form

pytestmark = pytest.mark.timeout(600)


@pytest.mark.smoke
def test_a_backup_or_restoration_killed_at_any_point_is_whole_or_none_and_the_next_one_succeeds(tmp_path: Path) -> None:
    assert short_form("backup", "points", tmp_path)["points"] > 3


def test_a_backup_or_restoration_killed_at_any_moment_is_whole_or_none(tmp_path: Path) -> None:
    assert short_form("backup", "kills", tmp_path)["wrong"] == 0
