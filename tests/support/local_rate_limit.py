"""The lines of turns of `ingest.politeness.rate_limit.RateLimitStore`, kept in this process by a clock of the test's own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sluice.ingest.politeness.rate_limit import (
    KEPT_SECONDS,
    LONGEST_SECONDS,
    RECOVERY,
    SLOW_KEPT_SECONDS,
    HostRateLimit,
    Line,
    Ticket,
    Turn,
    micro,
)

_MICRO = 1_000_000
_FEWEST_TO_SWEEP = 1_000
_NEVER = -(10**18)


def local_rate_limit(rate: float, *, clock: Callable[[], float] = time.monotonic, **options: Any) -> HostRateLimit:
    return HostRateLimit(rate, LocalRateLimitStore(clock), clock=clock, **options)


@dataclass(slots=True)
class _State:
    """The fields of a line, as in the broker. `until` is when it may be forgotten."""

    next: int = _NEVER
    last: int = _NEVER
    closed: int = _NEVER
    era: int = 0
    interval: int = 0
    slow: int = 0
    slowed: int = _NEVER
    until: int = _NEVER

    def least(self, line: Line) -> int:
        """Between two turns, as it is now."""
        return max(line.interval, self.slow)

    def free_at(self, line: Line, now: int) -> int:
        """The next free moment."""
        return max(now, self.next, self.last + self.least(line), self.closed)

    def reserve(self, line: Line, moment: int, now: int) -> Ticket:
        """The ticket for a free moment."""
        self.next = moment + self.least(line)
        self.keep(line, now)
        return Ticket(self.era, moment)

    def open_at(self, line: Line, ticket: Ticket) -> int:
        """When the ticket's holder may go: not at its moment where the turn before began late."""
        return max(ticket.moment, self.last + self.least(line), self.closed)

    def begin(self, line: Line, now: int) -> None:
        """A turn begins."""
        self.last, self.interval = now, line.interval
        self.next = max(self.next, now + self.least(line))
        self.keep(line, now)

    def keep(self, line: Line, now: int) -> None:
        """Remember it for as long as it matters."""
        kept = micro(SLOW_KEPT_SECONDS if self.slow else KEPT_SECONDS) + 2 * line.interval
        self.until = max(now, self.next, self.closed) + kept


class LocalRateLimitStore:
    """Lines of this process. `clock` gives seconds that only grow. Safe across threads."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._states: dict[str, _State] = {}
        self._sweep_at = _FEWEST_TO_SWEEP
        self._guard = threading.Lock()

    def turn(self, lines: Sequence[Line], tickets: Sequence[Ticket], most_seconds: float) -> Turn:
        """As `RateLimitStore`."""
        with self._guard:
            now = self._now()
            states = [self._state(line, now) for line in lines]
            is_slow, held = states[0].slow > 0, list(tickets)
            for at, (line, state) in enumerate(zip(lines, states, strict=True)):
                if at == len(held) or held[at].era != state.era:
                    moment = state.free_at(line, now)
                    if moment - now > micro(most_seconds):
                        return Turn((moment - now) / _MICRO, is_slow, tuple(held[:at]))
                    held[at:] = [state.reserve(line, moment, now)]
                if (wait := state.open_at(line, held[at]) - now) > 0:
                    return Turn(wait / _MICRO, is_slow, tuple(held))
            for line, state in zip(lines, states, strict=True):
                state.begin(line, now)
            return Turn(0.0, is_slow, tuple(held))

    def slow_down(self, line: Line, pause_seconds: float) -> None:
        """As `RateLimitStore`."""
        with self._guard:
            now = self._now()
            state = self._state(line, now)
            if now - state.slowed >= state.slow:
                before = max(state.slow, state.interval, line.interval)
                state.slow, state.slowed = min(2 * before, micro(LONGEST_SECONDS)), now
            pause = max(state.slowed + state.slow - now, micro(min(pause_seconds, LONGEST_SECONDS)))
            state.closed = max(state.closed, now + pause)
            state.next, state.era = state.closed, state.era + 1
            state.keep(line, now)

    def went_well(self, line: Line) -> None:
        """As `RateLimitStore`."""
        with self._guard:
            now = self._now()
            state = self._state(line, now)
            shorter = int(state.slow * RECOVERY)
            state.slow = shorter if shorter > line.interval else 0
            state.keep(line, now)

    def interval_seconds(self, line: Line) -> float:
        """As `RateLimitStore`."""
        with self._guard:
            return max(self._state(line, self._now()).slow, line.interval) / _MICRO

    def close(self) -> None:
        """As `RateLimitStore`."""

    def __len__(self) -> int:
        """How many lines it remembers."""
        return len(self._states)

    def _now(self) -> int:
        return int(self._clock() * _MICRO)

    def _state(self, line: Line, now: int) -> _State:
        if len(self._states) >= self._sweep_at:
            self._states = {name: state for name, state in self._states.items() if state.until > now}
            self._sweep_at = max(_FEWEST_TO_SWEEP, 2 * len(self._states))
        return self._states.setdefault(line.name, _State())
