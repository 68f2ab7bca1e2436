"""The short forms: workers of the graph are killed at some points, and a whole instance's pool a few times.

The whole is `python -m tests.chaos.graph`.
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
        [sys.executable, "-m", "tests.chaos.graph", "--short", "--only", name, "--json", str(report)],
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
def test_a_worker_killed_at_any_point_leaves_a_graph_that_ends_up_as_the_rebuilt_one(tmp_path: Path) -> None:
    assert short_form("points", tmp_path)["points"] > 3


def test_a_pool_that_is_killed_during_ingest_ends_up_with_the_rebuilt_graph(tmp_path: Path) -> None:
    assert short_form("kills", tmp_path)["kills"] == 4
