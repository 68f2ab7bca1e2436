"""Queues for turns in Redis: when the next request to a host or a domain may go.

A turn leads through one line after the other. In each its holder first takes a ticket, the next free moment, and goes
on when that has come and the line's interval has gone by since the last turn began (virtual scheduling, ITU-T I.371,
with the ticket as the reservation and the second look as the proof). So turns come in the order of the tickets, and a
holder who comes late, or never, lets no other go too early. `slow_down` voids the tickets of a line.

In the broker one hash per line, `<prefix>:host:<host>` or `<prefix>:domain:<domain>`:

| field | holds |
|---|---|
| `next` | the next free moment, in microseconds of the broker's clock, as all moments here |
| `last` | when the last turn began |
| `closed` | until when no turn begins |
| `era` | how often the tickets were voided |
| `interval` | what the last turn asked for between two turns, in microseconds |
| `slow`, `slowed` | the interval while the host asks for less, and since when |

It expires a minute after it stops mattering, while the host is slow an hour after. A broker that lost it starts anew.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Protocol

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

BROKER_TIMEOUT_SECONDS = 5.0
BROKER_RETRY_SECONDS = 5.0
"""When a page comes back whose rate could not be counted: a broker that was restarted is there again by then."""
LONGEST_SECONDS = 3_600.0
"""The longest interval, and the longest pause, that a host can ask for: then its page is left to another run."""
KEPT_SECONDS = 60.0
SLOW_KEPT_SECONDS = 3_600.0
RECOVERY = 0.9
"""What a page that went well makes of a slowed interval: after seven of them it is half."""
_MICRO = 1_000_000
_FEWEST_TO_SWEEP = 1_000
_MOST_SECONDS = 1e8
"""Three years stand for ever: a float holds their microseconds."""
_NEVER = -(10**18)


@cache
def lua(name: str) -> str:
    """The script `ingest/politeness/lua/<name>.lua`, which the broker runs as one step."""
    return files("sluice.ingest.politeness").joinpath("lua", f"{name}.lua").read_text("utf-8")


@dataclass(frozen=True, slots=True)
class Line:
    """One line: its name, and the least time between two turns."""

    name: str
    interval_seconds: float

    @property
    def interval(self) -> int:
        """In microseconds, never rounded down."""
        return math.ceil(self.interval_seconds * _MICRO)


@dataclass(frozen=True, slots=True)
class Ticket:
    """A place in a line: a moment in microseconds, and the era in which it is good."""

    era: int
    moment: int


@dataclass(frozen=True, slots=True)
class Turn:
    """0 seconds to wait: it is here. Otherwise come back with the tickets; without new ones where it is too far off."""

    wait_seconds: float
    is_slow: bool
    tickets: tuple[Ticket, ...] = ()


class RateLimitStore(Protocol):
    """Lines for turns. Each call is one step that nothing comes between."""

    def turn(self, lines: Sequence[Line], tickets: Sequence[Ticket], most_seconds: float) -> Turn:
        """Go through `lines`, as far as it leads now. `tickets` are those of the first lines.

        No ticket is given that is more than `most_seconds` off. `is_slow` tells whether the first line is slowed.
        """
        ...

    def slow_down(self, line: Line, pause_seconds: float) -> None:
        """Double the line's interval, at most once in its own length; no turn begins for that time or the pause."""
        ...

    def went_well(self, line: Line) -> None:
        """Shorten a slowed interval by a tenth."""
        ...

    def interval_seconds(self, line: Line) -> float:
        """The least time between two turns as it is now."""
        ...

    def close(self) -> None:
        """Let go of what is held."""
        ...


@dataclass(slots=True)
class _State:
    """See the table above. `until` is when it may be forgotten."""

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
        kept = _micro(SLOW_KEPT_SECONDS if self.slow else KEPT_SECONDS) + 2 * line.interval
        self.until = max(now, self.next, self.closed) + kept


class LocalRateLimitStore:
    """Lines of this process. `clock` gives seconds that only grow. Safe across threads."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._states: dict[str, _State] = {}
        self._sweep_at = _FEWEST_TO_SWEEP
        self._guard = threading.Lock()

    def turn(self, lines: Sequence[Line], tickets: Sequence[Ticket], most_seconds: float) -> Turn:
        """See `RateLimitStore`."""
        with self._guard:
            now = self._now()
            states = [self._state(line, now) for line in lines]
            is_slow, held = states[0].slow > 0, list(tickets)
            for at, (line, state) in enumerate(zip(lines, states, strict=True)):
                if at == len(held) or held[at].era != state.era:
                    moment = state.free_at(line, now)
                    if moment - now > _micro(most_seconds):
                        return Turn((moment - now) / _MICRO, is_slow, tuple(held[:at]))
                    held[at:] = [state.reserve(line, moment, now)]
                if (wait := state.open_at(line, held[at]) - now) > 0:
                    return Turn(wait / _MICRO, is_slow, tuple(held))
            for line, state in zip(lines, states, strict=True):
                state.begin(line, now)
            return Turn(0.0, is_slow, tuple(held))

    def slow_down(self, line: Line, pause_seconds: float) -> None:
        """See `RateLimitStore`."""
        with self._guard:
            now = self._now()
            state = self._state(line, now)
            if now - state.slowed >= state.slow:
                before = max(state.slow, state.interval, line.interval)
                state.slow, state.slowed = min(2 * before, _micro(LONGEST_SECONDS)), now
            pause = max(state.slowed + state.slow - now, _micro(min(pause_seconds, LONGEST_SECONDS)))
            state.closed = max(state.closed, now + pause)
            state.next, state.era = state.closed, state.era + 1
            state.keep(line, now)

    def went_well(self, line: Line) -> None:
        """See `RateLimitStore`."""
        with self._guard:
            now = self._now()
            state = self._state(line, now)
            shorter = int(state.slow * RECOVERY)
            state.slow = shorter if shorter > line.interval else 0
            state.keep(line, now)

    def interval_seconds(self, line: Line) -> float:
        """See `RateLimitStore`."""
        with self._guard:
            return max(self._state(line, self._now()).slow, line.interval) / _MICRO

    def close(self) -> None:
        """See `RateLimitStore`."""

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


def _micro(seconds: float) -> int:
    return int(min(seconds, _MOST_SECONDS) * _MICRO)


class RedisRateLimitStore:
    """Lines of all workers, in the broker at `url`, under `prefix`, by its clock. Safe across threads.

    Every call raises `redis.RedisError` where the broker does not answer.
    """

    def __init__(self, url: str, prefix: str) -> None:
        self._redis = redis.Redis.from_url(
            url,
            socket_timeout=BROKER_TIMEOUT_SECONDS,
            socket_connect_timeout=BROKER_TIMEOUT_SECONDS,
            retry=Retry(NoBackoff(), 1),  # a connection that lay in the pool while the broker was restarted
        )
        self._prefix = prefix
        kept = f"local KEPT, SLOW_KEPT = {_micro(KEPT_SECONDS)}, {_micro(SLOW_KEPT_SECONDS)}\n" + lua("line_state")
        self._turn = self._redis.register_script(kept + lua("line_turn"))
        self._slow_down = self._redis.register_script(kept + lua("line_slow_down"))
        self._went_well = self._redis.register_script(kept + lua("line_went_well"))

    def turn(self, lines: Sequence[Line], tickets: Sequence[Ticket], most_seconds: float) -> Turn:
        """See `RateLimitStore`."""
        held = [str(part) for ticket in tickets for part in (ticket.era, ticket.moment)]
        asked: list[str | int] = [_micro(most_seconds), *(line.interval for line in lines), *held]
        wait, slow, *parts = self._turn(keys=[self._key(line) for line in lines], args=asked)
        pairs = zip(parts[::2], parts[1::2], strict=True)
        return Turn(int(wait) / _MICRO, bool(slow), tuple(Ticket(int(era), int(moment)) for era, moment in pairs))

    def slow_down(self, line: Line, pause_seconds: float) -> None:
        """See `RateLimitStore`."""
        pause = _micro(min(pause_seconds, LONGEST_SECONDS))
        self._slow_down(keys=[self._key(line)], args=[line.interval, pause, _micro(LONGEST_SECONDS)])

    def went_well(self, line: Line) -> None:
        """See `RateLimitStore`."""
        self._went_well(keys=[self._key(line)], args=[line.interval, RECOVERY])

    def interval_seconds(self, line: Line) -> float:
        """See `RateLimitStore`."""
        slow = self._redis.hget(self._key(line), "slow")
        return max(int(slow or 0), line.interval) / _MICRO

    def close(self) -> None:
        """See `RateLimitStore`."""
        self._redis.close()

    def _key(self, line: Line) -> str:
        return f"{self._prefix}:{line.name}"
