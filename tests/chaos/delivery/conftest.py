"""What the short forms of the delivery faults work on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.chaos.delivery.site import Site


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    running = Site()
    yield running
    running.stop()
