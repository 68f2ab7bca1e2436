"""Waiting for what another thread or process does."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE_SECONDS = 90.0
"""Long: what is waited for takes a moment on an idle machine, and a test must not fail because the machine is busy."""


def until(condition: Callable[[], object], seconds: float = PATIENCE_SECONDS) -> None:
    """Return once `condition` holds. Raises `AssertionError` when it does not within `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.02)
