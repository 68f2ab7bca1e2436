"""Who visits the console."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from starlette.testclient import TestClient

from sluice.ledger.ledger import Ledger
from sluice.workers.service.callers import ApiKeys
from tests.support.console_visitor import Visitor


@pytest.fixture
def browser(serve: Callable[..., TestClient]) -> TestClient:
    """A client that keeps the cookies of a session."""
    http = serve()
    http.base_url = "https://127.0.0.1"
    return http


@pytest.fixture
def visitor(browser: TestClient) -> Visitor:
    """Who sits at the machine: no key was made."""
    return Visitor(browser)


@pytest.fixture
def ledger(browser: TestClient) -> Ledger:
    opened: Ledger = browser.app.state.instance.context.ledger  # type: ignore[attr-defined]
    return opened


@pytest.fixture
def signed(visitor: Visitor) -> Callable[..., Visitor]:
    """Makes a key, and signs in with it."""

    def sign_in(role: str, *corpora: str) -> Visitor:
        keys: ApiKeys = visitor.http.app.state.instance.keys  # type: ignore[attr-defined]
        _, key = keys.create(role, role, corpora)  # type: ignore[arg-type]
        visitor.http.cookies.clear()
        return Visitor(visitor.http, key)

    return sign_in
