"""The reconciler makes the queues what the ledger says they should be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest

from sluice.contracts.errors import Unavailable
from sluice.contracts.event import Done, Queue, Retry
from sluice.ledger.events.outbox import wake_ups_of
from sluice.ledger.ledger import WakeUp
from sluice.workers.processes import reconciler as reconcile
from sluice.workers.processes.reconciler import Reconciled, Reconciler
from sluice.workers.settings import DeliverySettings
from tests.support.ledger_story import NOON, Story, page


@dataclass
class Broker:
    """Queues that forget on demand, and remember who asked."""

    ids: dict[Queue, list[str]] = field(default_factory=dict)
    asked: list[Queue] = field(default_factory=list)
    away: bool = False

    def publish(self, wake_ups: Sequence[WakeUp]) -> None:
        if self.away:
            raise Unavailable("the broker is away")
        for stage, event_id in wake_ups:
            self.ids.setdefault(stage, []).append(event_id)

    def queued(self, queue: Queue) -> int:
        self.asked.append(queue)
        return len(self.ids.get(queue, ()))


@pytest.fixture
def broker() -> Broker:
    return Broker()


@pytest.fixture
def reconciler(story: Story, broker: Broker) -> Reconciler:
    return make(story, broker)


def make(story: Story, broker: Broker) -> Reconciler:
    return Reconciler(story.ledger, broker.publish, broker.queued, DeliverySettings(), story.clock)


def test_with_nothing_overdue_the_broker_is_not_asked(story: Story, broker: Broker, reconciler: Reconciler) -> None:
    story.begins(page())
    assert reconciler.tick() == Reconciled()
    assert broker.asked == []


def test_a_queue_gets_as_many_wake_ups_as_it_has_fewer_than_ready_events(
    story: Story, broker: Broker, reconciler: Reconciler
) -> None:
    events = story.begins(page(1), page(2), page(3))
    broker.publish(wake_ups_of(events[1:2]))
    story.clock.passes(2.5)
    story.claims(events[0])
    assert reconciler.tick() == Reconciled(lost=1)
    assert len(broker.ids["crawl"]) == 2
    assert reconciler.tick() == Reconciled()


def test_a_paused_stage_gets_one_wake_up_when_it_is_time_to_probe(
    story: Story, broker: Broker, reconciler: Reconciler
) -> None:
    story.begins(page(1), page(2))
    story.ledger.pause("crawl", "failing", seconds=4.0)
    story.clock.passes(3.0)
    assert reconciler.tick() == Reconciled()
    story.clock.passes(1.0)
    assert reconciler.tick() == Reconciled(lost=1)
    assert reconciler.tick() == Reconciled()
    story.ledger.resume("crawl")
    assert reconciler.tick() == Reconciled(lost=1)


def test_a_flushed_broker_is_filled_again_batch_by_batch(
    story: Story, broker: Broker, reconciler: Reconciler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconcile, "MOST_PUBLISHED_AT_ONCE", 4)
    events = story.begins(*(page(number) for number in range(10)))
    broker.publish(wake_ups_of(events))
    story.clock.passes(2.5)
    for _ in range(3):
        assert reconciler.tick() == Reconciled()
    broker.ids.clear()
    assert [reconciler.tick().lost for _ in range(4)] == [4, 4, 2, 0]
    assert len(broker.ids["crawl"]) == len(events)


def test_an_expired_lease_is_freed_once_and_published(story: Story, broker: Broker, reconciler: Reconciler) -> None:
    [event] = story.begins(page())
    story.claims(event)
    story.clock.passes(10.0)
    assert reconciler.tick() == Reconciled(lease_expired=1)
    assert reconciler.tick() == Reconciled()
    assert broker.ids == {"crawl": [event.id]}
    assert story.claims(event, "w2").epoch == 2


def test_a_poisonous_event_is_parked_by_the_tick_that_sees_its_last_death(story: Story, reconciler: Reconciler) -> None:
    [event] = story.begins(page())
    for _ in range(3):
        story.claims(event)
        story.clock.passes(10.0)
        reconciler.tick()
    assert story.ledger.dead_letters.list()[0].reason == "poison"
    assert story.ledger.run(event.run_id).status == "failed"


def test_a_due_retry_is_published_once(story: Story, broker: Broker, reconciler: Reconciler) -> None:
    [event] = story.begins(page())
    story.handles(event, Retry(5.0, "503"))
    assert reconciler.tick() == Reconciled()
    story.clock.passes(5.0)
    assert reconciler.tick() == Reconciled(retry_due=1)
    story.clock.passes(2.5)
    assert reconciler.tick() == Reconciled()
    assert broker.ids == {"crawl": [event.id]}


def test_a_passed_deadline_directs_the_answer(story: Story, broker: Broker, reconciler: Reconciler) -> None:
    asked = story.asks(deadline_at=datetime.fromtimestamp(NOON + 1, UTC))
    broker.publish(wake_ups_of([asked]))
    story.clock.passes(1.0)
    assert reconciler.tick() == Reconciled(deadline=1)
    assert len(broker.ids["query"]) == 2


def test_what_a_broker_that_is_away_did_not_take_is_published_later(
    story: Story, broker: Broker, reconciler: Reconciler
) -> None:
    [event] = story.begins(page())
    story.handles(event, Retry(1.0, "503"))
    story.clock.passes(1.0)
    broker.away = True
    with pytest.raises(Unavailable):
        reconciler.tick()
    broker.away = False
    story.clock.passes(2.5)
    assert reconciler.tick() == Reconciled(lost=1)
    assert broker.ids == {"crawl": [event.id]}


def test_one_reconciler_is_active_until_it_stops_or_dies(story: Story, broker: Broker, reconciler: Reconciler) -> None:
    other = make(story, broker)
    assert reconciler.tick().active
    assert not other.tick().active
    reconciler.stop()
    assert other.tick().active
    assert not reconciler.tick().active
    story.clock.passes(4.0)
    assert reconciler.tick().active


def test_a_settled_event_is_never_published(story: Story, broker: Broker, reconciler: Reconciler) -> None:
    [event] = story.begins(page())
    story.handles(event, Done())
    story.clock.passes(60.0)
    assert reconciler.tick() == Reconciled()
