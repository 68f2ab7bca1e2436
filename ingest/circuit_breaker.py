"""A circuit breaker, for a search provider or for a host: what keeps failing is not asked for a while.

    closed ── more than half of the last outcomes failed ──> open: not asked
       ^                                                       │ the pause is over: one may ask, the next
       └────────────────── a success ──────────────────────────┘ after another pause

Promises: while it is open, at most one caller per pause is let through, however many ask at once; a caller that is
let through and never tells how it went costs one pause and nothing else. Each process looks for itself.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass

from sluice.contracts.errors import Unavailable

MOST_HOSTS = 10_000
"""Hosts remembered at a time; what is known of one is some 500 bytes."""


class CircuitOpen(Unavailable):
    """The circuit is open, so nothing was asked: this cost neither time nor money nor quota."""


class HostUnavailable(CircuitOpen):
    """A host that kept failing is not asked for a while."""

    code = "host_unavailable"


@dataclass(frozen=True, slots=True)
class BreakerRule:
    """Open when more than half of the last `window` outcomes failed, of which there must be `least`.

    While it is open, one caller is let through every `pause_seconds`.
    """

    window: int
    least: int
    pause_seconds: float


PROVIDER_PAUSE_SECONDS = 30.0
"""How long a provider is not asked that failed more than half of its last 100 calls (at least 20), before one call
tries it again: one minute's quota window passes in two such pauses."""
PROVIDER_RULE = BreakerRule(window=100, least=20, pause_seconds=PROVIDER_PAUSE_SECONDS)
"""For a search provider, which every run asks: soon a hundred outcomes speak for it or against it."""


def host_rule(pause_seconds: float) -> BreakerRule:
    """For a host, which a run sends a handful of requests: a hundred would be last week's, and at a limit of half a
    minute each even twenty failures are ten minutes of a worker."""
    return BreakerRule(window=20, least=10, pause_seconds=pause_seconds)


class FailureWindow:
    """The last outcomes of something, and whether more than half of them failed. Safe across threads."""

    def __init__(self, window: int, least: int, of: str = "calls") -> None:
        """`window` outcomes are looked back at; before there are `least`, nothing is concluded. `of` names them."""
        self._of = of
        self._least = least
        self._failed: deque[bool] = deque(maxlen=window)
        self._guard = threading.Lock()

    def record(self, *, failed: bool) -> str | None:
        """Note an outcome. Where more than half failed, how many did; the count then begins anew."""
        with self._guard:
            self._failed.append(failed)
            failures, outcomes = sum(self._failed), len(self._failed)
            if outcomes < self._least or 2 * failures <= outcomes:
                return None
            self._failed.clear()
        return f"{failures} of the last {outcomes} {self._of} failed"


class Breaker:
    """One circuit breaker. `clock` gives seconds that only grow. Safe across threads."""

    def __init__(
        self, rule: BreakerRule, *, clock: Callable[[], float], on_open: Callable[[], None] = lambda: None
    ) -> None:
        """`on_open` is called whenever it opens."""
        self._rule = rule
        self._clock = clock
        self._on_open = on_open
        self._outcomes = FailureWindow(rule.window, rule.least)
        self._open_until: float | None = None
        self._guard = threading.Lock()

    @property
    def is_open(self) -> bool:
        """Whether it is not asked at present, but for one try after each pause."""
        return self._open_until is not None

    def admit(self) -> bool:
        """Whether the caller may ask. It then tells `record` how it went."""
        with self._guard:
            if self._open_until is None:
                return True
            if self._clock() < self._open_until:
                return False
            self._open_until = self._clock() + self._rule.pause_seconds
            return True

    def record(self, *, failed: bool) -> None:
        """Take note of how asking went."""
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
    """A breaker for each host that was asked lately. Safe across threads."""

    def __init__(
        self, rule: BreakerRule, *, clock: Callable[[], float], on_open: Callable[[], None] = lambda: None
    ) -> None:
        self._rule = rule
        self._clock = clock
        self._on_open = on_open
        self._known: OrderedDict[str, Breaker] = OrderedDict()
        self._guard = threading.Lock()

    def admit(self, host: str) -> None:
        """Nothing where `host` may be asked.

        Raises:
            HostUnavailable: it kept failing, and its pause is not over.
        """
        if not self._of(host).admit():
            raise HostUnavailable(f"{host} failed most of the last times and is not asked for a while")

    def record(self, host: str, *, failed: bool) -> None:
        """Take note of how asking `host` went."""
        self._of(host).record(failed=failed)

    def _of(self, host: str) -> Breaker:
        with self._guard:
            breaker = self._known.pop(host, None) or Breaker(self._rule, clock=self._clock, on_open=self._on_open)
            self._known[host] = breaker
            if len(self._known) > MOST_HOSTS:
                self._known.popitem(last=False)
            return breaker
