"""What lies in a queue never stops a worker, and what a worker takes is never lost: on a real broker."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import pickle
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import kombu
import pytest
import redis
from hypothesis import given
from hypothesis import strategies as st

from sluice.contracts.errors import InvalidInput
from sluice.contracts.event import Event, Next, new_event_id, new_run_id
from sluice.contracts.operations.dead_letters import DeadLetterPage
from sluice.ledger.events.outbox import WakeUp
from sluice.ledger.ledger import Ledger, NewRun
from sluice.workers.broker import celery_app as app_module
from sluice.workers.broker import redis_channel as channel_module
from sluice.workers.broker.celery_app import make_app
from sluice.workers.broker.keys import HANDLE_TASK, Keys, reason_of, wake_up_in
from sluice.workers.broker.transport import Transport
from sluice.workers.settings import Settings
from tests.support.ledger_story import page
from tests.support.repository import REPOSITORY
from tests.support.valkey import Valkey
from tests.support.waiting import until

KEYS = Keys("sluice")

EVENT_ID = "evt_0123456789ab0123456789abcdef"

Json = dict[str, Any]


def body_of(value: object) -> str:
    return base64.b64encode(json.dumps(value).encode()).decode()


def envelope(stage: str = "crawl", event_id: str = EVENT_ID) -> Json:
    return {
        "body": body_of([[event_id], {}, {}]),
        "content-encoding": "utf-8",
        "content-type": "application/json",
        "headers": {"lang": "py", "task": HANDLE_TASK, "id": "1"},
        "properties": {
            "delivery_info": {"exchange": "sluice", "routing_key": f"{stage}.permit"},
            "delivery_tag": "1",
            "body_encoding": "base64",
        },
    }


def changed(**context: object) -> bytes:
    """A wake-up with one part changed; a name with two underscores is a part of a part, Ellipsis removes it."""
    item = envelope()
    for path, value in context.items():
        *above, last = path.split("__")
        inner = item
        for name in above:
            inner = inner[name]
        if value is ...:
            del inner[last]
        else:
            inner[last] = value
    return json.dumps(item).encode()


MALFORMED: dict[str, bytes] = {
    "nothing": b"",
    "words": b"hello",
    "not UTF-8": b"\xff\xfe\x00\x80",
    "zero bytes": b"\x00" * 64,
    "null": b"null",
    "a list": b"[]",
    "a list of an envelope": json.dumps([envelope()]).encode(),
    "a number": b"7",
    "a number of 5,000 digits": b"9" * 5_000,
    "NaN": b"NaN",
    "a text": b'"wake-up"',
    "an empty object": b"{}",
    "half an envelope": json.dumps(envelope()).encode()[:-40],
    "two envelopes": json.dumps(envelope()).encode() * 2,
    "deep lists": b"[" * 10_000,
    "deep objects": b'{"a":' * 3_000,
    "half a surrogate pair in UTF-8": b'"\xed\xa0\x80"',
    "half a surrogate pair, escaped": changed(body=body_of([["evt_\ud800" + "0" * 27], {}, {}])),
    "a pickle": pickle.dumps(envelope()),
    "a pickle in its body": changed(body=base64.b64encode(pickle.dumps([[EVENT_ID], {}, {}])).decode()),
    "an envelope with much padding": changed(padding="x" * 20_000),
    "no headers": changed(headers=...),
    "headers that are a list": changed(headers=["task"]),
    "headers without a task": changed(headers__task=...),
    "a task that is a number": changed(headers__task=7),
    "no properties": changed(properties=...),
    "no delivery info": changed(properties__delivery_info=...),
    "a delivery info of text": changed(properties__delivery_info="crawl"),
    "no exchange": changed(properties__delivery_info__exchange=...),
    "a routing key that is null": changed(properties__delivery_info__routing_key=None),
    "no delivery tag": changed(properties__delivery_tag=...),
    "a delivery tag that is an object": changed(properties__delivery_tag={}),
    "no body encoding": changed(properties__body_encoding=...),
    "a body encoding nobody knows": changed(properties__body_encoding="rot13"),
    "no body": changed(body=...),
    "a body that is null": changed(body=None),
    "a body that is no base64": changed(body="%%%"),
    "a body that is no ASCII": changed(body="\ud800"),
    "a body that is no UTF-8": changed(body=base64.b64encode(b"\xff").decode()),
    "a body that is no JSON": changed(body=base64.b64encode(b"{").decode()),
    "a deep body": changed(body=base64.b64encode(b"[" * 9_000).decode()),
    "a body of NaN": changed(body=base64.b64encode(b"NaN").decode()),
    "an empty body": changed(body=body_of([])),
    "a body of an object": changed(body=body_of({"task": HANDLE_TASK, "args": [EVENT_ID]})),
    "no event id": changed(body=body_of([[], {}, {}])),
    "two event ids": changed(body=body_of([[EVENT_ID, EVENT_ID], {}, {}])),
    "an event id that is a number": changed(body=body_of([[7], {}, {}])),
    "an event id too short": changed(body=body_of([["evt_1"], {}, {}])),
    "an event id with an end of line": changed(body=body_of([[EVENT_ID + "\n"], {}, {}])),
    "a run id": changed(body=body_of([["run_" + EVENT_ID[4:]], {}, {}])),
    "named arguments": changed(body=body_of([[EVENT_ID], {"stage": "crawl"}, {}])),
    "a callback": changed(body=body_of([[EVENT_ID], {}, {"callbacks": [{"task": "rm"}]}])),
    "a chord": changed(body=body_of([[EVENT_ID], {}, {"chord": {"task": "rm"}}])),
}
UNROUTABLE: dict[str, bytes] = {
    "a task nobody knows": changed(headers__task="celery.backend_cleanup", body=body_of([[], {"a": 1}, {}])),
    "a task with a zero byte": changed(headers__task="sluice\x00handle"),
    "a task of 10,000 letters": changed(headers__task="x" * 10_000),
    "another queue's": json.dumps(envelope("chunk")).encode(),
    "a queue that begins like ours": json.dumps(envelope("crawler")).encode(),
    "another exchange's": changed(properties__delivery_info__exchange="celery"),
}
GARBAGE = {**MALFORMED, **UNROUTABLE}


# -- what is a wake-up


@pytest.mark.parametrize("what", GARBAGE)
def test_what_is_no_wake_up_is_refused_with_field_and_reason(what: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        wake_up_in(GARBAGE[what], "crawl")
    assert refused.value.field
    assert str(refused.value).isascii()
    assert "\x00" not in str(refused.value)
    assert len(str(refused.value)) < 300
    assert reason_of(refused.value) == ("malformed" if what in MALFORMED else "unroutable")


def test_however_deep_a_body_is_it_is_refused() -> None:
    for depth in range(1, 1_100):
        with pytest.raises(InvalidInput):
            wake_up_in(changed(body=base64.b64encode(b"[" * depth + b"]" * depth).decode()), "crawl")


def test_what_does_not_matter_to_a_wake_up_may_be_anything() -> None:
    odd = changed(headers__eta="\ud800", headers__timelimit={}, headers__retries="many", headers__id=[[]], more=None)
    assert wake_up_in(odd, "crawl") == EVENT_ID


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
PLACES = ["body", "headers", "headers__task", "properties", "properties__delivery_info", "properties__delivery_tag"]
PLACES += ["properties__delivery_info__exchange", "properties__delivery_info__routing_key", "properties__body_encoding"]


@given(st.sampled_from(PLACES), JSON_VALUES)
def test_whatever_a_part_holds_it_is_a_wake_up_or_refused(place: str, value: object) -> None:
    item = changed(**{place: value})
    with suppress(InvalidInput):
        assert wake_up_in(item, "crawl") == EVENT_ID


@given(st.binary(max_size=200) | JSON_VALUES.map(lambda body: changed(body=body_of(body))))
def test_whatever_an_item_holds_it_is_a_wake_up_or_refused(item: bytes) -> None:
    with pytest.raises(InvalidInput):
        wake_up_in(item, "crawl")


# -- one channel, in this process


class Taker:
    """A worker's channel, as Celery drives one."""

    def __init__(self, settings: Settings, name: str) -> None:
        app = make_app(settings, worker=name)
        self.messages: list[kombu.Message] = []
        self.connection = app.connection_for_read()
        consumer = kombu.Consumer(self.connection, [app.amqp.queues["crawl"]], accept=["json"])
        consumer.on_message = self.messages.append
        consumer.consume()

    def takes(self, timeout_seconds: float = 5.0) -> str | None:
        """The next event id, or None when there is none in time."""
        before, deadline = len(self.messages), time.monotonic() + timeout_seconds
        while len(self.messages) == before and time.monotonic() < deadline:
            try:
                self.connection.drain_events(timeout=0.1)
            except TimeoutError:
                continue
        return str(self.messages[-1].payload[0][0]) if len(self.messages) > before else None


@contextmanager
def taker(broker: Valkey, name: str = "w1") -> Iterator[Taker]:
    taker = Taker(broker.settings, name)
    try:
        yield taker
    finally:
        taker.connection.close()


@pytest.fixture
def transport(valkey: Valkey) -> Iterator[Transport]:
    transport = Transport(valkey.settings)
    yield transport
    transport.close()


@pytest.fixture
def broker(valkey: Valkey) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(valkey.settings.broker_location) as broker:
        yield broker


def ids(count: int) -> list[str]:
    return [new_event_id() for _ in range(count)]


def sends(transport: Transport, *event_ids: str) -> None:
    assert transport.publish_wake_ups([WakeUp("crawl", event_id) for event_id in event_ids]) == len(event_ids)


QUEUE = KEYS.queue("crawl")
TAKEN = KEYS.taken("crawl", "w1")
MALFORMED_LIST = KEYS.malformed("crawl")


def test_what_is_taken_is_on_the_worker_s_list_until_it_is_acknowledged(
    valkey: Valkey, transport: Transport, broker: redis.Redis
) -> None:
    first, second = ids(2)
    sends(transport, first, second)
    with taker(valkey) as worker:
        assert [worker.takes(), worker.takes()] == [first, second]
        assert (broker.llen(QUEUE), broker.llen(TAKEN)) == (0, 2)
        worker.messages[0].ack()
        [left] = broker.lrange(TAKEN, 0, -1)
        assert wake_up_in(left, "crawl") == second
        worker.messages[1].ack()
        assert broker.exists(TAKEN) == 0


def test_a_channel_that_closes_puts_back_what_it_holds_in_order(
    valkey: Valkey, transport: Transport, broker: redis.Redis
) -> None:
    sent = ids(3)
    sends(transport, *sent)
    with taker(valkey) as worker:
        assert [worker.takes(), worker.takes()] == sent[:2]
    assert (broker.llen(QUEUE), broker.llen(TAKEN)) == (3, 0)
    with taker(valkey) as worker:
        assert sorted(filter(None, [worker.takes() for _ in range(3)])) == sorted(sent)


def test_what_is_rejected_to_be_tried_again_is_taken_next(valkey: Valkey, transport: Transport) -> None:
    first, second = ids(2)
    sends(transport, first, second)
    with taker(valkey) as worker:
        assert worker.takes() == first
        worker.messages[0].reject(requeue=True)
        assert [worker.takes(), worker.takes()] == [first, second]


def test_what_is_rejected_for_good_is_gone(valkey: Valkey, transport: Transport, broker: redis.Redis) -> None:
    sends(transport, *ids(1))
    with taker(valkey) as worker:
        worker.takes()
        worker.messages[0].reject()
        assert broker.exists(QUEUE, TAKEN) == 0


def test_two_items_of_the_same_bytes_are_two_wake_ups(valkey: Valkey, broker: redis.Redis) -> None:
    item = json.dumps(envelope()).encode()
    broker.lpush(QUEUE, item, item)
    with taker(valkey) as worker:
        assert [worker.takes(), worker.takes()] == [EVENT_ID, EVENT_ID]
        worker.messages[0].ack()
        assert broker.lrange(TAKEN, 0, -1) == [item]
        worker.messages[1].ack()
        assert broker.exists(TAKEN) == 0


def test_a_worker_puts_back_what_a_dead_one_of_the_same_name_had_taken(valkey: Valkey, broker: redis.Redis) -> None:
    broker.lpush(TAKEN, json.dumps(envelope()).encode())
    with taker(valkey) as worker:
        assert worker.takes() == EVENT_ID


@pytest.mark.own_broker
def test_what_is_acknowledged_while_the_broker_is_away_comes_again(valkey: Valkey, transport: Transport) -> None:
    [event_id] = ids(1)
    sends(transport, event_id)
    with taker(valkey) as worker:
        assert worker.takes() == event_id
        valkey.kill()
        with pytest.raises(redis.ConnectionError):
            worker.messages[0].ack()
    valkey.start()
    with taker(valkey) as worker:
        assert worker.takes() == event_id


def test_what_is_no_wake_up_is_set_aside_and_the_next_wake_up_is_taken(
    valkey: Valkey, transport: Transport, broker: redis.Redis
) -> None:
    sent = ids(len(GARBAGE))
    for item, event_id in zip(GARBAGE.values(), sent, strict=True):
        broker.lpush(QUEUE, item)
        sends(transport, event_id)
    with taker(valkey) as worker:
        assert [worker.takes() for _ in sent] == sent
        assert broker.lrange(MALFORMED_LIST, 0, -1)[::-1] == list(GARBAGE.values())
        assert broker.llen(TAKEN) == len(sent)


def test_a_message_of_celery_s_own_making_is_a_wake_up(valkey: Valkey, transport: Transport) -> None:
    [event_id] = ids(1)
    transport.app.send_task(HANDLE_TASK, args=[event_id], queue="crawl", routing_key="crawl.permit")
    with taker(valkey) as worker:
        assert worker.takes() == event_id


def test_a_channel_without_a_name_publishes_and_takes_nothing(valkey: Valkey) -> None:
    with pytest.raises(InvalidInput, match="needs a name"), taker(valkey, ""):
        pass


# -- a broker in disorder


@pytest.mark.parametrize("key", [QUEUE, TAKEN, MALFORMED_LIST, KEYS.bindings])
def test_a_key_that_holds_what_does_not_belong_there_is_renamed_and_work_goes_on(
    key: str, valkey: Valkey, transport: Transport, broker: redis.Redis
) -> None:
    broker.delete(key)
    broker.set(key, "mine")
    with taker(valkey) as worker:
        assert worker.takes(1.0) is None
        broker.lpush(QUEUE, b"garbage")
        [event_id] = ids(1)
        sends(transport, event_id)
        assert worker.takes() == event_id
    if key != KEYS.bindings:
        [aside] = broker.keys(f"{key}:misplaced-*")
        assert broker.get(aside) == b"mine"
    assert broker.lrange(MALFORMED_LIST, 0, -1) == [b"garbage"]


def test_a_queue_that_turns_into_something_else_meanwhile_is_renamed(
    valkey: Valkey, transport: Transport, broker: redis.Redis
) -> None:
    first, second = ids(2)
    with taker(valkey) as worker:
        sends(transport, first)
        assert worker.takes() == first
        broker.hset(QUEUE, "a", "b")
        assert worker.takes(1.5) is None
        sends(transport, second)
        assert worker.takes() == second


@pytest.mark.own_broker
def test_a_broker_that_is_full_still_hands_out_what_it_holds_and_takes_garbage_aside(
    valkey: Valkey, transport: Transport, broker: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel_module, "REFUSED_PAUSE_SECONDS", 0.05)
    first, second = ids(2)
    sends(transport, first)
    broker.lpush(QUEUE, b"garbage")
    sends(transport, second)
    with taker(valkey) as worker:
        broker.config_set("maxmemory", "1")
        with pytest.raises(redis.OutOfMemoryError):
            broker.set("more", "x")
        assert [worker.takes(), worker.takes()] == [first, second]
        assert worker.takes(0.5) is None
        assert broker.lrange(MALFORMED_LIST, 0, -1) == [b"garbage"]
        assert broker.llen(TAKEN) == 2
        for message in worker.messages:
            message.ack()
        assert broker.exists(TAKEN) == 0
        broker.config_set("maxmemory", "0")
        third = ids(1)
        sends(transport, *third)
        assert worker.takes() == third[0]


def test_a_command_that_the_broker_refuses_costs_a_pause_and_no_item(
    valkey: Valkey, transport: Transport, broker: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel_module, "REFUSED_PAUSE_SECONDS", 0.05)
    [event_id] = ids(1)
    with taker(valkey) as worker:
        broker.acl_setuser("default", enabled=True, commands=["-blmove"])
        sends(transport, event_id)
        assert worker.takes(0.5) is None
        broker.acl_setuser("default", enabled=True, commands=["+blmove"])
        assert worker.takes() == event_id


@pytest.mark.own_broker
def test_a_broker_that_became_a_replica_is_left_for_a_new_connection(
    valkey: Valkey, transport: Transport, broker: redis.Redis
) -> None:
    sends(transport, *ids(1))
    with taker(valkey) as worker:
        broker.replicaof("127.0.0.1", "1")
        with pytest.raises(redis.ConnectionError, match="replica"):
            worker.takes()
        broker.replicaof("NO", "ONE")


# -- whichever kombu is installed


def test_a_kombu_that_was_not_verified_is_used_as_it_comes_and_understands_the_wake_ups(
    valkey: Valkey, transport: Transport, broker: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kombu, "__version__", "99.0.0")
    app_module.kombu_transport.cache_clear()
    try:
        sends(transport, *(sent := ids(2)))
        with taker(valkey) as worker:
            assert type(worker.connection.transport).__module__ == "kombu.transport.redis"
            assert [worker.takes(), worker.takes()] == sent
            assert broker.hlen("sluice:unacked") == 2
            for message in worker.messages:
                message.ack()
            assert broker.hlen("sluice:unacked") == 0
    finally:
        app_module.kombu_transport.cache_clear()


@pytest.mark.parametrize("url", ["redis://:secret@host:6380/2", "rediss://:secret@host:6380/2"])
def test_the_broker_s_url_is_read_as_kombu_reads_it(url: str, tmp_path: Path) -> None:
    connection = make_app(Settings(data_dir=tmp_path, broker_url=url)).connection_for_read()
    assert connection.get_transport_cls().Channel is channel_module.Channel
    assert (connection.hostname, connection.port, connection.password) == ("host", 6380, "secret")
    assert connection.virtual_host == "2"
    assert bool(connection.ssl) == url.startswith("rediss")


# -- what is left behind by a worker that died


def test_what_a_dead_worker_had_taken_is_put_back_and_what_a_living_one_holds_is_not(
    transport: Transport, broker: redis.Redis
) -> None:
    for name in ("dead", "alive"):
        transport.say_present("crawl", name)
        transport.wake_ups.put_back_orphans("crawl", name)
    broker.delete(KEYS.presence("crawl", "dead"))
    broker.lpush(KEYS.taken("crawl", "dead"), b"older", b"newer")
    broker.lpush(KEYS.taken("crawl", "alive"), b"held")
    broker.lpush(QUEUE, b"waiting")
    assert transport.wake_ups.put_back_orphans("crawl", "w1") == 2
    assert broker.lrange(QUEUE, 0, -1) == [b"waiting", b"newer", b"older"]
    assert broker.lrange(KEYS.taken("crawl", "alive"), 0, -1) == [b"held"]
    assert broker.smembers(KEYS.takers("crawl")) == {b"alive", b"w1"}


PROGRAM = """
import sys, time, warnings, redis
from celery.exceptions import SecurityWarning
from pathlib import Path
from sluice.workers.broker.celery_app import make_app
from sluice.workers.broker.keys import HANDLE_TASK
from sluice.workers.settings import Settings

folder, name, pool, concurrency, pause = sys.argv[1:]
settings = Settings(data_dir=Path(folder))
broker = redis.Redis.from_url(settings.broker_location)
app = make_app(settings, worker=name)

def handle(event_id):
    broker.lpush("begun", event_id)
    time.sleep(float(pause))
    broker.lpush("handled", event_id)

app.task(name=HANDLE_TASK, acks_late=True, shared=False)(handle)
warnings.filterwarnings("ignore", category=SecurityWarning)
options = dict(without_gossip=True, without_mingle=True, without_heartbeat=True, loglevel="WARNING", quiet=True)
app.Worker(queues=["crawl"], pool=pool, concurrency=int(concurrency), hostname=name + "@here", **options).start()
"""


@contextmanager
def celery_worker(
    broker: Valkey, name: str = "w1", *, pool: str = "solo", concurrency: int = 1, pause_seconds: float = 0.0
) -> Iterator[subprocess.Popen[bytes]]:
    """A real Celery worker in a process of its own, whose handler writes down what it begins and ends."""
    arguments = [str(broker.settings.data_dir), name, pool, str(concurrency), str(pause_seconds)]
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, *arguments], cwd=REPOSITORY, start_new_session=True)
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.mark.parametrize(("pool", "concurrency"), [("solo", 1), ("threads", 4), ("prefork", 2)])
def test_what_a_killed_worker_held_is_handled_by_the_next(
    pool: str, concurrency: int, valkey: Valkey, transport: Transport, broker: redis.Redis
) -> None:
    sent = ids(concurrency + 3)
    sends(transport, *sent)
    transport.wake_ups.put_back_orphans("crawl", "w1")
    with celery_worker(valkey, pool=pool, concurrency=concurrency, pause_seconds=60.0):
        until(lambda: broker.llen("begun") == concurrency)
    assert broker.llen(TAKEN) >= concurrency
    assert transport.wake_ups.put_back_orphans("crawl", "w2") >= concurrency
    assert broker.llen(QUEUE) == len(sent)
    with celery_worker(valkey, "w2", pool=pool, concurrency=concurrency) as worker:
        until(lambda: broker.llen("handled") == len(sent))
        until(lambda: not broker.exists(QUEUE, KEYS.taken("crawl", "w2")))
        assert worker.poll() is None
    assert {item.decode() for item in broker.lrange("handled", 0, -1)} == set(sent)


@pytest.mark.own_broker
def test_a_worker_outlives_its_broker_and_loses_nothing(
    valkey: Valkey, transport: Transport, broker: redis.Redis
) -> None:
    broker.config_set("appendfsync", "always")
    with celery_worker(valkey, pool="threads", concurrency=2, pause_seconds=0.5) as worker:
        sends(transport, *(before := ids(6)))
        until(lambda: broker.llen("begun") >= 2)
        valkey.kill()
        valkey.start()
        sends(transport, *(after := ids(2)))
        until(lambda: {item.decode() for item in broker.lrange("handled", 0, -1)} == {*before, *after})
        until(lambda: not broker.exists(QUEUE, TAKEN))
        assert worker.poll() is None


def test_a_worker_that_is_told_to_stop_finishes_what_it_began_and_puts_nothing_back_twice(
    valkey: Valkey, transport: Transport, broker: redis.Redis
) -> None:
    sent = ids(4)
    sends(transport, *sent)
    with celery_worker(valkey, pause_seconds=1.0) as worker:
        until(lambda: broker.llen("begun") == 1)
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(timeout=90) == 0
    begun = broker.llen("begun")
    assert broker.llen("handled") == begun
    assert broker.llen(QUEUE) == len(sent) - begun
    assert broker.exists(TAKEN) == 0


def test_a_worker_that_is_killed_between_taking_and_refusing_loses_no_garbage(
    valkey: Valkey, transport: Transport, broker: redis.Redis
) -> None:
    """As if killed there: the item lies among the taken ones, and nobody holds it."""
    transport.wake_ups.put_back_orphans("crawl", "w1")
    broker.lpush(TAKEN, b"garbage")
    transport.wake_ups.put_back_orphans("crawl", "w2")
    with taker(valkey, "w2") as worker:
        assert worker.takes(0.5) is None
    assert broker.lrange(MALFORMED_LIST, 0, -1) == [b"garbage"]


# -- the whole way: a worker of the product, a ledger, and a queue full of garbage

PRODUCT = """
import sys
from pathlib import Path
from sluice.contracts.event import Done
from sluice.workers import handlers
from sluice.workers.processes.worker import run_worker
from sluice.workers.settings import Settings

handlers.HANDLERS["CrawlDirected"] = lambda event, parts: Done()
run_worker(Settings(data_dir=Path(sys.argv[1])), "crawl")
"""

LETTERS = DeadLetterPage(stage="crawl", limit=1_000)


@contextmanager
def product_worker(broker: Valkey) -> Iterator[subprocess.Popen[bytes]]:
    """The product's own worker of the crawl stage, with a handler that only says that it is done."""
    arguments = [sys.executable, "-c", PRODUCT, str(broker.settings.data_dir)]
    process = subprocess.Popen(arguments, cwd=REPOSITORY, start_new_session=True)
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_of_garbage_among_wake_ups_every_item_is_a_dead_letter_and_every_wake_up_is_handled(
    valkey: Valkey, transport: Transport, broker: redis.Redis
) -> None:
    chance = random.Random(20)
    garbage = [*GARBAGE.values(), chance.randbytes(50_000_000), *(chance.randbytes(size) for size in range(1, 60))]
    with Ledger(valkey.settings.ledger_location) as ledger:
        events = []
        for number, item in enumerate(garbage):
            event = Event.of(page(number), run_id=new_run_id(), corpus="docs")
            ledger.create_run(NewRun(event.run_id, "crawl", "docs", "0" * 64), [(event, Next(event.body))])
            broker.lpush(QUEUE, item)
            assert transport.publish([event]) == 1
            events.append(event)
        with product_worker(valkey) as worker:
            until(lambda: len(ledger.dead_letters.list(LETTERS)) == len(garbage))
            until(lambda: {ledger.standing(event.id) for event in events} == {"settled"})
            until(lambda: not broker.exists(QUEUE, MALFORMED_LIST) and not broker.keys("sluice:taken:*"))
            assert worker.poll() is None
        parked = [ledger.dead_letters.show(letter.id) for letter in ledger.dead_letters.list(LETTERS)]
    assert sorted(letter.payload.raw for letter in parked) == sorted(garbage)
    unroutable = set(UNROUTABLE.values())
    for letter in parked:
        raw = letter.payload.raw
        assert letter.sha256 == hashlib.sha256(raw).hexdigest()
        assert letter.reason == ("unroutable" if raw in unroutable else "malformed")
        assert letter.exception_type == ("InvalidInput" if raw in unroutable else "MalformedEvent")
        assert letter.message
        assert letter.stage == "crawl"
        assert letter.deliveries == 1
        assert letter.worker


def test_workers_that_are_killed_amid_garbage_lose_none_of_it(valkey: Valkey, broker: redis.Redis) -> None:
    chance = random.Random(7)
    garbage = {f"garbage {number}".encode() for number in range(400)}
    broker.lpush(QUEUE, *garbage)
    with Ledger(valkey.settings.ledger_location) as ledger:

        def parked() -> int:
            return len(ledger.dead_letters.list(LETTERS))

        for _ in range(2):
            before = parked()
            with product_worker(valkey):
                until(lambda before=before: parked() > before)
                time.sleep(chance.uniform(0, 0.1))
        with product_worker(valkey):
            until(lambda: parked() >= len(garbage))
            until(lambda: not broker.exists(QUEUE, MALFORMED_LIST) and not broker.keys("sluice:taken:*"))
        letters = [ledger.dead_letters.show(letter.id).payload.raw for letter in ledger.dead_letters.list(LETTERS)]
    assert set(letters) == garbage
    assert len(letters) <= len(garbage) + 2
