"""What holds for every test: where shared fixtures are, which tests are quick, how many examples hypothesis makes up.

`make test` runs what is marked `quick`: `tests/test_walk.py`, `tests/unit` but for its `slow` and `postgres` tests, and
the `smoke` of each family of `tests/chaos`. `make test-all` runs everything.
"""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = (
    "tests.support.egress",
    "tests.support.index_corpus",
    "tests.support.local_model",
    "tests.support.online",
    "tests.support.postgresql",
    "tests.support.rabbitmq",
    "tests.support.small_disk",
    "tests.support.valkey",
    "tests.support.in_process",  # after those that it imports: their assertions are rewritten as they are loaded
    "tests.support.ledger_story",
    "tests.support.old_ledger",
    "tests.support.console",
)

_data_home = TemporaryDirectory(prefix="sluice-tests-data-")
os.environ["XDG_DATA_HOME"] = _data_home.name
"""An instance that this user keeps in `~/.local/share/sluice` is none of the tests', and they leave none there."""

TESTS = Path(__file__).parent
QUICK = (TESTS / "unit", TESTS / "test_walk.py")

for name, examples in {"dev": 25, "ci": 100, "thorough": 1_000}.items():
    settings.register_profile(
        name,
        max_examples=examples,
        deadline=None,  # no test needs a quiet machine
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
        print_blob=True,
    )
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is quick, before `-m` chooses."""
    for item in items:
        if _is_quick(item):
            item.add_marker(pytest.mark.quick)


def _is_quick(item: pytest.Item) -> bool:
    if item.get_closest_marker("smoke"):
        return True
    if item.get_closest_marker("slow") or item.get_closest_marker("postgres"):
        return False
    return any(item.path.is_relative_to(quick) for quick in QUICK)
