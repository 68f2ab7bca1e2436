"""A circuit breaker opens when most fails, lets one through per pause, and closes when one succeeds."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.ingest.circuit_breaker import (
    MOST_HOSTS,
    PROVIDER_RULE,
    Breaker,
    BreakerRule,
    HostBreakers,
    HostUnavailable,
    host_rule,
)


class Stopwatch:
    """Seconds that pass when a test says so."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Stopwatch:
    return Stopwatch()


def broken(rule: BreakerRule, clock: Stopwatch) -> Breaker:
    breaker = Breaker(rule, clock=clock)
    for _ in range(rule.least):
        breaker.record(failed=True)
    return breaker


@pytest.mark.parametrize("rule", [PROVIDER_RULE, host_rule(60.0)])
def test_it_opens_when_more_than_half_failed_and_not_before_enough_was_seen(
    rule: BreakerRule, clock: Stopwatch
) -> None:
    opened: list[int] = []
    breaker = Breaker(rule, clock=clock, on_open=lambda: opened.append(1))
    for _ in range(rule.least - 1):
        breaker.record(failed=True)
        assert breaker.admit()
    breaker.record(failed=True)
    assert not breaker.admit()
    assert opened == [1]


def test_half_is_not_more_than_half(clock: Stopwatch) -> None:
    breaker = Breaker(PROVIDER_RULE, clock=clock)
    for number in range(1_000):
        breaker.record(failed=number % 2 == 1)
    assert not breaker.is_open
    breaker.record(failed=True)
    assert breaker.is_open


def test_what_is_long_past_is_forgotten(clock: Stopwatch) -> None:
    breaker = Breaker(host_rule(60.0), clock=clock)
    for failed in [False] * 100 + [True] * 10:
        breaker.record(failed=failed)
    assert not breaker.is_open
    breaker.record(failed=True)
    assert breaker.is_open


def test_one_is_let_through_per_pause_however_many_ask_at_once(clock: Stopwatch) -> None:
    breaker = broken(host_rule(60.0), clock)
    for moment, admitted in ((59.9, 0), (60.1, 1), (60.2, 0), (120.0, 0), (120.2, 1)):
        clock.now = moment
        with ThreadPoolExecutor(8) as many:
            assert sum(many.map(lambda _: breaker.admit(), range(16))) == admitted


def test_a_success_closes_it_and_a_failure_leaves_it_open(clock: Stopwatch) -> None:
    breaker = broken(host_rule(60.0), clock)
    clock.now = 61.0
    assert breaker.admit()
    breaker.record(failed=True)
    assert not breaker.admit()
    clock.now = 122.0
    assert breaker.admit()
    breaker.record(failed=False)
    assert breaker.admit()
    for _ in range(9):
        breaker.record(failed=True)
    assert breaker.admit(), "the count began anew"


@given(st.lists(st.booleans(), max_size=300))
def test_it_is_open_only_after_most_of_a_window_failed(outcomes: list[bool]) -> None:
    rule, seen = BreakerRule(window=10, least=4, pause_seconds=1.0), []
    breaker = Breaker(rule, clock=Stopwatch())
    for failed in outcomes:
        seen.append(failed)
        breaker.record(failed=failed)
        if breaker.is_open:
            break
    last = seen[-10:]
    assert breaker.is_open == (len(last) >= 4 and 2 * sum(last) > len(last))


def test_each_host_has_its_own_and_only_the_latest_are_remembered(clock: Stopwatch) -> None:
    hosts = HostBreakers(host_rule(60.0), clock=clock)
    for _ in range(10):
        hosts.record("https://dead.example", failed=True)
    hosts.admit("https://well.example")
    with pytest.raises(HostUnavailable, match="dead"):
        hosts.admit("https://dead.example")
    for number in range(MOST_HOSTS):
        hosts.record(f"https://{number}.example", failed=False)
    hosts.admit("https://dead.example")
