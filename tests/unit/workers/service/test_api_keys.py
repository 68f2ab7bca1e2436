"""API keys as requests are checked by them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledger.ledger import Ledger
from workers.service.api_keys import ApiKeys


def test_keys_that_are_known_are_told_without_the_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The HTTP interface asks in its event loop then, which a ledger that does not answer must never hold up."""
    with Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}") as ledger:
        keys = ApiKeys(ledger)
        assert not keys.are_known()
        _, key = keys.create("agent", "agent", ())
        assert keys.find(key) is not None
        assert keys.are_known()
        monkeypatch.delattr(ledger, "keys")
        assert keys.find(key) is not None
        assert keys.needed(None)
