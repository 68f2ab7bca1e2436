"""Word of a cancelled run reaches whoever listens, and whoever works on it stops at its next look."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from sluice.contracts.errors import Fenced
from sluice.contracts.event import Event, Next, new_run_id
from sluice.ledger.ledger import Claim, Ledger, NewRun
from sluice.workers.broker.transport import Transport
from sluice.workers.runtime.claims import Heartbeat, check_cancelled
from sluice.workers.settings import Settings
from tests.support.ledger_story import page
from tests.support.valkey import Valkey


@contextmanager
def listening(settings: Settings) -> Iterator[tuple[list[str], threading.Semaphore]]:
    """What is heard, and a semaphore that counts it."""
    heard: list[str] = []
    counted, stopping, ear = threading.Semaphore(0), threading.Event(), Transport(settings)

    def listen() -> None:
        for run_id in ear.cancelled_runs(stopping):
            heard.append(run_id)
            counted.release()

    thread = threading.Thread(target=listen)
    thread.start()
    yield heard, counted
    stopping.set()
    thread.join()
    ear.close()


def test_whoever_listens_hears_of_each_cancelled_run(valkey: Valkey) -> None:
    mouth = Transport(valkey.settings)
    with listening(valkey.settings) as (first, counted), listening(valkey.settings) as (second, also_counted):
        while not (counted.acquire(timeout=0.05) and also_counted.acquire(timeout=0.05)):
            mouth.tell_cancelled("run_0")  # until both have begun to listen
        for number in (1, 2):
            mouth.tell_cancelled(f"run_{number}")
        for heard, semaphore in ((first, counted), (second, also_counted)):
            while heard[-1] != "run_2":
                assert semaphore.acquire(timeout=10)
            assert [one for one in heard if one != "run_0"] == ["run_1", "run_2"]
    mouth.close()


@pytest.mark.own_broker
def test_a_word_that_nobody_can_carry_is_no_failure(valkey: Valkey) -> None:
    mouth = Transport(valkey.settings)
    valkey.kill()
    mouth.tell_cancelled("run_1")
    mouth.close()


def test_work_stops_at_its_next_look_and_other_work_goes_on(story_ledger: Ledger) -> None:
    cancelled, other = (begun(story_ledger) for _ in range(2))
    heartbeat = Heartbeat(story_ledger, 60.0)
    with heartbeat.of(cancelled):
        check_cancelled()
        with heartbeat.of(other):
            heartbeat.lose_run(cancelled.event.run_id)
            check_cancelled()
        with pytest.raises(Fenced):
            check_cancelled()
    check_cancelled()
    heartbeat.close()


@pytest.fixture
def story_ledger(new_ledger_url: str) -> Iterator[Ledger]:
    with Ledger(new_ledger_url) as ledger:
        yield ledger


def begun(ledger: Ledger) -> Claim:
    """The claim on the one event of a new run."""
    run_id = new_run_id()
    event = Event.of(page(), run_id=run_id, corpus="docs")
    ledger.create_run(NewRun(run_id, "crawl", "docs", "0" * 64), [(event, Next(page()))])
    claim = ledger.claim_next("crawl", "w1", 60.0)
    assert isinstance(claim, Claim)
    return claim
