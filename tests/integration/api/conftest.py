"""The HTTP interface of an instance without workers, in this process."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import structlog
from starlette.testclient import TestClient

from sluice.api.app import make_api
from sluice.ledger.ledger import Ledger
from tests.support.valkey import Valkey


@pytest.fixture
def own_logging() -> Iterator[None]:
    """The logging set-up as it was before the test: the interface makes its own."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(False)
    structlog.reset_defaults()


@pytest.fixture
def serve(valkey: Valkey, own_logging: None) -> Iterator[Callable[..., TestClient]]:
    """Serves the interface with these settings besides."""
    with ExitStack() as opened:

        def make(**settings: Any) -> TestClient:
            api = make_api(valkey.settings.model_copy(update=settings))
            return opened.enter_context(TestClient(api, base_url="http://127.0.0.1"))

        yield make


@pytest.fixture
def http(serve: Callable[..., TestClient]) -> TestClient:
    return serve()


@pytest.fixture
def ledger(http: TestClient) -> Ledger:
    opened: Ledger = http.app.state.instance.context.ledger  # type: ignore[attr-defined]
    return opened
