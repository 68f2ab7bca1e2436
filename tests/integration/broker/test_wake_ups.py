"""Wake-ups on each broker that can carry them: one suite, on Valkey, and on RabbitMQ with either type of queue."""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import amqp
import kombu
import pytest
import redis

from sluice.contracts.errors import InvalidInput, Unavailable
from sluice.contracts.event import QUEUES, new_event_id
from sluice.ledger.events.outbox import WakeUp
from sluice.workers.broker import rabbit
from sluice.workers.broker.celery_app import make_app
from sluice.workers.broker.keys import HANDLE_TASK, Keys
from sluice.workers.broker.transport import Transport
from sluice.workers.settings import Settings
from tests.support.rabbitmq import RabbitMq
from tests.support.valkey import Valkey
from tests.support.waiting import until

BROKERS = ("valkey", "classic", "quorum")
STEP_SECONDS = 0.2


@dataclass
class Broker:
    """An empty broker with the queues of an instance."""

    settings: Settings
    server: RabbitMq | None

    def purge(self, stage: str) -> None:
        """Take everything out of a queue."""
        if self.server is None:
            with redis.Redis.from_url(self.settings.broker_location) as client:
                client.delete(Keys(self.settings.instance).queue(stage))
        else:
            with kombu.Connection(self.server.url) as connection:
                connection.default_channel.queue_purge(f"{self.settings.instance}.{stage}")

    def drop(self) -> None:
        """Forget every queue."""
        if self.server is None:
            with redis.Redis.from_url(self.settings.broker_location) as client:
                client.flushall()
        else:
            with kombu.Connection(self.server.url) as connection:
                for stage in QUEUES:
                    for name in (f"{self.settings.instance}.{stage}", f"{self.settings.instance}.{stage}.malformed"):
                        connection.default_channel.queue_delete(name)
                connection.default_channel.exchange_delete(self.settings.instance)

    def send(self, stage: str, body: object, task: str = HANDLE_TASK, **message: Any) -> None:
        """Send Celery's message of a task, as any client may."""
        app = make_app(self.settings)
        with app.connection_for_write() as connection:
            connection.Producer().publish(
                body,
                exchange=self.settings.instance if self.server else "sluice",
                routing_key=f"{stage}.permit",
                serializer="json",
                headers={"lang": "py", "task": task, "id": "x"},
                **message,
            )
        app.close()


def declare_quorum(channel: rabbit.Channel, queue: str, **named: Any) -> Any:
    of_type = {} if named.get("passive") else {"arguments": {"x-queue-type": "quorum"}}
    return amqp.Channel.queue_declare(channel, queue, **named | of_type)


@pytest.fixture(params=BROKERS)
def broker(request: pytest.FixtureRequest, valkey: Valkey, monkeypatch: pytest.MonkeyPatch) -> Iterator[Broker]:
    name = f"t{secrets.token_hex(6)}"
    if request.param == "valkey":
        settings = valkey.settings.model_copy(update={"instance": name})
        yield declared(Broker(settings, None))
        return
    server = request.getfixturevalue("rabbitmq")
    settings = valkey.settings.model_copy(update={"instance": name, "wake_up_url": server.url})
    broker = Broker(settings, server)
    if request.param == "quorum":  # the default of its virtual host, which RabbitMQ has from 3.11 on
        monkeypatch.setattr(rabbit.Channel, "queue_declare", declare_quorum)
    yield declared(broker)
    broker.drop()


def declared(broker: Broker) -> Broker:
    transport = Transport(broker.settings)
    transport.declare()
    transport.close()
    return broker


@pytest.fixture
def transport(broker: Broker) -> Iterator[Transport]:
    transport = Transport(broker.settings)
    yield transport
    transport.close()


class Taker:
    """A worker's channel, as Celery drives one."""

    def __init__(self, broker: Broker, stage: str = "crawl", *, at_once: int = 10, name: str = "w1") -> None:
        self.app = make_app(broker.settings, worker=name)
        self.connection = self.app.connection_for_read()
        self.channel = self.connection.channel()
        self.channel.basic_qos(0, at_once, False)
        self.taken: list[Any] = []
        queue = self.app.amqp.queues[stage]
        consumer = self.app.amqp.TaskConsumer(self.channel, [queue], on_message=self.taken.append)
        consumer.consume()

    @property
    def ids(self) -> list[str]:
        """The events of what it has taken, in order."""
        return [message.decode()[0][0] for message in self.taken]

    def take(self, count: int) -> list[str]:
        """Take until it has so many; their events."""
        deadline = time.monotonic() + 20
        while len(self.taken) < count and time.monotonic() < deadline:
            self.step()
        return self.ids

    def step(self) -> None:
        """Take what comes within a moment."""
        with suppress(TimeoutError):
            self.connection.drain_events(timeout=STEP_SECONDS)

    def die(self) -> None:
        """End as a process that is killed does: the broker sees its connection end."""
        self.connection.collect()


@pytest.fixture
def taker(broker: Broker) -> Iterator[Taker]:
    taker = Taker(broker)
    yield taker
    with suppress(Exception):
        taker.connection.close()


def wake_ups(count: int, stage: str = "crawl") -> list[WakeUp]:
    return [WakeUp(stage, new_event_id()) for _ in range(count)]


def ids_of(published: Sequence[WakeUp]) -> list[str]:
    return [event_id for _, event_id in published]


# -- publish and take


def test_what_is_published_is_taken_once_in_order(transport: Transport, taker: Taker) -> None:
    published = wake_ups(5)
    assert transport.publish_wake_ups(published) == 5
    assert taker.take(5) == ids_of(published)
    for message in taker.taken:
        message.ack()
    taker.step()
    assert len(taker.taken) == 5


def test_celery_gets_the_task_its_event_and_the_key_that_names_the_stage(transport: Transport, taker: Taker) -> None:
    published = wake_ups(1)
    transport.publish_wake_ups(published)
    taker.take(1)
    message = taker.taken[0]
    assert message.headers["task"] == HANDLE_TASK
    assert list(message.decode()) == [ids_of(published), {}, {}]
    assert message.delivery_info["routing_key"] == "crawl.permit"


def test_each_stage_has_a_queue_of_its_own(transport: Transport, broker: Broker) -> None:
    published = [WakeUp(stage, new_event_id()) for _ in range(3) for stage in QUEUES]
    assert transport.publish_wake_ups(published) == 3 * len(QUEUES)
    until(lambda: all(transport.queued(stage) == 3 for stage in QUEUES))
    chunk = Taker(broker, "chunk")
    assert chunk.take(3) == [event_id for stage, event_id in published if stage == "chunk"]
    chunk.connection.close()


def test_many_threads_publish_at_once(transport: Transport) -> None:
    def publish() -> None:
        for _ in range(5):
            assert transport.publish_wake_ups(wake_ups(3)) == 3

    threads = [threading.Thread(target=publish) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    until(lambda: transport.queued("crawl") == 240)


def test_more_than_a_batch_arrives_in_order(
    transport: Transport, taker: Taker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sluice.workers.broker.transport.BATCH_WAKE_UPS", 4)
    published = wake_ups(10)
    assert transport.publish_wake_ups(published) == 10
    assert taker.take(10) == ids_of(published)


def test_instances_that_share_a_broker_get_their_own(transport: Transport, broker: Broker) -> None:
    other = Broker(broker.settings.model_copy(update={"instance": f"o{secrets.token_hex(6)}"}), broker.server)
    elsewhere = Transport(declared(other).settings)
    transport.publish_wake_ups(wake_ups(2))
    until(lambda: transport.queued("crawl") == 2)
    assert elsewhere.queued("crawl") == 0
    elsewhere.close()
    other.drop() if broker.server else None


# -- depth


def test_the_depth_leaves_out_what_workers_have_taken(transport: Transport, broker: Broker) -> None:
    transport.publish_wake_ups(wake_ups(5))
    until(lambda: transport.queued("crawl") == 5)
    taker = Taker(broker, at_once=2)
    taker.take(2)
    until(lambda: transport.queued("crawl") == 3)
    taker.connection.close()


def test_a_purged_queue_has_none(transport: Transport, broker: Broker) -> None:
    transport.publish_wake_ups(wake_ups(5))
    until(lambda: transport.queued("crawl") == 5)
    broker.purge("crawl")
    assert transport.queued("crawl") == 0


# -- acknowledge, put back, die


def test_no_more_is_taken_than_is_asked_for(transport: Transport, broker: Broker) -> None:
    taker = Taker(broker, at_once=2)
    published = wake_ups(5)
    transport.publish_wake_ups(published)
    taker.take(2)
    taker.step()
    assert taker.ids == ids_of(published)[:2]
    taker.taken[0].ack()
    assert taker.take(3) == ids_of(published)[:3]
    taker.connection.close()


def test_what_is_put_back_comes_again_and_what_is_acknowledged_does_not(transport: Transport, taker: Taker) -> None:
    published = wake_ups(2)
    transport.publish_wake_ups(published)
    first, second = taker.take(2)
    taker.taken[1].ack()
    taker.taken[0].reject(requeue=True)
    assert taker.take(3) == [first, second, first]
    taker.taken[2].ack()
    taker.step()
    assert transport.queued("crawl") == 0


def test_what_a_dead_worker_had_in_hand_goes_to_another(transport: Transport, broker: Broker) -> None:
    dead = Taker(broker, name="w1")
    transport.wake_ups.put_back_orphans("crawl", "w1")
    published = wake_ups(3)
    transport.publish_wake_ups(published)
    dead.take(3)
    dead.taken[0].ack()
    dead.die()
    heir = Taker(broker, name="w2")

    def put_back() -> bool:
        transport.wake_ups.put_back_orphans("crawl", "w2")
        heir.step()
        return len(heir.taken) == 2

    until(put_back)
    assert sorted(heir.ids) == sorted(ids_of(published)[1:])
    heir.connection.close()


# -- what is no wake-up


def parked_by(transport: Transport, stage: str = "crawl") -> list[tuple[bytes, str, str]]:
    letters: list[tuple[bytes, str, str]] = []

    def park(item: bytes, reason: str, error: InvalidInput) -> None:
        letters.append((item, reason, error.field))

    while transport.wake_ups.park_malformed(stage, park):  # type: ignore[arg-type]
        pass
    return letters


@pytest.mark.parametrize(
    ("body", "message", "expected"),
    [
        pytest.param([["evt_1"], {}, {}], {}, ("malformed", "body"), id="no event id"),
        pytest.param({"a": 1}, {}, ("malformed", "body"), id="another form"),
        pytest.param([[new_event_id()], {}, {"chord": {"task": "rm"}}], {}, ("malformed", "body"), id="a chord"),
        pytest.param([[new_event_id()], {}, {}], {"task": "rm"}, ("unroutable", "headers.task"), id="another task"),
        pytest.param("x" * 20_000, {}, ("malformed", "item"), id="too large"),
    ],
)
def test_what_is_no_wake_up_is_parked_once_and_stops_no_worker(
    transport: Transport, broker: Broker, taker: Taker, body: object, message: dict[str, Any], expected: tuple[str, str]
) -> None:
    broker.send("crawl", body, **message)
    published = wake_ups(1)
    transport.publish_wake_ups(published)
    assert taker.take(1) == ids_of(published)
    letters: list[tuple[bytes, str, str]] = []
    until(lambda: bool(letters.extend(parked_by(transport)) or letters))
    assert [found[1:] for found in letters] == [expected]
    assert isinstance(json.loads(letters[0][0]), dict)
    assert parked_by(transport) == []


def test_an_item_that_could_not_be_parked_stays(transport: Transport, broker: Broker, taker: Taker) -> None:
    def is_away(*_: object) -> None:
        raise Unavailable("the ledger does not answer")

    def fails() -> bool:
        try:
            return transport.wake_ups.park_malformed("crawl", is_away)
        except Unavailable:
            return True

    broker.send("crawl", {"a": 1})
    taker.step()
    until(fails)
    letters: list[tuple[bytes, str, str]] = []
    until(lambda: bool(letters.extend(parked_by(transport)) or letters))
    assert len(letters) == 1


def test_of_a_message_with_foreign_headers_the_event_alone_is_taken(broker: Broker, taker: Taker) -> None:
    event_id = new_event_id()
    broker.send("crawl", [[event_id], {}, {}], expiration=3_600, priority=0)
    assert taker.take(1) == [event_id]
    assert set(taker.taken[0].headers) <= {"lang", "task", "id", "ignore_result"}


# -- a broker that forgets


def test_a_broker_that_forgot_its_queues_takes_wake_ups_again(transport: Transport, broker: Broker) -> None:
    transport.publish_wake_ups(wake_ups(1))
    broker.drop()
    with suppress(Unavailable):
        assert transport.queued("crawl") == 0
    transport.publish_wake_ups(wake_ups(1))
    transport.declare()
    broker.purge("crawl")
    assert transport.publish_wake_ups(wake_ups(2)) == 2
    until(lambda: transport.queued("crawl") == 2)
