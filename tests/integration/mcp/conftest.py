"""An instance with its door, and its ledger beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from sluice.ledger.ledger import Ledger
from sluice.workers.settings import Settings
from tests.support.served import Serve, served
from tests.support.valkey import Valkey


@pytest.fixture
def serve(valkey: Valkey) -> Serve:
    """Serves the interface, its settings changed; yields its address and the ledger."""

    @contextmanager
    def opened(change: Callable[[Settings], Settings] | None = None) -> Iterator[tuple[str, Ledger]]:
        settings = change(valkey.settings) if change else valkey.settings
        with Ledger(settings.ledger_location) as ledger, served(settings) as address:
            yield address, ledger

    return opened
