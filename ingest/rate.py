"""How often a host is asked, by all workers together.

A moving window per host, kept in the broker when one is given and in this process otherwise: never more
than the rate's requests in any window, wherever they start. Keys:

    <prefix>:rate/LIMITER/host/<host>/<requests>/<multiple>/<unit>    expires with its window

A worker whose turn is too far off gets `Overloaded` and hands its page back to the queue.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from fractions import Fraction

from limits import RateLimitItem, RateLimitItemPerSecond
from limits.errors import StorageError
from limits.storage import MemoryStorage, RedisStorage
from limits.strategies import MovingWindowRateLimiter

from contracts.errors import Overloaded
from ingest.wanted import LOOK_SECONDS, Wanted, always

SMALLEST_STEP_SECONDS = 0.001
BROKER_TIMEOUT_SECONDS = 5.0
BROKER_RETRY_SECONDS = 5.0
"""When a page comes back whose rate could not be counted: a broker that was restarted is there again by then."""


class HostRate:
    """Turns at hosts, shared through the broker at `broker_url`."""

    def __init__(
        self,
        requests_per_second: float,
        *,
        max_wait_seconds: float,
        broker_url: str | None = None,
        key_prefix: str = "sluice",
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
        wanted: Wanted = always,
    ) -> None:
        """`wanted` is called now and then while a turn is waited for; what it raises ends the waiting."""
        self._requests_per_second = requests_per_second
        self._max_wait_seconds = max_wait_seconds
        prefix = f"{key_prefix}:rate"
        self._windows = MovingWindowRateLimiter(_broker(broker_url, prefix) if broker_url else MemoryStorage())
        self._clock = clock
        self._sleep = sleep
        self._wanted = wanted

    def wait_turn(self, host: str, *, interval_seconds: float = 0.0, at_most_seconds: float = math.inf) -> float:
        """Wait until `host` may be asked once more; returns the seconds waited.

        `interval_seconds` is the least time between two requests (a Crawl-delay); it can only slow down.

        Raises:
            Overloaded: the turn comes later than `max_wait_seconds` or `at_most_seconds`, or the broker does not
                answer, which is no fault of the host; says when to come back.
        """
        most_seconds = min(self._max_wait_seconds, at_most_seconds)
        window = window_of(self._requests_per_second, interval_seconds)
        started = self._clock()
        try:
            while not self._windows.hit(window, "host", host):
                self._pause(self._until_next(window, host, most_seconds - (self._clock() - started)))
        except StorageError as error:
            why = f"the broker does not answer for the rate of {host}"
            raise Overloaded(why, retry_after_seconds=BROKER_RETRY_SECONDS) from error
        return self._clock() - started

    def _until_next(self, window: RateLimitItem, host: str, left_seconds: float) -> float:
        opens_at = self._windows.get_window_stats(window, "host", host).reset_time
        pause_seconds = max(opens_at - self._clock(), SMALLEST_STEP_SECONDS)
        if pause_seconds > left_seconds:
            raise Overloaded(f"the rate of {host} is used up", retry_after_seconds=pause_seconds)
        return pause_seconds

    def _pause(self, seconds: float) -> None:
        until = self._clock() + seconds
        while (left := until - self._clock()) > 0:
            self._wanted()
            self._sleep(min(left, LOOK_SECONDS))


def _broker(url: str, prefix: str) -> RedisStorage:
    return RedisStorage(url, key_prefix=prefix, wrap_exceptions=True, socket_timeout=BROKER_TIMEOUT_SECONDS)


def window_of(requests_per_second: float, interval_seconds: float = 0.0) -> RateLimitItem:
    """The rate as whole requests in whole seconds: 2.5 per second is 5 in 2 s, 0.3 is 1 in 4 s (rounded down)."""
    if interval_seconds * requests_per_second > 1:
        return RateLimitItemPerSecond(1, math.ceil(interval_seconds))
    if requests_per_second < 1:
        return RateLimitItemPerSecond(1, math.ceil(1 / requests_per_second))
    rate = Fraction(requests_per_second).limit_denominator(4)
    return RateLimitItemPerSecond(rate.numerator, rate.denominator)
