"""The short forms: workers of the graph are killed at some points, and a whole instance's pool a few times.

The whole is `python -m tests.chaos.graph`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.family import short_form

pytestmark = pytest.mark.timeout(600)


@pytest.mark.smoke
def test_a_worker_killed_at_any_point_leaves_a_graph_that_ends_up_as_the_rebuilt_one(tmp_path: Path) -> None:
    assert short_form("graph", "points", tmp_path)["points"] > 3


def test_a_pool_that_is_killed_during_ingest_ends_up_with_the_rebuilt_graph(tmp_path: Path) -> None:
    assert short_form("graph", "kills", tmp_path)["kills"] == 4
