"""Nothing that a tick, a worker or a page asks of PostgreSQL reads a growing table from end to end."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import psycopg
import pytest

from sluice.contracts.event import Done, Next, Retry
from sluice.ledger import transaction
from sluice.ledger.ledger import Claim, Ledger
from sluice.workers.processes.reconciler import Reconciler
from sluice.workers.settings import DeliverySettings
from tests.support.big_ledger import fill
from tests.support.console_reads import GROWS, OF_OPEN_WORK, READS
from tests.support.ledger_story import Clock, Story, page
from tests.support.postgresql import new_database

pytestmark = pytest.mark.postgres
EVENTS = 20_000
OF_WORK_IN_HAND = (*OF_OPEN_WORK, "events_held", "events_suspect", "runs_answer_due")
NEWEST = "runs_pkey"
"""What PostgreSQL reads backwards for the newest runs of a corpus that has most of them, up to a limit."""
Asked = tuple[str, dict[str, Any]]


@pytest.fixture(scope="module")
def url(postgresql_cluster: str) -> str:
    """A ledger with a history. Its plans do not depend on how long: an index is used wherever there is one."""
    url = new_database(postgresql_cluster)
    fill(url, EVENTS)
    return url


@pytest.fixture
def ledger(url: str) -> Iterator[Ledger]:
    with Ledger(url) as ledger:
        yield ledger


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Asked]:
    """Collects every statement that is run from now on."""
    found: list[Asked] = []

    class Heard(transaction._Compiled):  # noqa: SLF001
        def bind(self, parameters: Any) -> Any:
            bound = super().bind(parameters)
            found.append((self.text, bound))
            return bound

    monkeypatch.setattr(transaction, "_Compiled", Heard)
    transaction._compile.cache_clear()  # noqa: SLF001
    yield found  # type: ignore[misc]
    transaction._compile.cache_clear()  # noqa: SLF001


def scans_of(url: str, asked: list[Asked]) -> list[str]:
    """The steps of the statements' plans that read a growing table, or an index of it, from end to end."""
    found: list[str] = []
    with psycopg.connect(url.replace("+psycopg", "")) as connection:
        connection.execute("SET enable_seqscan = off; SET enable_bitmapscan = off")
        indices = connection.execute("SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'")
        first = {name: re.split(r"[(,)]", definition)[1].split()[0] for name, definition in indices}
        for statement, values in asked:
            [[plan]] = connection.execute(f"EXPLAIN (FORMAT JSON) {statement}".encode(), values).fetchall()
            found += [f"{step} in {statement}" for step in _scans(plan, first)]
    return found


def _scans(plan: Any, first: Mapping[str, str]) -> Iterator[str]:
    """`first`: the first column of each index; a condition on later ones alone reads it whole."""
    for step in plan if isinstance(plan, list) else [plan]:
        for key in ("Plan", "Plans"):
            yield from _scans(step[key], first) if key in step else ()
        of, index = step.get("Relation Name"), step.get("Index Name", "")
        is_whole = index and not re.search(rf"\b{first[index]}\b", step.get("Index Cond", ""))
        of = of or next((one for one in GROWS if is_whole and index.startswith(one)), None)
        is_bounded = index in OF_WORK_IN_HAND or (index == NEWEST and step.get("Scan Direction") == "Backward")
        if (is_whole or step.get("Node Type") == "Seq Scan") and of in GROWS and not is_bounded:
            yield f"{step['Node Type']} of {of} {index}"


@pytest.mark.parametrize("name", READS)
def test_a_read_goes_along_an_index(url: str, ledger: Ledger, asked: list[Asked], name: str) -> None:
    READS[name](ledger)
    assert asked != []
    assert scans_of(url, asked) == []


def test_a_tick_and_what_it_measures_go_along_indices(url: str, ledger: Ledger, asked: list[Asked]) -> None:
    reconciler = Reconciler(ledger, lambda _: None, lambda _: 0, DeliverySettings(), is_served=lambda _: False)
    reconciler.tick()
    ledger.queue_stats()
    ledger.quarantine.count()
    ledger.replays.advance()
    ledger.schedules.due(10)
    ledger.stage_minutes.fold()
    assert len(asked) > 12
    assert scans_of(url, asked) == []


def test_the_life_of_an_event_goes_along_indices(url: str, ledger: Ledger, asked: list[Asked]) -> None:
    story = Story(ledger, Clock(ledger.clock()), url)
    story.begins(page(1), page(2), page(3))
    ledger.beat("pool.1", 15.0)
    for outcome in (Done((Next(page(4)),)), Retry(0.0, "HTTP 503"), Done()):
        claim = ledger.claim_next("crawl", "pool.1", 60.0, most_of_a_tenant=2)
        assert isinstance(claim, Claim)
        ledger.settle(claim, outcome)
    ledger.wake_due_retries()
    assert isinstance(ledger.claim_next("crawl", "pool.1", 0.0), Claim)
    ledger.expire_leases(3)
    ledger.release("pool.1")
    assert len(asked) > 30
    assert scans_of(url, asked) == []


def test_a_scan_would_be_seen(url: str) -> None:
    for one in ("SELECT count(*) FROM events WHERE settled_at > 9", "SELECT count(*) FROM attempts WHERE epoch = 1"):
        assert scans_of(url, [(one, {})]) != []
