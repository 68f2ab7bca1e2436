"""A database that stays locked is said to be unavailable, to all that wait for it and in the same time."""

from __future__ import annotations

import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sluice.contracts.errors import Unavailable
from sluice.ledger import database
from sluice.ledger.ledger import Ledger
from tests.support.postgresql import new_database


def test_writers_behind_a_foreign_lock_give_up_together_and_not_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "BUSY_TIMEOUT_SECONDS", 0.5)
    with Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}") as ledger:
        other = sqlite3.connect(tmp_path / "ledger.sqlite", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")

        def fails(_number: int) -> float:
            started = time.monotonic()
            with pytest.raises(Unavailable):
                ledger.lease("any", "me", 1.0)
            return time.monotonic() - started

        with ThreadPoolExecutor(12) as writers:
            assert max(writers.map(fails, range(12))) < 5  # one after the other they take six
        other.close()
        assert ledger.lease("any", "me", 1.0)


@pytest.mark.postgres
def test_a_servers_time_counts_and_not_this_machines(postgresql_cluster: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine whose clock is an hour fast writes the same times as every other one."""
    real = time.time
    monkeypatch.setattr("sluice.ledger.database.time.time", lambda: real() + 3_600.0)
    with Ledger(new_database(postgresql_cluster)) as ledger:
        assert abs(ledger.clock() - real()) < 1.0
