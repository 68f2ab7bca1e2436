"""The ledger behind a PgBouncer that gives every transaction another session: what its other tests say holds there too.

Their names are in the modules that are imported; `new_ledger_url` below is what differs.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from sluice.contracts.errors import InvalidSetting, Unavailable
from sluice.contracts.event import Done
from sluice.ledger import database
from sluice.ledger.backup import copy_ledger
from sluice.ledger.database import Database
from sluice.ledger.ledger import Ledger
from sluice.ledger.schema.migrate import schema_version
from sluice.ledger.schema.tables import versions
from tests.support.ledger_story import Story, page
from tests.support.pgbouncer import CONNECTIONS, pooler
from tests.support.postgresql import empty_tables, new_database
from tests.unit.ledger.dead_letters.test_dead_letters import *  # noqa: F403
from tests.unit.ledger.graph.test_store import *  # noqa: F403
from tests.unit.ledger.test_claims import *  # noqa: F403
from tests.unit.ledger.test_fair_queue import *  # noqa: F403
from tests.unit.ledger.test_finish import *  # noqa: F403
from tests.unit.ledger.test_ledger import *  # noqa: F403
from tests.unit.ledger.test_reservations import *  # noqa: F403
from tests.unit.ledger.test_runs import *  # noqa: F403
from tests.unit.ledger.test_settle import *  # noqa: F403

pytestmark = pytest.mark.postgres


@pytest.fixture(scope="module")
def pooled(postgresql_cluster: str) -> Iterator[tuple[str, str]]:
    """The URLs of a ledger on the server itself, and behind the pooler."""
    direct = new_database(postgresql_cluster)
    Ledger(direct).close()
    with pooler(postgresql_cluster) as beginning:
        yield direct, f"{beginning}/{direct.rpartition('/')[2]}"


@pytest.fixture(params=["pooled"])
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def new_ledger_url(pooled: tuple[str, str]) -> str:
    direct, url = pooled
    empty_tables(direct, then=f"INSERT INTO {versions.name} (version) VALUES ({schema_version()})")
    return url


@pytest.fixture
def ledger_url(postgresql_cluster: str, pooled: tuple[str, str]) -> str:
    return f"{pooled[1].rpartition('/')[0]}/{new_database(postgresql_cluster).rpartition('/')[2]}"


def test_more_threads_than_the_pooler_has_sessions_leave_nothing_in_them(story: Story, pooled: tuple[str, str]) -> None:
    events = [event for _ in range(4) for event in story.begins(*map(page, range(10)))]

    def work() -> None:
        with Ledger(story.url, clock=story.clock) as ledger:
            while True:
                claim = ledger.claim_next("crawl", "w1", 60.0)
                if not hasattr(claim, "event"):
                    return
                ledger.settle(claim, Done())

    threads = [threading.Thread(target=work) for _ in range(3 * CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {story.statuses(event) for event in events} == {"settled"}
    with psycopg.connect(story.url.replace("+psycopg", ""), prepare_threshold=None, autocommit=True) as session:
        for _ in range(2 * CONNECTIONS):
            assert session.execute("SELECT count(*) FROM pg_prepared_statements").fetchone() == (0,)
            kept = "SELECT name FROM pg_settings WHERE source = 'session' AND name NOT IN ('application_name')"
            assert session.execute(kept).fetchall() == []
    with psycopg.connect(pooled[0].replace("+psycopg", ""), autocommit=True) as server:
        assert server.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'").fetchone() == (0,)
        named = server.execute("SELECT application_name FROM pg_stat_activity WHERE application_name LIKE 'sluice%'")
        assert named.fetchall() != []


def test_a_backup_goes_to_the_server_itself(story: Story, tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting, match="through a pooler"):
        copy_ledger(story.ledger, tmp_path)


def test_a_thread_waits_for_a_connection_and_then_is_told_why_it_has_none(
    new_ledger_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "BUSY_TIMEOUT_SECONDS", 0.2)
    one = Database(new_ledger_url)
    holding = [one.reading() for _ in range(6)]
    for each in holding:
        each.__enter__()
    with pytest.raises(Unavailable, match=r"all 6 connections of this process were in use for 0.2 s"), one.reading():
        pass
    for each in holding:
        each.__exit__(None, None, None)
    one.close()


def test_the_ledgers_clock_is_the_servers(new_ledger_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = database.time.time
    with monkeypatch.context() as wrong:
        wrong.setattr(database.time, "time", lambda: real() - 3_600)
        one = Database(new_ledger_url)
        with one.reading():
            pass
        assert abs(one.clock() - real()) < 1.0
    one.close()
