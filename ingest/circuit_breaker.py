"""A circuit breaker for a search provider or a host: one that keeps failing gets no requests for a while.

    closed ── more than half of the last outcomes failed ──> open: no requests
       ^                                                       │ the pause is over: one request passes, the next
       └────────────────── a success ──────────────────────────┘ after another pause

Promises: while it is open, it admits at most one caller per pause, however many ask at once; an admitted caller
that never reports an outcome costs one pause and nothing else. Each process keeps its own count.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial

from sluice.contracts.errors import Unavailable

MOST_HOSTS = 10_000
"""Most hosts remembered at a time; one takes some 500 bytes."""


class CircuitOpen(Unavailable):
    """The circuit is open, so no request was sent: this cost neither time nor money nor quota."""


class HostUnavailable(CircuitOpen):
    """A host that kept failing gets no requests for a while."""

    code = "host_unavailable"


@dataclass(frozen=True, slots=True)
class BreakerRule:
    """Opens when more than half of the last `window` outcomes failed, of which there must be at least `least`.

    While it is open, it admits one caller every `pause_seconds`.
    """

    window: int
    least: int
    pause_seconds: float


PROVIDER_PAUSE_SECONDS = 30.0
"""Pause of a provider that failed more than half of its last 100 calls (at least 20) before one call tries it again:
one minute's quota window passes in two pauses."""
PROVIDER_RULE = BreakerRule(window=100, least=20, pause_seconds=PROVIDER_PAUSE_SECONDS)
"""Rule for a search provider, which every run calls: a hundred outcomes soon accumulate."""


def host_rule(pause_seconds: float) -> BreakerRule:
    """Return the rule for a host. A run sends it a handful of requests: a hundred outcomes would reach back a week, and
    even twenty failures, at half a minute each, are ten minutes of a worker."""
    return BreakerRule(window=20, least=10, pause_seconds=pause_seconds)


class FailureWindow:
    """The last outcomes of one kind of call, and whether more than half of them failed. Safe across threads."""

    def __init__(self, window: int, least: int, of: str = "calls") -> None:
        """Keep the last `window` outcomes; conclude nothing before there are `least`. `of` names them in messages."""
        self._of = of
        self._least = least
        self._failed: deque[bool] = deque(maxlen=window)
        self._guard = threading.Lock()

    def record(self, *, failed: bool) -> str | None:
        """Record an outcome. If more than half failed, return a message with the count and start anew."""
        with self._guard:
            self._failed.append(failed)
            failures, outcomes = sum(self._failed), len(self._failed)
            if outcomes < self._least or 2 * failures <= outcomes:
                return None
            self._failed.clear()
        return f"{failures} of the last {outcomes} {self._of} failed"


class Breaker:
    """One circuit breaker. `clock` returns monotonic seconds. Safe across threads."""

    def __init__(
        self, rule: BreakerRule, *, clock: Callable[[], float], on_open: Callable[[], None] = lambda: None
    ) -> None:
        """`on_open` is called whenever the breaker opens."""
        self._rule = rule
        self._clock = clock
        self._on_open = on_open
        self._outcomes = FailureWindow(rule.window, rule.least)
        self._open_until: float | None = None
        self._guard = threading.Lock()

    @property
    def is_open(self) -> bool:
        """Whether calls are blocked, except for one try after each pause."""
        return self._open_until is not None

    def admit(self) -> bool:
        """Return whether the caller may make its call. The caller then reports the outcome to `record`."""
        with self._guard:
            if self._open_until is None:
                return True
            if self._clock() < self._open_until:
                return False
            self._open_until = self._clock() + self._rule.pause_seconds
            return True

    def record(self, *, failed: bool) -> None:
        """Record the outcome of a call."""
        with self._guard:
            was_open = self._open_until is not None
            opens = not was_open and self._outcomes.record(failed=failed) is not None
            if opens:
                self._open_until = self._clock() + self._rule.pause_seconds
            elif was_open and not failed:
                self._open_until = None
        if opens:
            self._on_open()


class HostBreakers:
    """One breaker for each recently requested host. Safe across threads."""

    def __init__(
        self, rule: BreakerRule, *, clock: Callable[[], float], on_open: Callable[[str], None] = lambda host: None
    ) -> None:
        """`on_open` is called with a host whenever its breaker opens."""
        self._known = lru_cache(MOST_HOSTS)(lambda host: Breaker(rule, clock=clock, on_open=partial(on_open, host)))
        self._guard = threading.Lock()

    def admit(self, host: str) -> None:
        """Return if `host` may be requested. Raises HostUnavailable if it kept failing and its pause is not over."""
        if not self._of(host).admit():
            raise HostUnavailable(f"{host} failed most of the last times and is not asked for a while")

    def record(self, host: str, *, failed: bool) -> None:
        """Record the outcome of a request to `host`."""
        self._of(host).record(failed=failed)

    def _of(self, host: str) -> Breaker:
        with self._guard:  # two threads that meet a new host share its breaker
            return self._known(host)
