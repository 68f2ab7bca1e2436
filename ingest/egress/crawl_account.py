"""The account of one crawl at the egress proxy: its limits and counters, and those of the proxy as a whole.

An account is opened before a page is requested and closed when the page is done. In between, every client that
uses its URL sends on its behalf: the fetcher, and the browser with all that the page loads. Robots rules and search
providers are built once and serve every crawl and search; their requests count to the current work, whose account
`egress_context` keeps for them. Promises:

1. Requests, bytes, hosts and connections stay below the account's caps; the excess is refused.
2. A closed account's token opens nothing, and every connection that it opened has ended.
3. Refusals are counted by target and rule, in a space that no page can make grow.

The account, its slots and the relay each enforce their own limits. All refuse with the messages of `beyond`.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace

from sluice.ingest.egress.http_heads import Target
from sluice.ingest.egress.rules import Refusal
from sluice.ingest.settings import Purpose


@dataclass(frozen=True, slots=True)
class EgressLimits:
    """The limits of one proxy. Constants; only tests choose others."""

    connect_timeout_seconds: float = 5.0
    """Name lookup and connection together; a healthy host needs well under one second."""
    idle_timeout_seconds: float = 20.0
    """Time without traffic after which a connection is cut."""
    max_connection_seconds: float = 120.0
    """Longest life of one connection, however steady its traffic."""
    max_response_bytes: int = 20_000_000
    """Most bytes one connection may bring in; twice the largest page that is kept."""
    max_connections: int = 64
    """Open connections at a time: two browser pages with their parts, and every crawl thread besides."""
    max_connections_per_crawl: int = 32
    """Open at a time for one page and its parts: a browser opens this many per proxy, and closes idle ones when it
    needs another. With fewer it would just wait; half the proxy stays free."""
    max_connections_per_host: int = 12
    """Open at a time to one host, over all crawls of this process."""
    max_bytes_per_crawl: int = 60_000_000
    """In both directions, for one page and all its parts."""
    max_hosts_per_crawl: int = 100
    """Names that one page may have looked up: a page of many advertisements has some sixty."""
    resolver_threads: int = 16
    """Names looked up at a time; one that does not answer holds its thread until the system gives up."""


USUAL_LIMITS = EgressLimits()


def beyond(target: Target, rule: str, limits: EgressLimits) -> Refusal:
    """Return the refusal for exceeding a limit. Rules: `bytes`, `time`, `requests`, `hosts`, `connections`."""
    details = {
        "bytes": f"more than {limits.max_response_bytes} bytes over one connection, or too many of one crawl",
        "time": f"more than {limits.max_connection_seconds:g} seconds over one connection",
        "requests": "too many requests of one crawl",
        "hosts": f"more than {limits.max_hosts_per_crawl} hosts in one crawl",
        "connections": f"more than {limits.max_connections_per_crawl} connections of one crawl at a time",
    }
    return Refusal(target.host, target.port, rule, details[rule])


MAX_KINDS = 50
"""Most targets and rules that one account's refusals are counted by."""
MAX_WAITING_SHARE = 4
"""Requests in progress, as a multiple of the connections that may be open: the others wait for one."""
STANDING_REFUSALS_PER_SECOND = 50
"""Most refusals reported per standing account and second; a page can cause thousands."""


@dataclass(frozen=True, slots=True)
class EgressReport:
    """Traffic of an account so far. Bytes are those exchanged with sites, heads and TLS included."""

    requests: int
    """Tunnels and plain requests received, refused ones included."""
    bytes_in: int
    bytes_out: int
    hosts: tuple[str, ...]
    """Names and addresses to which a connection was made, in the order of the first."""
    refusals: tuple[tuple[Refusal, int], ...]
    """Each kind (host, port and rule) with its count, in the order of the first; at most 50 kinds."""
    other_refusals: int
    """Count of refusals beyond those kinds."""


@dataclass(frozen=True, slots=True)
class EgressAccount:
    """One crawl's access to the proxy, until it is closed. Use as a context manager, from any thread.

    `url` is the proxy's address with this account's name and token, a secret: hand it to clients, never to logs.
    `report` returns the traffic so far; it is final once the account is closed. `close` ends the account's
    connections and invalidates its token; it may be called again.
    """

    url: str = field(repr=False)
    report: Callable[[], EgressReport]
    close: Callable[[], None]

    def __enter__(self) -> EgressAccount:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


@dataclass(frozen=True, slots=True)
class Caps:
    """The caps of one account, in all and at a time."""

    requests: int
    bytes: int
    hosts: int
    connections: int


class Account:
    """The proxy's side of an account. Everything but `report` belongs to the proxy's event loop.

    Without caps it lives as long as the proxy: for the owner's clients, which request configured addresses.
    """

    def __init__(self, purpose: Purpose, *, run_id: str = "", caps: Caps | None = None) -> None:
        self.purpose = purpose
        self.run_id = run_id
        self.caps = caps
        self.look_ups: dict[str, asyncio.Future[tuple[str, ...]]] = {}
        """Names looked up: the first answer to each holds as long as the account."""
        self._requests = 0
        self._under_way = 0
        self._bytes_in = 0
        self._bytes_out = 0
        self._names: set[str] = set()
        self._reached: dict[str, None] = {}
        self._refusals = RefusalCounts() if caps else None
        self._told: Counter[int] = Counter()

    def begin(self) -> str | None:
        """Count one more request in progress; return the rule that forbids it: `requests`, `bytes`, `connections`."""
        self._requests += 1
        self._under_way += 1
        if self.caps is None:
            return None
        if self._requests > self.caps.requests:
            return "requests"
        if self._bytes_in + self._bytes_out > self.caps.bytes:
            return "bytes"
        if self._under_way > self.caps.connections * MAX_WAITING_SHARE:
            return "connections"
        return None

    def end(self) -> None:
        """Count the end of a request that had begun."""
        self._under_way -= 1

    def may_ask_for(self, name: str) -> bool:
        """Return whether a name or address may still be reached, under the cap on different ones."""
        if self.caps is None or name in self._names:
            return True
        if len(self._names) >= self.caps.hosts:
            return False
        self._names.add(name)
        return True

    def reached(self, name: str) -> None:
        """Record a connection to `name`."""
        if self.caps is not None:
            self._reached[name] = None

    def came_in(self, count: int) -> bool:
        """Count bytes from a site; False if the account has none left."""
        self._bytes_in += count
        return self._has_bytes()

    def went_out(self, count: int) -> bool:
        """Count bytes to a site; False if the account has none left."""
        self._bytes_out += count
        return self._has_bytes()

    def refused(self, refusal: Refusal) -> Refusal | None:
        """Count a refusal. Returns it with this account's name if it is to be reported, else None."""
        ours = replace(refusal, purpose=self.purpose, run_id=self.run_id)
        if self._refusals is None:
            second = int(time.monotonic())
            self._told = Counter({second: self._told[second] + 1})
            return ours if self._told[second] <= STANDING_REFUSALS_PER_SECOND else None
        return ours if self._refusals.add(ours) else None

    def keep(self, name: str, answer: asyncio.Future[tuple[str, ...]]) -> None:
        """Remember the answer to a look-up, unless it fails."""
        self.look_ups[name] = answer
        answer.add_done_callback(lambda done: self._forget_failed(name, done))

    def give_up_look_ups(self) -> None:
        """Cancel every look-up."""
        for look_up in tuple(self.look_ups.values()):
            look_up.cancel()

    def report(self) -> EgressReport:
        """Return the traffic so far; from any thread."""
        kinds, others = self._refusals.all() if self._refusals else ((), 0)
        return EgressReport(
            requests=self._requests,
            bytes_in=self._bytes_in,
            bytes_out=self._bytes_out,
            hosts=tuple(self._reached),
            refusals=kinds,
            other_refusals=others,
        )

    def _forget_failed(self, name: str, answer: asyncio.Future[tuple[str, ...]]) -> None:
        if answer.cancelled() or answer.exception() is not None:
            self.look_ups.pop(name, None)

    def _has_bytes(self) -> bool:
        return self.caps is None or self._bytes_in + self._bytes_out <= self.caps.bytes


class RefusalCounts:
    """Counts of refusals; at most `MAX_KINDS` targets and rules are told apart."""

    def __init__(self) -> None:
        self._kinds: dict[tuple[str, int, str], tuple[Refusal, int]] = {}
        self._others = 0
        self._lock = threading.Lock()

    def add(self, refusal: Refusal) -> bool:
        """Count a refusal; True if it is the first of its kind."""
        kind = refusal.host, refusal.port, refusal.rule
        with self._lock:
            known = self._kinds.get(kind)
            if known is None and len(self._kinds) >= MAX_KINDS:
                self._others += 1
                return False
            first, count = known or (refusal, 0)
            self._kinds[kind] = first, count + 1
            return known is None

    def all(self) -> tuple[tuple[tuple[Refusal, int], ...], int]:
        """Return each kind with its count, and the count of the rest."""
        with self._lock:
            return tuple(self._kinds.values()), self._others


_in_hand: ContextVar[str | None] = ContextVar("egress_grant_url", default=None)


@contextmanager
def egress_context(proxy_url: str) -> Iterator[None]:
    """Charge this thread's requests within the block to the account of `proxy_url`."""
    before = _in_hand.set(proxy_url)
    try:
        yield
    finally:
        _in_hand.reset(before)


def current_egress_grant() -> str | None:
    """Return the proxy's address with the account of the current work; None if it has no account of its own."""
    return _in_hand.get()
