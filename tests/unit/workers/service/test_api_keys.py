"""API keys as requests are checked by them."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from sluice.ledger.ledger import Ledger
from sluice.workers.service.callers import ApiKeys


def test_keys_that_are_known_are_told_without_the_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The HTTP interface asks in its event loop then, which a ledger that does not answer must never hold up."""
    with Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}") as ledger:
        keys = ApiKeys(ledger)
        _, key = keys.create("agent", "agent", ())
        assert not keys.is_known(key)
        assert keys.find(key) is not None
        assert keys.is_known(key)
        assert keys.is_known(None)
        assert not keys.is_known("slk_another")
        monkeypatch.delattr(ledger, "keys")
        assert keys.find(key) is not None
        assert keys.needed(None)


def test_a_key_that_another_process_made_works_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}") as ledger:
        keys, now = ApiKeys(ledger), 1_000.0
        monkeypatch.setattr(time, "monotonic", lambda: now)
        assert not keys.any_active()
        _, key = ApiKeys(ledger).create("agent", "agent", ())
        now += 0.2
        assert not keys.any_active(), "the list is trusted for two seconds"
        assert keys.find(key) is not None


def test_wrong_keys_do_not_make_the_ledger_busy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}") as ledger:
        keys, now, reads = ApiKeys(ledger), 1_000.0, []
        monkeypatch.setattr(time, "monotonic", lambda: now)
        listed = ledger.keys.list
        monkeypatch.setattr(ledger.keys, "list", lambda: reads.append(now) or listed())
        for _ in range(300):
            now += 0.01
            assert keys.find("slk_wrong") is None
        assert len(reads) <= 31
