"""The transport, on a real broker: it may lose everything, and must neither raise nor hang for that."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from contracts.event import Event
from contracts.ids import new_run_id
from contracts.retrieval import Query
from tests.workers.conftest import Valkey
from tests.workers.ledger_story import page
from workers import transport as transport_module
from workers.transport import Transport


@pytest.fixture
def transport(valkey: Valkey) -> Iterator[Transport]:
    transport = Transport(valkey.settings)
    yield transport
    transport.close()


def event() -> Event:
    return Event.of(page(), run_id=new_run_id(), corpus="docs")


def test_published_events_wait_in_their_stage_s_queue(transport: Transport) -> None:
    events = [event(), event()]
    assert transport.publish(events) == 2
    assert transport.queued_event_ids("crawl") == {found.id for found in events}
    assert transport.queued_event_ids("chunk") == set()


def test_a_flushed_broker_takes_events_again_once_the_queues_are_declared(transport: Transport) -> None:
    transport.publish([event()])
    transport._redis.flushall()
    transport.declare()
    again = event()
    transport.publish([again])
    assert transport.queued_event_ids("crawl") == {again.id}


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
    monkeypatch.setattr(transport_module, "PUBLISHER_WAIT_SECONDS", 0.1)
    busy = [transport._publishers.acquire() for _ in range(transport_module.PUBLISHERS)]
    assert transport.publish([event()]) == 0
    transport._publishers.release(len(busy))
    assert transport.publish([event()]) == 1


def test_announcements_reach_whoever_listens(transport: Transport) -> None:
    stopping, heard = threading.Event(), []
    told = event()

    def listen() -> None:
        for notice in transport.announcements(stopping):
            heard.append(notice)
            stopping.set()

    listener = threading.Thread(target=listen)
    listener.start()
    while not stopping.wait(0.05):
        transport.announce([told])
    listener.join(timeout=5)
    assert heard[0] == {"run_id": told.run_id, "kind": "CrawlDirected", "corpus": "docs"}


def test_a_direct_query_is_taken_once_and_its_reply_comes_back(transport: Transport) -> None:
    key = transport.send_read(Query(query="lease", corpus="docs"), None, 5.0)
    request = transport.next_read()
    assert request is not None
    assert (request.query.query, request.reply_key) == ("lease", key)
    transport.reply(key, b"found")
    assert transport.await_reply(key, 1.0) == b"found"
    assert transport.await_reply(key, 0.1) is None


def test_a_direct_query_that_nobody_waits_for_any_more_is_not_answered(transport: Transport) -> None:
    transport.send_read(Query(query="lease", corpus="docs"), None, -1.0)
    assert transport.next_read() is None


def test_workers_that_give_signs_of_life_are_counted_by_stage(transport: Transport) -> None:
    for name in ("crawl-a-1", "crawl-b-1"):
        transport.say_present("crawl", name)
    present = transport.present_workers()
    assert (present["crawl"], present["chunk"]) == (2, 0)
