"""An endpoint that keeps failing is left alone, asked once a pause, and used again as soon as it answers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from sluice.contracts.errors import EmbedderDown, TimedOut, Unavailable
from sluice.ingest.embed.embed import ENDPOINT_RULE, PAUSE_SECONDS, BreakingEmbedder
from sluice.ingest.embed.port import Embedded


class Endpoint:
    """Answers, or fails with what a test says."""

    fingerprint, dimension = "m", 2

    def __init__(self) -> None:
        self.error: Unavailable | None = None
        self.asked = 0

    def embed(self, texts: Sequence[str], required_fingerprint: str | None = None) -> Embedded:
        self.asked += 1
        if self.error is not None:
            raise self.error
        return Embedded(np.ones((len(texts), 2), dtype=np.float32), "m")


class Clock:
    """Time that passes when a test says so."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def endpoint() -> Endpoint:
    return Endpoint()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def embedder(endpoint: Endpoint, clock: Clock) -> BreakingEmbedder:
    return BreakingEmbedder(endpoint, ENDPOINT_RULE, clock=clock)


def test_a_single_failure_is_told_as_it_is_and_leaves_the_endpoint_in_use(
    embedder: BreakingEmbedder, endpoint: Endpoint
) -> None:
    embedder.embed(["a"])
    endpoint.error = TimedOut("too slow")
    with pytest.raises(TimedOut, match="too slow"):
        embedder.embed(["a"])
    assert embedder.failure is None


def test_an_endpoint_that_keeps_failing_is_asked_once_a_pause_until_it_answers(
    embedder: BreakingEmbedder, endpoint: Endpoint, clock: Clock
) -> None:
    endpoint.error = Unavailable("connection refused")
    for _ in range(10):
        with pytest.raises(Unavailable):
            embedder.embed(["a"])
    assert endpoint.asked == ENDPOINT_RULE.least
    assert embedder.failure == "connection refused"
    with pytest.raises(EmbedderDown, match="m is out of reach: connection refused") as down:
        embedder.embed(["a"])
    assert down.value.retry_after_seconds == PAUSE_SECONDS

    clock.now += PAUSE_SECONDS
    with pytest.raises(EmbedderDown):  # asked once more; the pause begins anew
        embedder.embed(["a"])
    assert endpoint.asked == ENDPOINT_RULE.least + 1

    endpoint.error = None
    embedder.probe()
    assert embedder.failure is not None
    clock.now += PAUSE_SECONDS
    embedder.probe()
    assert embedder.failure is None
    assert embedder.embed(["a", "b"]).vectors.shape == (2, 2)


def test_an_endpoint_that_is_well_is_not_probed(embedder: BreakingEmbedder, endpoint: Endpoint) -> None:
    embedder.probe()
    assert endpoint.asked == 0
