"""A worker process ends in order, at once, or by itself, and whatever it held is free again; on every kind of pool."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import text

from sluice.contracts.errors import InvalidSetting
from sluice.contracts.event import Event, Next, new_run_id
from sluice.contracts.ingest import CrawlDirected
from sluice.ingest.browser.launch import find_chromium
from sluice.ledger.database import Database
from sluice.ledger.ledger import Ledger, NewRun
from sluice.otel.spans import SpanStore
from sluice.workers.broker.transport import Transport
from sluice.workers.processes.kernel import ZOMBIE, all_processes, descendants, facts_of
from sluice.workers.processes.shutdown import DEAF, HUNG, STOP_SECONDS
from tests.integration.processes.odd_worker import BEGAN
from tests.support.instance import free_port
from tests.support.repository import IMPORT_PATH
from tests.support.valkey import Valkey

pytestmark = pytest.mark.own_broker

KINDS = ("solo", "threads", "prefork")
LEASE_SECONDS = 3.0
PATIENCE_SECONDS = 180.0
"""For what takes some seconds here: the machine may be busy."""


PORT = free_port()


def probe(path: str) -> int:
    """The status that the worker's metrics port answers."""
    return httpx.get(f"http://127.0.0.1:{PORT}/{path}", timeout=10).status_code


class Odd:
    """An odd worker (see `odd_worker`) beside its broker and its ledger."""

    def __init__(self, valkey: Valkey, folder: Path) -> None:
        self.valkey, self.folder = valkey, folder
        self.ledger = Ledger(valkey.settings.ledger_location)
        self.process: subprocess.Popen[bytes] | None = None

    def starts(self, kind: str, **settings: str) -> subprocess.Popen[bytes]:
        environment = {
            "SLUICE_DATA_DIR": str(self.valkey.settings.data_dir),
            "SLUICE_DELIVERY__LEASE_SECONDS": str(LEASE_SECONDS),
            "PYTHONPATH": IMPORT_PATH,
            **{f"SLUICE_{name}": value for name, value in settings.items()},
        }
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("SLUICE", "PROMETH"))}
        with (self.folder / "worker.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.integration.processes.odd_worker", kind],
                cwd=self.folder,
                env=inherited | environment,
                stdout=log,
                stderr=log,
            )
        self.until(lambda: "worker_ready" in self.log())
        return self.process

    def log(self) -> str:
        return (self.folder / "worker.log").read_text(errors="replace")

    def gets(self, path: str, corpus: str = "docs") -> Event:
        """An event for the worker, published."""
        return self.gets_many(path, 1, corpus)[0]

    def gets_many(self, path: str, count: int, corpus: str = "docs") -> list[Event]:
        """Events of one run for the worker, published."""
        body, run_id = CrawlDirected(url=f"https://example.org/{path}"), new_run_id()
        events = [Event.of(body, run_id=run_id, corpus=corpus) for _ in range(count)]
        self.ledger.create_run(NewRun(run_id, "crawl", corpus, "0" * 64), [(event, Next(body)) for event in events])
        self.publishes(*events)
        return events

    def publishes(self, *events: Event) -> None:
        transport = Transport(self.valkey.settings)
        assert transport.publish(events) == len(events)
        transport.close()

    def works_on(self, event: Event) -> int:
        """The process that handles the event, once it does."""
        began = self.folder / f"{BEGAN}{event.id}"
        self.until(began.exists)
        return int(began.read_text())

    def row(self, event: Event) -> Any:
        """The event's row."""
        database = Database(self.valkey.settings.ledger_location)
        with database.installing() as connection:
            found = connection.execute(text("SELECT * FROM events WHERE id = :id"), {"id": event.id}).one()
        database.close()
        return found

    def until(self, condition: Callable[[], bool], timeout_seconds: float = PATIENCE_SECONDS) -> None:
        deadline = time.monotonic() + timeout_seconds
        while not condition():
            assert time.monotonic() < deadline, f"it never came to that\n{self.log()[-4000:]}"
            time.sleep(0.05)


@pytest.fixture
def odd(valkey: Valkey, tmp_path: Path) -> Iterator[Odd]:
    odd = Odd(valkey, tmp_path)
    yield odd
    odd.ledger.close()
    if odd.process is not None and odd.process.poll() is None:
        odd.process.kill()
        odd.process.wait()


@pytest.mark.parametrize("kind", KINDS)
def test_a_signal_lets_it_finish_what_it_has_in_hand(odd: Odd, kind: str) -> None:
    worker = odd.starts(kind, DELIVERY__LEASE_SECONDS="30")
    event = odd.gets("sleep/2")
    odd.works_on(event)
    worker.terminate()
    assert worker.wait(PATIENCE_SECONDS) == 0
    assert odd.row(event).status == "settled"


@pytest.mark.parametrize("kind", KINDS)
def test_with_time_to_stop_it_finishes_a_long_event_and_takes_no_other(odd: Odd, kind: str) -> None:
    at_once = {"POOLS__CRAWL": "1"}
    worker = odd.starts(kind, POOLS__STOP_SECONDS="60", TELEMETRY__METRICS_ADDRESS=f"127.0.0.1:{PORT}", **at_once)
    assert (probe("livez"), probe("readyz")) == (200, 200)
    long = odd.gets("sleep/8")
    odd.works_on(long)
    later = odd.gets("soon")
    worker.terminate()
    odd.until(lambda: "draining" in odd.log())
    assert (probe("livez"), probe("readyz")) == (200, 503)
    assert worker.wait(PATIENCE_SECONDS) == 0
    assert odd.row(long).status == "settled", "its claim outlived two leases"
    row = odd.row(later)
    assert (row.status, row.attempts, row.deaths) == ("ready", 0, 0)


@pytest.mark.parametrize("kind", KINDS)
def test_what_takes_longer_than_the_time_to_stop_is_handed_back_and_counts_no_death(odd: Odd, kind: str) -> None:
    worker = odd.starts(kind, POOLS__STOP_SECONDS="1")
    event = odd.gets("hang")
    child = odd.works_on(event)
    started = time.monotonic()
    worker.terminate()
    assert worker.wait(PATIENCE_SECONDS) == 0
    assert 1 <= time.monotonic() - started < 1 + STOP_SECONDS + 5
    row = odd.row(event)
    assert (row.status, row.worker, row.deaths) == ("ready", None, 0)
    assert not lives(child)


@pytest.mark.parametrize(("kind", "second"), [*((kind, signal.SIGTERM) for kind in KINDS), ("threads", signal.SIGQUIT)])
def test_a_second_signal_stops_it_at_once_and_its_claims_are_free(odd: Odd, kind: str, second: signal.Signals) -> None:
    worker = odd.starts(kind, DELIVERY__LEASE_SECONDS="60")
    event = odd.gets("hang")
    child = odd.works_on(event)
    if second == signal.SIGTERM:
        worker.terminate()
        odd.until(lambda: "draining" in odd.log())
    worker.send_signal(second)
    assert worker.wait(STOP_SECONDS + 5) == 128 + second
    row = odd.row(event)
    assert (row.status, row.worker, row.deaths) == ("ready", None, 0)
    assert not lives(child)


@pytest.mark.parametrize("kind", ["solo", "threads"])
def test_a_worker_in_which_an_event_hangs_ends_itself_and_the_event_has_a_death(odd: Odd, kind: str) -> None:
    worker = odd.starts(kind, DELIVERY__EVENT_TIMEOUT_SECONDS="2")
    event = odd.gets("hang")
    assert worker.wait(PATIENCE_SECONDS) == HUNG
    row = odd.row(event)
    assert (row.status, row.deaths) == ("ready", 1)
    assert "time.sleep(3_600)" in odd.log(), "the log says where it hung"


def test_beside_an_event_that_hangs_the_others_finish(odd: Odd) -> None:
    worker = odd.starts("threads", DELIVERY__EVENT_TIMEOUT_SECONDS="4", DELIVERY__LEASE_SECONDS="30")
    hanging = odd.gets("hang")
    odd.works_on(hanging)
    time.sleep(2.5)  # so that the next is still at work when the first is overdue
    bystander = odd.gets("sleep/3")
    odd.works_on(bystander)
    assert worker.wait(PATIENCE_SECONDS) == HUNG
    assert odd.row(bystander).status == "settled"
    row = odd.row(hanging)
    assert (row.status, row.deaths) == ("ready", 1)


def test_a_child_of_a_pool_that_hangs_is_replaced_and_the_worker_goes_on(odd: Odd) -> None:
    worker = odd.starts("prefork", DELIVERY__EVENT_TIMEOUT_SECONDS="3", DELIVERY__LEASE_SECONDS="60", POOLS__CRAWL="1")
    event = odd.gets("hang")
    child = odd.works_on(event)
    odd.until(lambda: odd.row(event).deaths >= 1)
    assert worker.poll() is None
    assert not lives(child)
    quick = odd.gets("quick")
    odd.until(lambda: odd.row(quick).status == "settled")


def test_what_a_killed_child_of_a_pool_held_is_free_at_once_and_nobody_elses(odd: Odd) -> None:
    odd.starts("prefork", DELIVERY__LEASE_SECONDS="60", POOLS__CRAWL="2")
    bystander, event = odd.gets("hang"), odd.gets("hang", "another")  # a pool leaves one child for other tenants
    odd.works_on(bystander)
    os.kill(odd.works_on(event), signal.SIGKILL)
    odd.until(lambda: odd.row(event).deaths == 1, LEASE_SECONDS * 10)
    assert (odd.row(bystander).status, odd.row(bystander).deaths) == ("claimed", 0)


def test_what_takes_more_memory_than_a_child_may_have_fails_alone_and_the_child_goes_on(odd: Odd) -> None:
    odd.starts("prefork", POOLS__CRAWL="1")
    large, small = odd.gets("fill/2000"), odd.gets("fill/500")
    odd.until(lambda: odd.row(small).status == "settled")
    assert (odd.row(large).status, odd.row(large).deaths, odd.row(large).why) == ("waiting", 0, "MemoryError()")
    assert odd.works_on(small) == odd.works_on(large)


@pytest.mark.parametrize("end", [[signal.SIGKILL], [signal.SIGTERM], [signal.SIGTERM, signal.SIGTERM]])
def test_however_a_worker_ends_its_browser_ends_too(odd: Odd, end: list[signal.Signals]) -> None:
    try:
        find_chromium(None, "")
    except InvalidSetting as error:
        pytest.skip(f"no Chromium here: {error}")
    worker = odd.starts("threads")
    odd.works_on(odd.gets("browse"))
    family = {process.pid: process.started for process in descendants(worker.pid, all_processes())}
    assert len(family) > 3
    for number in end:
        worker.send_signal(number)
        odd.until(lambda: worker.poll() is not None or "draining" in odd.log())
    worker.wait(PATIENCE_SECONDS)
    odd.until(lambda: not any(is_there(pid, started) for pid, started in family.items()))


@pytest.mark.timeout(400)
def test_no_span_is_lost_where_every_child_of_a_pool_handles_one_event(odd: Odd) -> None:
    events = odd.gets_many("quick", 60)
    worker = odd.starts("prefork", POOLS__CRAWL="10", POOLS__MAX_TASKS_PER_CHILD="1", DELIVERY__LEASE_SECONDS="60")
    odd.until(lambda: odd.ledger.status_of(events[0].run_id) == "finished", 300)
    worker.terminate()
    assert worker.wait(PATIENCE_SECONDS) == 0
    spans = SpanStore.in_dir(odd.valkey.settings.data_dir).of_run(events[0].run_id)
    assert sorted(span.attributes["sluice.event_id"] for span in spans) == sorted(event.id for event in events)


def test_a_worker_that_no_longer_takes_what_lies_in_its_queue_ends_itself(odd: Odd) -> None:
    worker = odd.starts("threads", DELIVERY__DEAF_AFTER_SECONDS="5")
    worker.send_signal(signal.SIGUSR2)
    event = odd.gets("quick")
    odd.publishes(event)  # the broker gives the first to whoever waits, and no one looks at it
    assert worker.wait(PATIENCE_SECONDS) == DEAF
    assert odd.row(event).status == "ready"
    assert "tests/integration/processes/odd_worker.py" in odd.log(), "the log says where its main thread was"


def lives(process_id: int) -> bool:
    facts = facts_of(process_id)
    return facts is not None and facts.state != ZOMBIE


def is_there(process_id: int, started: int) -> bool:
    """Whether this very process, and no later one of the same id, still runs."""
    facts = facts_of(process_id)
    return facts is not None and facts.started == started and facts.state != ZOMBIE
