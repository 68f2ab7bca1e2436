"""The transport, on a real broker: it may lose everything, and must neither raise nor hang for that."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
import redis

from sluice.contracts.errors import Unavailable
from sluice.contracts.event import QUEUES, Event, Gap, GapFound, new_event_id, new_run_id
from sluice.contracts.retrieval import Query
from sluice.ledger.events.outbox import WakeUp
from sluice.workers.broker import transport as transport_module
from sluice.workers.broker.keys import Keys, wake_up_in
from sluice.workers.broker.transport import Transport
from tests.support.ledger_story import page
from tests.support.valkey import Valkey

KEYS = Keys("sluice")


@pytest.fixture
def transport(valkey: Valkey) -> Iterator[Transport]:
    transport = Transport(valkey.settings)
    yield transport
    transport.close()


@pytest.fixture
def broker(valkey: Valkey) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(valkey.settings.broker_location) as client:
        yield client


def event() -> Event:
    return Event.of(page(), run_id=new_run_id(), corpus="docs")


def raw_items(broker: redis.Redis, stage: str) -> list[bytes]:
    return broker.lrange(KEYS.queue(stage), 0, -1)[::-1]


def test_published_events_wait_in_their_stage_s_queue_as_wake_ups(transport: Transport, broker: redis.Redis) -> None:
    events = [event(), event()]
    assert transport.publish(events) == 2
    assert [transport.queued("crawl"), transport.queued("chunk")] == [2, 0]
    assert [wake_up_in(item, "crawl") for item in raw_items(broker, "crawl")] == [found.id for found in events]


def test_an_event_without_a_queue_is_not_published(transport: Transport) -> None:
    recorded = Event.of(GapFound(gap=Gap(stage="crawl", subject="x", reason="policy")), run_id="run_1", corpus="docs")
    assert transport.publish([recorded]) == 0


def test_wake_ups_of_many_stages_and_more_than_a_batch_reach_their_queues_in_order(
    transport: Transport, broker: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport_module, "BATCH_WAKE_UPS", 10)
    wake_ups = [WakeUp(stage, new_event_id()) for _ in range(5) for stage in QUEUES]
    assert transport.publish_wake_ups(wake_ups) == 5 * len(QUEUES)
    for stage in QUEUES:
        found = [wake_up_in(item, stage) for item in raw_items(broker, stage)]
        assert found == [event_id for queue, event_id in wake_ups if queue == stage]


def test_a_flushed_broker_takes_wake_ups_again_at_once(transport: Transport, broker: redis.Redis) -> None:
    transport.publish([event()])
    broker.flushall()
    assert transport.publish([event()]) == 1
    assert transport.queued("crawl") == 1
    transport.declare()
    assert broker.scard(KEYS.bindings) == len(QUEUES)


@pytest.mark.own_broker
def test_a_connection_that_broke_since_it_was_last_used_costs_no_wake_up(transport: Transport, valkey: Valkey) -> None:
    assert transport.publish([event()]) == 1
    valkey.kill()
    valkey.start()
    assert transport.publish([event(), event()]) == 2


def test_a_queue_that_is_none_keeps_no_wake_up_of_another_stage_back(transport: Transport, broker: redis.Redis) -> None:
    broker.set(KEYS.queue("crawl"), "mine")
    transport.publish_wake_ups([WakeUp("crawl", new_event_id()), WakeUp("chunk", new_event_id())])
    assert transport.queued("chunk") >= 1
    assert transport.queued("crawl") == 0
    assert transport.publish([event()]) == 1
    assert transport.queued("crawl") == 1


@pytest.mark.own_broker
def test_the_length_of_a_queue_is_asked_in_vain_while_the_broker_is_away(transport: Transport, valkey: Valkey) -> None:
    valkey.kill()
    with pytest.raises(Unavailable):
        transport.queued("crawl")
    valkey.start()


@pytest.mark.own_broker
def test_publishing_to_a_broker_that_is_away_ends_soon_and_raises_nothing(transport: Transport, valkey: Valkey) -> None:
    valkey.kill()
    started = time.monotonic()
    assert transport.publish([event(), event()]) == 0
    transport.announce([event()])
    assert time.monotonic() - started < 5
    valkey.start()
    assert transport.publish([event()]) == 1


def test_publishing_while_every_publisher_is_busy_raises_nothing(
    transport: Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport.publishers, "timeout", 0.1)
    busy = [transport.publishers.get_connection() for _ in range(transport_module.PUBLISHERS)]
    assert transport.publish([event()]) == 0
    for connection in busy:
        transport.publishers.release(connection)
    assert transport.publish([event()]) == 1


def test_announcements_reach_whoever_listens_and_nothing_else_does(transport: Transport, broker: redis.Redis) -> None:
    stopping, heard = threading.Event(), []
    told = event()

    def listen() -> None:
        for notice in transport.announcements(stopping):
            heard.append(notice)
            stopping.set()

    listener = threading.Thread(target=listen)
    listener.start()
    while not stopping.wait(0.05):
        for garbage in (b"\xff", b"null", b"[]", b"{}", b'{"run_id": 7, "kind": "x", "corpus": "y"}'):
            broker.publish(KEYS.announced, garbage)
        transport.announce([told])
    listener.join(timeout=60)
    assert heard[0] == {"run_id": told.run_id, "kind": "CrawlDirected", "corpus": "docs"}


def test_a_direct_query_is_taken_once_and_its_reply_comes_back(transport: Transport) -> None:
    key = transport.send_read(Query(query="lease", corpus="docs"), None, 5.0)
    request = transport.next_read()
    assert request is not None
    assert (request.query.query, request.reply_key) == ("lease", key)
    transport.reply(key, b"found")
    assert transport.await_reply(key, 1.0) == b"found"
    assert transport.await_reply(key, 0.1) is None


def test_what_is_no_direct_query_keeps_none_waiting(transport: Transport, broker: redis.Redis) -> None:
    lane = KEYS.reads
    broker.lpush(lane, b"\xff", b"null", b"[" * 10_000, b'{"reply_key": 7}')
    key = transport.send_read(Query(query="lease", corpus="docs"), None, 5.0)
    found = [transport.next_read() for _ in range(5)]
    assert [request.reply_key for request in found if request] == [key]
    broker.delete(lane)
    broker.set(lane, "mine")
    assert transport.next_read() is None
    transport.send_read(Query(query="lease", corpus="docs"), None, 5.0)
    assert transport.next_read() is not None


def test_a_direct_query_that_nobody_waits_for_any_more_is_not_answered(transport: Transport) -> None:
    transport.send_read(Query(query="lease", corpus="docs"), None, -1.0)
    assert transport.next_read() is None


def test_workers_that_give_signs_of_life_are_counted_by_stage(transport: Transport) -> None:
    for name in ("crawl-a-1", "crawl-b-1"):
        transport.say_present("crawl", name)
    present = transport.present_workers()
    assert (present["crawl"], present["chunk"]) == (2, 0)


def parked_by(transport: Transport) -> list[tuple[bytes, str, str]]:
    letters: list[tuple[bytes, str, str]] = []
    while transport.wake_ups.park_malformed(
        "crawl", lambda item, reason, error: letters.append((item, reason, error.field))
    ):
        pass
    return letters


def test_malformed_items_are_parked_once_each_the_oldest_first(transport: Transport, broker: redis.Redis) -> None:
    broker.lpush(KEYS.malformed("crawl"), b"first", b"second", b"second")
    assert parked_by(transport) == [(item, "malformed", "item") for item in (b"first", b"second", b"second")]
    assert broker.exists(KEYS.malformed("crawl"), KEYS.parking("crawl")) == 0


def test_an_item_that_could_not_be_parked_stays(transport: Transport, broker: redis.Redis) -> None:
    def is_away(*_: object) -> None:
        raise Unavailable("the ledger does not answer")

    broker.lpush(KEYS.malformed("crawl"), b"garbage")
    with pytest.raises(Unavailable):
        transport.wake_ups.park_malformed("crawl", is_away)
    assert parked_by(transport) == [(b"garbage", "malformed", "item")]


def test_one_worker_at_a_time_parks(transport: Transport, broker: redis.Redis) -> None:
    broker.lpush(KEYS.malformed("crawl"), b"garbage")
    meanwhile: list[object] = []
    transport.wake_ups.park_malformed("crawl", lambda *_: meanwhile.extend(parked_by(transport)))
    assert meanwhile == []
    assert parked_by(transport) == []


def test_an_item_that_this_release_knows_goes_back_to_its_queue(transport: Transport, broker: redis.Redis) -> None:
    published = event()
    transport.publish([published])
    broker.lmove(KEYS.queue("crawl"), KEYS.malformed("crawl"))
    assert parked_by(transport) == []
    assert [wake_up_in(item, "crawl") for item in raw_items(broker, "crawl")] == [published.id]
