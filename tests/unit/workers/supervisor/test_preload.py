"""What is imported before processes are forked is there."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from sluice.workers.settings import Settings
from sluice.workers.supervisor.child import _wanted, shared_modules


@pytest.mark.parametrize(
    "module", [*shared_modules(), *_wanted(Settings(crawl={"enabled": True}, search={"enabled": True}))]
)
def test_every_module_that_is_preloaded_exists(module: str) -> None:
    assert find_spec(module) is not None
