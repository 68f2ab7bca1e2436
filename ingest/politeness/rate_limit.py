"""Rate limits per host: all workers together space out their requests, and slow down when a host demands it.

Turns at a host are an interval apart and come in the order of the tickets. Promises:

- Between two turns at a host lies the interval of its rate, or its Crawl-delay if that is longer, by the broker's
  clock, measured when turns begin and not when they were requested: a worker that wakes late never brings two requests
  closer together. Unused turns do not accumulate.
- The hosts of one registered domain together get four times the rate of one, so that many names for one
  machine do not multiply it.
- A host that an operator lets rest gets no request until that is over.
- A host that answers 429 or 503 gets requests half as often, and none before its `Retry-After`; each page that succeeds
  brings it a tenth closer to its rate again.

A worker whose turn is too far off gets `Overloaded` and returns its page to the queue.

A turn leads through one line after the other. In each its holder first takes a ticket, the next free moment, and
proceeds when that has come and the line's interval has passed since the last turn began (virtual scheduling, ITU-T
I.371, with the ticket as the reservation and the second check as the proof). So turns come in the order of the tickets,
and a holder who comes late, or never, lets no other go too early. `slow_down` voids the tickets of a line.

The broker keeps one hash per line, `<prefix>:host:<host>` or `<prefix>:domain:<domain>`:

| field | holds |
|---|---|
| `next` | the next free moment, in microseconds of the broker's clock, as all moments here |
| `last` | when the last turn began |
| `closed` | until when no turn begins |
| `era` | how often the tickets were voided |
| `interval` | the interval that the last turn required, in microseconds |
| `slow`, `slowed` | the interval while the host is slowed, and since when |

A line expires a minute after it stops mattering; while the host is slowed, an hour. A broker that lost it starts anew.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import redis

from sluice.contracts.errors import Overloaded
from sluice.ingest.deadline import LOOK_SECONDS, CancelCheck, never_cancelled
from sluice.ingest.politeness.broker import KeptInBroker, lua
from sluice.ingest.url import registered_domain

HOSTS_PER_DOMAIN = 4
"""Rate of one registered domain, in hosts' rates: `www`, `docs`, `api` and one more."""
MARGIN = 0.04
"""Share by which an interval is longer than the rate requires, up to `MOST_MARGIN_SECONDS`: a request may take some
milliseconds longer to arrive than the next one."""
MOST_MARGIN_SECONDS = 0.025
MOST_SLOW_HOSTS = 10_000
"""Most slowed hosts that a process remembers; a forgotten one is learned again with its next turn."""

MAX_RATE_WAIT_SECONDS = 30.0
"""Longest wait of a worker for a host's turn before it returns the page to the queue."""


BROKER_TIMEOUT_SECONDS = 5.0
BROKER_RETRY_SECONDS = 5.0
"""Delay of a page whose rate could not be counted: a restarted broker is back by then."""
LONGEST_SECONDS = 3_600.0
"""Longest interval, and longest pause, that a host can demand; beyond it the page is left to another run."""
LONGEST_REST_SECONDS = 7 * 86_400.0
"""Longest rest that an operator can give a host."""
KEPT_SECONDS = 60.0
SLOW_KEPT_SECONDS = 3_600.0
RECOVERY = 0.9
"""Factor of a slowed interval per successful page: after seven of them it is half."""
_MICRO = 1_000_000
_MOST_SECONDS = 1e8
"""Three years stand for ever: a float holds their microseconds."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line: its name, and the least time between two turns."""

    name: str
    interval_seconds: float

    @property
    def interval(self) -> int:
        """The interval in microseconds, never rounded down."""
        return math.ceil(self.interval_seconds * _MICRO)


@dataclass(frozen=True, slots=True)
class Ticket:
    """A place in a line: a moment in microseconds, and the era in which it is valid."""

    era: int
    moment: int


@dataclass(frozen=True, slots=True)
class Turn:
    """A granted turn if `wait_seconds` is 0. Otherwise retry with `tickets`; none are new if it is too far off."""

    wait_seconds: float
    is_slow: bool
    tickets: tuple[Ticket, ...] = ()


@dataclass(frozen=True, slots=True)
class LineState:
    """The next free moment of a line and until when no turn begins, in seconds since the epoch by the broker's clock;
    and its interval while the host is slowed. 0 stands for none."""

    next: float
    closed: float
    slow_seconds: float


class RateLimitStore(KeptInBroker):
    """The lines of all workers, by the broker's clock. Calls are atomic; without its answer they raise `RedisError`."""

    def __init__(self, broker_url: str, key_prefix: str) -> None:
        super().__init__(broker_url, f"{key_prefix}:turns", BROKER_TIMEOUT_SECONDS)
        kept = f"local KEPT, SLOW_KEPT = {micro(KEPT_SECONDS)}, {micro(SLOW_KEPT_SECONDS)}\n" + lua("line_state")
        self._turn = self._redis.register_script(kept + lua("line_turn"))
        self._slow_down = self._redis.register_script(kept + lua("line_slow_down"))
        self._went_well = self._redis.register_script(kept + lua("line_went_well"))
        self._rest = self._redis.register_script(kept + lua("line_rest"))

    def turn(self, lines: Sequence[Line], tickets: Sequence[Ticket], most_seconds: float) -> Turn:
        """Go through `lines` as far as possible now. `tickets` are those of the first lines.

        No ticket more than `most_seconds` off is given. `is_slow` tells whether the first line is slowed.
        """
        held = [str(part) for ticket in tickets for part in (ticket.era, ticket.moment)]
        asked: list[str | int] = [micro(most_seconds), *(line.interval for line in lines), *held]
        wait, slow, *parts = self._turn(keys=[self._key(line.name) for line in lines], args=asked)
        pairs = zip(parts[::2], parts[1::2], strict=True)
        return Turn(int(wait) / _MICRO, bool(slow), tuple(Ticket(int(era), int(moment)) for era, moment in pairs))

    def slow_down(self, line: Line, pause_seconds: float) -> None:
        """Double the line's interval, at most once per interval; no turn begins for that time or the pause."""
        pause = micro(min(pause_seconds, LONGEST_SECONDS))
        self._slow_down(keys=[self._key(line.name)], args=[line.interval, pause, micro(LONGEST_SECONDS)])

    def went_well(self, line: Line) -> None:
        """Shorten a slowed interval by a tenth."""
        self._went_well(keys=[self._key(line.name)], args=[line.interval, RECOVERY])

    def rest(self, name: str, seconds: float) -> None:
        """Let no turn of a line begin for so long, at most `LONGEST_REST_SECONDS`; 0 ends that, a pause that the host
        demanded too. A broker that loses the line has forgotten it."""
        self._rest(keys=[self._key(name)], args=[micro(min(max(0.0, seconds), LONGEST_REST_SECONDS))])

    def state(self, name: str) -> LineState:
        """Return how a line stands."""
        fields = ("next", "closed", "slow")
        moment, closed, slow = (int(one or 0) / _MICRO for one in self._redis.hmget(self._key(name), fields))
        return LineState(moment, closed, slow)

    def interval_seconds(self, line: Line) -> float:
        """Return the current least time between two turns."""
        slow = self._redis.hget(self._key(line.name), "slow")
        return max(int(slow or 0), line.interval) / _MICRO


def micro(seconds: float) -> int:
    """Convert to whole microseconds."""
    return int(min(seconds, _MOST_SECONDS) * _MICRO)


class HostRateLimit:
    """Turns at hosts, whose lines `store` keeps. Safe across threads."""

    def __init__(
        self,
        requests_per_second: float,
        store: RateLimitStore,
        *,
        max_wait_seconds: float = MAX_RATE_WAIT_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        check_cancelled: CancelCheck = never_cancelled,
    ) -> None:
        """`check_cancelled` is called now and then during a wait for a turn; what it raises ends the wait."""
        self._interval_seconds = 1 / requests_per_second
        self._max_wait_seconds = max_wait_seconds
        self._store = store
        self._clock = clock
        self._sleep = sleep
        self._check_cancelled = check_cancelled
        self._slow: set[str] = set()
        self._guard = threading.Lock()

    def wait_turn(self, host: str, *, interval_seconds: float = 0.0, at_most_seconds: float = math.inf) -> float:
        """Wait for a turn at `host`; return the seconds waited.

        `interval_seconds` is the least time between two requests (a Crawl-delay); it can only slow down. Raises
        Overloaded, which says when to come back, if the turn comes later than `max_wait_seconds` or `at_most_seconds`,
        or the broker does not answer, which is not the host's fault.
        """
        lines = self._lines(host, interval_seconds)
        most_seconds = min(self._max_wait_seconds, at_most_seconds)
        tickets: tuple[Ticket, ...] = ()
        started = self._clock()
        while True:
            left_seconds = most_seconds - (self._clock() - started)
            with _broker_named(host):
                answer = self._store.turn(lines, tickets, left_seconds)
            self._note(host, is_slow=answer.is_slow)
            if answer.wait_seconds <= 0:
                return self._clock() - started
            if answer.wait_seconds > left_seconds:
                raise Overloaded(f"the rate of {host} is used up", retry_after_seconds=answer.wait_seconds)
            tickets = answer.tickets
            self._pause(answer.wait_seconds)

    def slow_down(self, host: str, retry_after_seconds: float | None) -> None:
        """Slow down a host that answered 429 or 503: double its interval, and pause until its Retry-After is over.

        Neither exceeds an hour. Answers to requests of one interval count once, as they describe one state of
        the host; requests that wait for a turn there take new tickets. If the broker is away no turn begins anyway.
        """
        with contextlib.suppress(redis.RedisError):
            self._store.slow_down(self._host_line(host, 0.0), max(retry_after_seconds or 0.0, 0.0))
            self._note(host, is_slow=True)

    def went_well(self, host: str) -> None:
        """Shorten a slowed host's interval by a tenth after a successful page, down to its rate's.

        Costs nothing for a host that was not slowed at its last turn, and fails no page if the broker is away.
        """
        if host in self._slow:
            with contextlib.suppress(redis.RedisError):
                self._store.went_well(self._host_line(host, 0.0))

    def interval_seconds(self, host: str, *, interval_seconds: float = 0.0) -> float:
        """Return the least time between two turns at the host, as of its last turn here or now; for operators.

        Raises Overloaded if the broker does not answer; it is queried only for a host that was slowed at its last turn.
        """
        line = self._host_line(host, interval_seconds)
        if host not in self._slow:
            return line.interval_seconds
        with _broker_named(host):
            return self._store.interval_seconds(line)

    def _lines(self, host: str, interval_seconds: float) -> tuple[Line, ...]:
        own = self._host_line(host, interval_seconds)
        domain = registered_domain(host)
        if domain is None:
            return (own,)
        return (own, Line(f"domain:{domain}", _with_margin(self._interval_seconds) / HOSTS_PER_DOMAIN))

    def _host_line(self, host: str, interval_seconds: float) -> Line:
        return Line(f"host:{host}", _with_margin(max(self._interval_seconds, interval_seconds)))

    def _note(self, host: str, *, is_slow: bool) -> None:
        with self._guard:
            if not is_slow:
                self._slow.discard(host)
            elif len(self._slow) < MOST_SLOW_HOSTS:
                self._slow.add(host)

    def _pause(self, seconds: float) -> None:
        until = self._clock() + seconds
        while (left := until - self._clock()) > 0:
            self._check_cancelled()
            self._sleep(min(left, LOOK_SECONDS))


@contextlib.contextmanager
def _broker_named(host: str) -> Iterator[None]:
    """Turn errors of the broker, which are not the host's fault, into Overloaded."""
    try:
        yield
    except redis.RedisError as error:
        why = f"the broker does not answer for the rate of {host}"
        raise Overloaded(why, retry_after_seconds=BROKER_RETRY_SECONDS) from error


def _with_margin(interval_seconds: float) -> float:
    return interval_seconds + min(interval_seconds * MARGIN, MOST_MARGIN_SECONDS)
