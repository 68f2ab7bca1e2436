"""The short form: two hundred documents through two machines that burn, are cut off and lose their store.

The whole is `python -m tests.chaos.machines`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.family import short_form
from tests.support.namespaces import require_namespaces

pytestmark = pytest.mark.timeout(600)


def test_two_machines_lose_and_double_nothing_whatever_burns_or_is_cut_off(tmp_path: Path) -> None:
    require_namespaces()
    assert short_form("machines", "many", tmp_path)["documents"] == 198
