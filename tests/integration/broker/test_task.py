"""The life of one delivery, with a real ledger and a real broker; only what the handler does is the test's."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace

import pytest

from sluice.contracts.budget import Ceiling, Ceilings, Spend
from sluice.contracts.errors import BudgetExhausted, Fenced, InvalidInput, Overloaded, TimedOut, Unavailable
from sluice.contracts.event import CostlyFailure, DeadLetter, Done, Event, Next, Outcome, Queue, Retry, new_run_id
from sluice.contracts.ingest import CrawlDirected, SearchDirected
from sluice.ledger import database
from sluice.ledger.ledger import Claim, NewRun
from sluice.workers import task
from sluice.workers.context import Context
from sluice.workers.handlers import HANDLERS
from sluice.workers.processes.reconciler import Reconciler
from sluice.workers.runtime.claims import LEAST_OUTCOMES, Heartbeat, is_cancelled, stage_window
from sluice.workers.settings import DeliverySettings
from tests.support.ledger_story import page
from tests.support.valkey import Valkey

Behaviour = Callable[[Event, Context], Outcome]


@pytest.fixture
def context(valkey: Valkey) -> Iterator[Context]:
    context = Context(valkey.settings)
    yield context
    context.close()


class Worker:
    """One worker of the crawl stage, whose handler does what the test says."""

    def __init__(self, context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
        self.context = context
        self.handled = 0
        self.goes_on_with: list[Queue] = []
        """The stages that this process serves."""
        self.takes_more = True
        self._outcomes = stage_window()
        self._monkeypatch = monkeypatch

    def leases_last(self, seconds: float) -> None:
        delivery = DeliverySettings(lease_seconds=seconds)
        self.context.settings = self.context.settings.model_copy(update={"delivery": delivery})

    def begins(self, ceilings: Ceilings | None = None, corpus: str = "docs") -> Event:
        run_id = new_run_id()
        event = Event.of(page(), run_id=run_id, corpus=corpus)
        run = NewRun(run_id, "crawl", corpus, "0" * 64, ceilings=ceilings or Ceilings())
        return self.context.ledger.create_run(run, [(event, Next(page()))]).events[0]

    def handles(self, event: Event, behaviour: Behaviour, heartbeat: Heartbeat | None = None) -> None:
        def counted(event: Event, context: Context) -> Outcome:
            self.handled += 1
            return behaviour(event, context)

        self._monkeypatch.setitem(HANDLERS, "CrawlDirected", counted)
        beating = heartbeat or Heartbeat(self.context.ledger, self.context.settings.delivery.lease_seconds)
        try:
            pool: dict[Queue, task.StageWorker] = {}
            worker = task.StageWorker(
                "crawl",
                "w1",
                self.context,
                beating,
                outcomes=self._outcomes,
                pool=pool,
                may_go_on=lambda: self.takes_more,
            )
            pool.update({stage: replace(worker, stage=stage) for stage in self.goes_on_with})
            task.use_wake_up(event.id, worker)
        finally:
            beating.close()

    def kinds(self, event: Event) -> list[str]:
        return [found.kind for _, found in self.context.ledger.events_after(event.run_id)]

    def standing(self, event: Event) -> str | None:
        return self.context.ledger.standing(event.id)


@pytest.fixture
def worker(context: Context, monkeypatch: pytest.MonkeyPatch) -> Worker:
    return Worker(context, monkeypatch)


def finds_a_question(_event: Event, _context: Context) -> Outcome:
    return Done((Next(SearchDirected(query="why?", top_k=1)),))


def finds_another_page(_event: Event, _context: Context) -> Outcome:
    return Done((Next(page(2)),))


def test_what_a_handler_emits_is_recorded_and_queued_once_however_often_it_is_delivered(worker: Worker) -> None:
    event = worker.begins()
    for _ in range(2):
        worker.handles(event, finds_a_question)
    assert worker.handled == 1
    assert worker.kinds(event) == ["CrawlDirected", "SearchDirected"]
    assert worker.context.transport.queued("search") == 1


@pytest.fixture
def going_on(worker: Worker) -> Worker:
    worker.goes_on_with = ["crawl"]
    return worker


def finds_one_more_page(event: Event, _context: Context) -> Outcome:
    return Done() if event.body == page(2) else Done((Next(page(2)),))


def test_what_the_process_serves_itself_is_handled_at_once_and_without_a_wake_up(going_on: Worker) -> None:
    event = going_on.begins()
    going_on.handles(event, finds_one_more_page)
    assert going_on.handled == 2
    assert going_on.context.transport.queued("crawl") == 0
    assert going_on.context.ledger.run(event.run_id).status == "finished"


def test_who_goes_on_takes_the_event_whose_turn_it_is(going_on: Worker) -> None:
    first, other = going_on.begins(), going_on.begins(corpus="another")
    handled: list[str] = []

    def is_seen(event: Event, context: Context) -> Outcome:
        handled.append(event.corpus)
        return finds_one_more_page(event, context) if event.corpus == "docs" else Done()

    going_on.handles(first, is_seen)
    assert handled == ["docs", "another"]  # the other tenant has waited longer
    assert going_on.standing(other) == "settled"
    assert going_on.context.ledger.backlogs()["crawl"].ready == 1  # the wake-up of `other` is still there for it


def test_a_process_that_is_to_end_and_a_stage_that_rests_leave_what_follows_to_a_wake_up(going_on: Worker) -> None:
    going_on.takes_more = False
    going_on.handles(going_on.begins(), finds_one_more_page)
    assert (going_on.handled, going_on.context.transport.queued("crawl")) == (1, 1)
    going_on.takes_more = True

    def pauses(event: Event, context: Context) -> Outcome:
        context.ledger.pause("crawl", "the test says so")
        return finds_another_page(event, context)

    going_on.handles(going_on.begins(), pauses)
    assert (going_on.handled, going_on.context.transport.queued("crawl")) == (2, 2)


def test_a_wake_up_leads_to_a_few_events_and_no_more(going_on: Worker) -> None:
    going_on.handles(going_on.begins(), finds_another_page)
    assert going_on.handled == task.MOST_IN_A_ROW
    assert going_on.context.transport.queued("crawl") == 1


def test_what_a_worker_claimed_to_go_on_with_and_died_on_is_free_again_and_counts_a_death(going_on: Worker) -> None:
    event = going_on.begins()

    def dies(event: Event, context: Context) -> Outcome:
        if event.body == page(2):
            raise KeyboardInterrupt  # as if it were gone: nothing after it is done
        return finds_another_page(event, context)

    with pytest.raises(KeyboardInterrupt):
        going_on.handles(event, dies)
    assert (going_on.standing(event), going_on.handled) == ("settled", 2)
    [wake_up] = going_on.context.ledger.release("w1")
    going_on.handles(going_on.context.ledger.event(wake_up.event_id), finds_one_more_page)
    assert going_on.context.ledger.run(event.run_id).status == "finished"


def test_a_wake_up_for_an_event_that_was_never_recorded_is_kept_as_a_dead_letter(worker: Worker) -> None:
    stranger = Event.of(page(), run_id=new_run_id(), corpus="docs")
    worker.handles(stranger, finds_another_page)
    assert worker.handled == 0
    [letter] = worker.context.ledger.dead_letters.list()
    assert (letter.reason, letter.stage) == ("unroutable", "crawl")
    assert worker.context.ledger.dead_letters.show(letter.id).payload.raw == stranger.id.encode()


def test_an_attempt_that_failed_after_it_had_cost_something_is_paid_for_and_tried_again(worker: Worker) -> None:
    event = worker.begins()

    def breaks_off(_event: Event, _context: Context) -> Outcome:
        raise CostlyFailure(Spend(bytes=4_096)) from Unavailable("the site went away")

    worker.handles(event, breaks_off)
    assert worker.standing(event) == "waiting"
    assert worker.context.ledger.run(event.run_id).spend == Spend(bytes=4_096)


def test_a_stage_whose_work_keeps_failing_rests_and_goes_on_after_a_probe(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def has_a_bug(_event: Event, _context: Context) -> Outcome:
        raise TypeError("deployed on a Friday")

    monkeypatch.setattr(task, "PROBE_SECONDS", 0.05)
    for _ in range(LEAST_OUTCOMES):
        assert worker.context.ledger.paused() == []
        event = worker.begins()
        worker.handles(event, has_a_bug)
    [pause] = worker.context.ledger.paused()
    assert (pause.stage, pause.why) == ("crawl", "20 of the last 20 events failed")
    assert worker.context.ledger.dead_letters.list() == []
    time.sleep(0.1)
    worker.handles(worker.begins(), finds_a_question)
    assert worker.context.ledger.paused() == []


def test_a_dead_site_does_not_make_the_stage_rest(worker: Worker) -> None:
    def finds_the_site_dead(_event: Event, _context: Context) -> Outcome:
        raise Unavailable("connection refused")

    for _ in range(LEAST_OUTCOMES):
        worker.handles(worker.begins(), finds_the_site_dead)
    assert worker.context.ledger.paused() == []


def test_a_worker_that_dies_in_its_handler_leaves_a_claim_and_nothing_else(worker: Worker) -> None:
    def dies(_event: Event, _context: Context) -> Outcome:
        raise SystemExit(1)

    event = worker.begins()
    with pytest.raises(SystemExit):
        worker.handles(event, dies)
    assert worker.kinds(event) == ["CrawlDirected"]
    assert worker.standing(event) == "claimed"
    assert worker.context.ledger.release("w1") == (("crawl", event.id),)
    worker.handles(event, finds_another_page)
    assert worker.kinds(event) == ["CrawlDirected", "CrawlDirected"]


@pytest.mark.own_broker
def test_what_was_settled_while_the_broker_was_away_is_queued_by_the_reconciler(worker: Worker, valkey: Valkey) -> None:
    event = worker.begins()
    valkey.kill()
    worker.handles(event, finds_another_page)
    valkey.start()
    transport = worker.context.transport
    assert transport.queued("crawl") == 0
    reconciler = Reconciler(
        worker.context.ledger,
        transport.publish_wake_ups,
        transport.queued,
        DeliverySettings(),
        republish_after_seconds=0.01,
    )
    assert [reconciler.tick().lost, reconciler.tick().lost] == [1, 0]
    assert transport.queued("crawl") == 1


def test_finished_work_waits_for_a_ledger_that_is_away(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "BUSY_TIMEOUT_SECONDS", 0.05)
    event = worker.begins()
    file = worker.context.settings.data_dir / "ledger.sqlite"

    def is_locked_out(_event: Event, _context: Context) -> Outcome:
        other = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
        other.execute("BEGIN IMMEDIATE")
        threading.Timer(0.5, other.close).start()
        return finds_another_page(_event, _context)

    worker.handles(event, is_locked_out)
    assert worker.handled == 1
    assert worker.kinds(event) == ["CrawlDirected", "CrawlDirected"]


def test_an_outcome_that_cannot_be_recorded_parks_the_event_with_its_error_in_the_end(worker: Worker) -> None:
    event = worker.begins()
    for _ in range(task.ATTEMPTS["crawl"]):
        worker.handles(event, lambda _event, _context: Done(spend=Spend(usd=1e15)))
        _wake(worker.context)
    [letter] = worker.context.ledger.dead_letters.list()
    assert (letter.reason, letter.exception_type, letter.event_id) == ("exhausted", "OverflowError", event.id)
    assert worker.context.ledger.run(event.run_id).status == "failed"


def test_a_handler_that_was_fenced_is_tried_again(worker: Worker) -> None:
    def is_fenced(_event: Event, _context: Context) -> Outcome:
        raise Fenced("another writer has the corpus")

    event = worker.begins()
    worker.handles(event, is_fenced)
    assert worker.standing(event) == "waiting"


def test_what_no_budget_is_left_for_is_a_gap_and_the_work_before_it_is_not_done_twice(worker: Worker) -> None:
    event = worker.begins(Ceilings(run=Ceiling(pages=1)))
    costly = [Next(page(number), reserve=Spend(pages=1)) for number in (2, 3)]
    worker.handles(event, lambda _event, _context: Done((*costly, Next(page(4)))))
    assert worker.handled == 1
    assert worker.context.ledger.dead_letters.list() == []
    found = [found for _, found in worker.context.ledger.events_after(event.run_id)]
    assert [one.body.url for one in found if isinstance(one.body, CrawlDirected)][1:] == [page(2).url, page(4).url]
    [gap] = worker.context.ledger.run(event.run_id).missing
    assert (gap.subject, gap.reason) == (page(3).url, "budget_exhausted")


def test_a_heartbeat_keeps_the_claim_of_a_slow_handler(worker: Worker) -> None:
    worker.leases_last(0.3)
    expired: list[object] = []

    def is_slow(event: Event, context: Context) -> Outcome:
        threading.Event().wait(0.8)
        expired.extend(context.ledger.expire_leases(3))
        return finds_another_page(event, context)

    event = worker.begins()
    worker.handles(event, is_slow)
    assert expired == []
    assert worker.kinds(event) == ["CrawlDirected", "CrawlDirected"]


def test_a_handler_that_hangs_loses_its_claim_and_what_it_does_later_does_not_count(worker: Worker) -> None:
    worker.leases_last(0.3)
    taken: list[object] = []

    def hangs(event: Event, context: Context) -> Outcome:
        threading.Event().wait(1.0)
        context.ledger.expire_leases(3)
        taken.append(context.ledger.claim_next("crawl", "w2", 10.0))
        return finds_another_page(event, context)

    event = worker.begins()
    worker.handles(event, hangs, Heartbeat(worker.context.ledger, 0.3, longest_seconds=0.2))
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


def _wake(context: Context) -> None:
    """Make the event's next try due now."""
    with sqlite3.connect(context.settings.data_dir / "ledger.sqlite") as connection:
        connection.execute("UPDATE events SET status = 'ready' WHERE status = 'waiting'")


def test_a_process_beats_once_for_all_it_has_in_hand_and_learns_what_it_lost(context: Context) -> None:
    ledger, beats = context.ledger, list[str]()
    events = [Event.of(page(number), run_id=new_run_id(), corpus="docs") for number in range(3)]
    for event in events:
        ledger.create_run(NewRun(event.run_id, "crawl", "docs", "0" * 64), [(event, Next(event.body))])
    heartbeat, original = Heartbeat(ledger, 0.3), ledger.beat

    def counted(worker: str, lease_seconds: float) -> frozenset[tuple[str, int]]:
        beats.append(worker)
        return original(worker, lease_seconds)

    ledger.beat = counted  # type: ignore[method-assign]
    heartbeat.ready("w1")
    heartbeat.ready("w1")
    claims = [claim for _ in events if isinstance(claim := ledger.claim_next("crawl", "w1", 60.0), Claim)]
    assert (beats, len(claims)) == (["w1"], 3)
    with ExitStack() as held:
        for claim in claims:
            held.enter_context(heartbeat.of(claim))
        assert not is_cancelled()
        ledger.cancel(claims[-1].event.run_id)  # the hold of this thread
        deadline = time.monotonic() + 10.0
        while not is_cancelled() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert (is_cancelled(), heartbeat.in_hand) == (True, 2)
        before, began = len(beats), time.monotonic()
        time.sleep(0.5)
        assert len(beats) - before <= (time.monotonic() - began) / 0.1 + 1, "not one for each claim"
    known = len(beats)
    time.sleep(0.3)
    assert len(beats) == known, "nothing in hand, nothing to say"
    heartbeat.close()
