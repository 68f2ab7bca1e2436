"""The life of one delivery, with a real ledger and a real broker; only what the handler does is the test's."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator

import pytest

from contracts.budget import Ceilings, Spend
from contracts.errors import BudgetExhausted, Fenced, InvalidInput, Overloaded, TimedOut, Unavailable
from contracts.event import Event
from contracts.ids import new_run_id
from contracts.outcome import DeadLetter, Done, Next, Outcome, Retry
from tests.workers.conftest import Valkey
from tests.workers.ledger_story import page
from workers import database, task
from workers.handlers import HANDLERS
from workers.heartbeat import Heartbeat
from workers.ledger import Claim, NewRun
from workers.parts import Parts
from workers.reconcile import Reconciler
from workers.settings import DeliverySettings

Behaviour = Callable[[Event, Parts], Outcome]


@pytest.fixture
def parts(valkey: Valkey) -> Iterator[Parts]:
    parts = Parts(valkey.settings)
    yield parts
    parts.close()


class Worker:
    """One worker of the crawl stage, whose handler does what the test says."""

    def __init__(self, parts: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
        self.parts = parts
        self.handled = 0
        self._monkeypatch = monkeypatch

    def leases_last(self, seconds: float) -> None:
        delivery = DeliverySettings(lease_seconds=seconds)
        self.parts.settings = self.parts.settings.model_copy(update={"delivery": delivery})

    def begins(self, ceilings: Ceilings | None = None) -> Event:
        run_id = new_run_id()
        event = Event.of(page(), run_id=run_id, corpus="docs")
        run = NewRun(run_id, "crawl", "docs", "0" * 64, ceilings=ceilings or Ceilings())
        return self.parts.ledger.create_run(run, [(event, Next(page()))]).events[0]

    def handles(self, event: Event, behaviour: Behaviour, heartbeat: Heartbeat | None = None) -> None:
        def counted(event: Event, parts: Parts) -> Outcome:
            self.handled += 1
            return behaviour(event, parts)

        self._monkeypatch.setitem(HANDLERS, "CrawlDirected", counted)
        beating = heartbeat or Heartbeat(self.parts.ledger, self.parts.settings.delivery.lease_seconds)
        try:
            task.handle_event(event.id, "crawl", "w1", self.parts, beating)
        finally:
            beating.close()

    def kinds(self, event: Event) -> list[str]:
        return [found.kind for _, found in self.parts.ledger.events_after(event.run_id)]

    def refusal(self, event: Event) -> str:
        return getattr(self.parts.ledger.claim(event.id, "prober", 10.0, 3), "reason", "claimed")


@pytest.fixture
def worker(parts: Parts, monkeypatch: pytest.MonkeyPatch) -> Worker:
    return Worker(parts, monkeypatch)


def finds_another_page(_event: Event, _parts: Parts) -> Outcome:
    return Done((Next(page(2)),))


def test_what_a_handler_emits_is_recorded_and_queued_once_however_often_it_is_delivered(worker: Worker) -> None:
    event = worker.begins()
    for _ in range(2):
        worker.handles(event, finds_another_page)
    assert worker.handled == 1
    assert worker.kinds(event) == ["CrawlDirected", "CrawlDirected"]
    (_, (_, following)) = worker.parts.ledger.events_after(event.run_id)
    assert worker.parts.transport.queued_event_ids("crawl") == {following.id}


def test_a_worker_that_dies_in_its_handler_leaves_a_claim_and_nothing_else(worker: Worker) -> None:
    def dies(_event: Event, _parts: Parts) -> Outcome:
        raise SystemExit(1)

    event = worker.begins()
    with pytest.raises(SystemExit):
        worker.handles(event, dies)
    assert worker.kinds(event) == ["CrawlDirected"]
    assert worker.refusal(event) == "claimed_elsewhere"
    assert worker.parts.ledger.release("w1") == (event,)
    worker.handles(event, finds_another_page)
    assert worker.kinds(event) == ["CrawlDirected", "CrawlDirected"]


def test_what_was_settled_while_the_broker_was_away_is_queued_by_the_reconciler(worker: Worker, valkey: Valkey) -> None:
    event = worker.begins()
    valkey.kill()
    worker.handles(event, finds_another_page)
    valkey.start()
    transport = worker.parts.transport
    assert transport.queued_event_ids("crawl") == set()
    prompt = DeliverySettings(republish_after_seconds=0.01)
    reconciler = Reconciler(worker.parts.ledger, transport.publish, transport.queued_event_ids, prompt)
    assert [reconciler.tick().lost, reconciler.tick().lost] == [1, 0]
    assert len(transport.queued_event_ids("crawl")) == 1


def test_finished_work_waits_for_a_ledger_that_is_away(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "_BUSY_TIMEOUT_SECONDS", 0.05)
    event = worker.begins()
    file = worker.parts.settings.data_dir / "ledger.sqlite"

    def is_locked_out(_event: Event, _parts: Parts) -> Outcome:
        other = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
        other.execute("BEGIN IMMEDIATE")
        threading.Timer(0.5, other.close).start()
        return finds_another_page(_event, _parts)

    worker.handles(event, is_locked_out)
    assert worker.handled == 1
    assert worker.kinds(event) == ["CrawlDirected", "CrawlDirected"]


def test_an_outcome_that_cannot_be_recorded_parks_the_event_with_its_error_in_the_end(worker: Worker) -> None:
    event = worker.begins()
    for _ in range(task.ATTEMPTS["crawl"]):
        worker.handles(event, lambda _event, _parts: Done(spend=Spend(usd=1e15)))
        _wake(worker.parts)
    [letter] = worker.parts.ledger.dead_letters.list()
    assert (letter.reason, letter.exception_type, letter.event_id) == ("exhausted", "OverflowError", event.id)
    assert worker.parts.ledger.run(event.run_id).status == "failed"


def test_a_handler_that_was_fenced_is_tried_again(worker: Worker) -> None:
    def is_fenced(_event: Event, _parts: Parts) -> Outcome:
        raise Fenced("another writer has the corpus")

    event = worker.begins()
    worker.handles(event, is_fenced)
    assert worker.refusal(event) == "waiting"


def test_work_that_no_budget_is_left_for_is_parked_after_a_few_races(worker: Worker) -> None:
    event = worker.begins(Ceilings(run_pages=1))
    worker.handles(event, lambda _event, _parts: Done((Next(page(2), reserve=Spend(pages=2)),)))
    assert worker.handled == task.BUDGET_RACES
    assert [letter.reason for letter in worker.parts.ledger.dead_letters.list()] == ["policy"]


def test_a_heartbeat_keeps_the_claim_of_a_slow_handler(worker: Worker) -> None:
    worker.leases_last(0.3)
    heard: list[str] = []

    def is_slow(event: Event, parts: Parts) -> Outcome:
        threading.Event().wait(0.8)
        heard.append(worker.refusal(event))
        return finds_another_page(event, parts)

    event = worker.begins()
    worker.handles(event, is_slow)
    assert heard == ["claimed_elsewhere"]
    assert worker.kinds(event) == ["CrawlDirected", "CrawlDirected"]


def test_a_handler_that_hangs_loses_its_claim_and_what_it_does_later_does_not_count(worker: Worker) -> None:
    worker.leases_last(0.3)
    taken: list[object] = []

    def hangs(event: Event, parts: Parts) -> Outcome:
        threading.Event().wait(1.0)
        taken.append(parts.ledger.claim(event.id, "w2", 10.0, 3))
        return finds_another_page(event, parts)

    event = worker.begins()
    worker.handles(event, hangs, Heartbeat(worker.parts.ledger, 0.3, longest_seconds=0.2))
    assert isinstance(taken[0], Claim)
    assert worker.kinds(event) == ["CrawlDirected"]


@pytest.mark.parametrize(
    ("error", "attempts", "expected"),
    [
        (InvalidInput("url", "no host", "give one"), 0, "malformed"),
        (BudgetExhausted("no pages left"), 0, "policy"),
        (TimedOut("10 s"), 2, "timeout"),
        (ValueError("a bug"), 2, "exhausted"),
    ],
)
def test_permanent_errors_and_the_last_try_park_an_event(error: Exception, attempts: int, expected: str) -> None:
    assert task.outcome_of(error, attempts, 3, DeliverySettings()) == DeadLetter(expected)


def test_transient_errors_and_bugs_are_tried_again_after_a_pause() -> None:
    delivery = DeliverySettings(retry_base_seconds=1.0, retry_max_seconds=2.0)
    for error in (Unavailable("away"), ValueError("a bug")):
        outcome = task.outcome_of(error, 1, 3, delivery)
        assert isinstance(outcome, Retry)
        assert 0.1 <= outcome.after_seconds <= 2.0


def test_waiting_for_a_turn_is_no_failure_and_no_wait_is_longer_than_the_longest_pause() -> None:
    delivery = DeliverySettings(retry_max_seconds=60.0)
    assert task.outcome_of(Overloaded("full", 7.0), 5, 3, delivery) == Retry(7.0, "full")
    assert task.outcome_of(Overloaded("tomorrow", 86_400.0), 0, 3, delivery) == Retry(60.0, "tomorrow")
    last = task.outcome_of(Overloaded("full", 7.0), task.PATIENT_ATTEMPTS - 1, 3, delivery)
    assert isinstance(last, DeadLetter)


def _wake(parts: Parts) -> None:
    """Make the event's next try due now."""
    with sqlite3.connect(parts.settings.data_dir / "ledger.sqlite") as connection:
        connection.execute("UPDATE events SET status = 'ready' WHERE status = 'waiting'")
