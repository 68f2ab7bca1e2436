"""robots.txt of a site (RFC 9309): whether an address may be fetched, how slowly, and its sitemaps.

| robots.txt answers | then |
|---|---|
| 2xx | its rules hold, of its first 500 KiB (2.5) |
| 4xx except 429; more than five redirects | everything is allowed (2.3.1.3 and 2.3.1.2) |
| 429, 5xx, no answer, a redirect to no web address | nothing is allowed (2.3.1.4) |

An answer is kept for 24 hours per origin (2.4), shared with all workers if a store is given; "no answer" for five
minutes, so that a site which comes back is not shut out for a day. Within the 24 hours it is not requested again, so a
site that fails meanwhile is judged by its earlier rules. If the answer is too old and a new request fails, nothing is
allowed: 2.4 would allow the old rules, but 2.3.1.4 must be obeyed, and a failing site is better left alone.

The store is the broker: one key per origin, `<prefix>:robots:<scheme://host:port>`, a line of JSON with the outcome,
then the file, compressed. It expires with the answer. An unavailable broker or an unreadable value counts as nothing
kept; a value is never larger than `MAX_STORED_BYTES`, and its unpacked content never larger than a robots.txt may be.
"""

from __future__ import annotations

import contextlib
import json
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, get_args

import redis
import zstandard

from sluice.contracts.errors import InvalidInput, Overloaded, PolicyRefused, TimedOut, Unavailable
from sluice.ingest.deadline import Deadline
from sluice.ingest.http.fetch import MALFORMED_RESPONSE, Fetched, FetchLimits
from sluice.ingest.politeness.broker import KeptInBroker
from sluice.ingest.politeness.robots_rules import MAX_ROBOTS_BYTES, RobotsRules, read_robots
from sluice.ingest.url import normalise_url, origin_of

Outcome = Literal["rules", "open", "closed"]
"""The file's rules hold; everything is allowed; nothing is."""
MAX_STORED_BYTES = 64 * 1_024
"""Largest compressed value; a robots.txt of 500 KiB that people wrote has half of that. Workers fetch a larger one
separately, so that no farm of hosts fills the broker with noise."""
BROKER_TIMEOUT_SECONDS = 2.0
"""After that the cache fetches robots.txt from the site, which takes no longer."""


@dataclass(frozen=True, slots=True)
class RobotsAnswer:
    """The outcome of a request for robots.txt. `reason` describes the answer; `body` is the file, for `rules` only."""

    outcome: Outcome
    reason: str
    body: bytes = b""


class BrokerRobotsStore(KeptInBroker):
    """Answers by origin. No failure of the broker is raised."""

    def __init__(self, broker_url: str, *, key_prefix: str = "sluice") -> None:
        super().__init__(broker_url, key_prefix, BROKER_TIMEOUT_SECONDS)

    def recall(self, origin: str) -> tuple[RobotsAnswer, float] | None:
        """Return the answer of `origin` and the seconds for which it still holds; None if there is none."""
        try:
            with self._redis.pipeline(transaction=True) as both:
                both.get(self._key("robots", origin))
                both.pttl(self._key("robots", origin))
                value, left_ms = both.execute()
        except redis.RedisError:
            return None
        answer = _decoded(value) if isinstance(value, bytes) and left_ms > 0 else None
        return None if answer is None else (answer, left_ms / 1_000)

    def keep(self, origin: str, answer: RobotsAnswer, seconds: float) -> None:
        """Keep the answer of `origin` for `seconds`."""
        value = _encoded(answer)
        if len(value) <= MAX_STORED_BYTES:
            with contextlib.suppress(redis.RedisError):
                self._redis.set(self._key("robots", origin), value, px=max(1, int(seconds * 1_000)))


def _encoded(answer: RobotsAnswer) -> bytes:
    head = json.dumps({"outcome": answer.outcome, "reason": answer.reason})
    return head.encode() + b"\n" + zstandard.ZstdCompressor().compress(answer.body)


def _decoded(value: bytes) -> RobotsAnswer | None:
    head, _, packed = value.partition(b"\n")
    try:
        facts = json.loads(head)
        outcome, reason = facts["outcome"], facts["reason"]
        if not 0 <= zstandard.frame_content_size(packed) <= MAX_ROBOTS_BYTES:
            return None  # the frame declares its unpacked size, and no more is unpacked
        body = zstandard.ZstdDecompressor().decompress(packed)
    except (ValueError, KeyError, TypeError, zstandard.ZstdError):
        return None
    is_known = outcome in get_args(Outcome) and isinstance(reason, str)
    return RobotsAnswer(outcome, reason, body) if is_known else None


MAX_ROBOTS_REDIRECTS = 5
CACHE_SECONDS = 24 * 3_600.0
UNREACHABLE_CACHE_SECONDS = 300.0
MAX_ORIGINS = 10_000
"""Most origins remembered at a time."""
MAX_RULES = 100_000
"""Most rules of all origins together, at some 300 bytes each; beyond it the least recently used are dropped."""

RobotsFetch = Callable[[str, FetchLimits, Deadline], Fetched]
"""Fetches a robots.txt, redirects followed. Raises as `Fetcher.fetch` does."""


@dataclass(frozen=True, slots=True)
class RobotsVerdict:
    """The verdict on an address: whether it may be fetched, and why.

    `line` is the deciding rule as the file has it, if there was one; `reason` describes the answer of robots.txt.
    """

    allowed: bool
    rule: Literal["robots", "robots_unreachable"]
    """Rule that a refusal names: forbidden by the file, or because the rules are unknown."""
    line: str | None
    reason: str


@dataclass(frozen=True, slots=True)
class _Known:
    """The parsed answer of one origin: see `RobotsAnswer`."""

    outcome: Outcome
    reason: str
    rules: RobotsRules
    sitemaps: tuple[str, ...]
    expires_at: float


MAX_CRAWL_DELAY_SECONDS = 10.0
"""Longest pause between requests that a robots.txt can demand."""


class RobotsCache:
    """Judges URLs by their origin's robots.txt. Thread-safe; one fetch per origin at a time."""

    def __init__(
        self,
        fetch: RobotsFetch,
        *,
        user_agent: str,
        clock: Callable[[], float],
        store: BrokerRobotsStore | None = None,
        timeout_seconds: float = 10.0,
    ) -> None:
        """`store` shares answers between workers; without one each cache fetches its own."""
        self._fetch = fetch
        self._token = product_token(user_agent)
        self._clock = clock
        self._store = store
        self._limits = FetchLimits(timeout_seconds, MAX_ROBOTS_BYTES, MAX_ROBOTS_REDIRECTS, truncate=True)
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._rule_count = 0
        self._guard = threading.Lock()
        self._fetching: dict[str, threading.Lock] = {}

    def check(self, url: str, deadline: Deadline | None = None) -> RobotsVerdict:
        """Return the verdict that allows `url`.

        Raises:
            TimedOut: the deadline passed before the site had its own time to answer; says nothing about it.
            PolicyRefused: rule `robots`: `url` is forbidden; rule `robots_unreachable`: the rules are unknown, as the
                site fails. Also refusals of the fetch.
            Overloaded: we are too busy to fetch robots.txt now.
        """
        verdict = self.verdict(url, deadline)
        if verdict.allowed:
            return verdict
        if verdict.rule == "robots_unreachable":
            why = f"{origin_of(url)}/robots.txt: {verdict.reason}; unknown rules forbid (RFC 9309, 2.3.1.4)"
            raise PolicyRefused("robots_unreachable", why, "the site answering again")
        raise PolicyRefused("robots", f"{url} is disallowed for {self._token} by {verdict.line!r}", "the site's owner")

    def verdict(self, url: str, deadline: Deadline | None = None) -> RobotsVerdict:
        """Return whether `url` may be fetched, and why. Raises as `check` if robots.txt could not be requested."""
        known = self._of(url, deadline)
        if known.outcome == "closed":
            return RobotsVerdict(False, "robots_unreachable", None, known.reason)
        allowed, line = known.rules.decision(url)
        return RobotsVerdict(allowed, "robots", line, known.reason)

    def crawl_delay_seconds(self, url: str, deadline: Deadline | None = None) -> float:
        """Return the pause that the site demands between requests, at most the cap; else 0. Raises as `check`."""
        return min(self._of(url, deadline).rules.crawl_delay_seconds, MAX_CRAWL_DELAY_SECONDS)

    def sitemaps(self, url: str, deadline: Deadline | None = None) -> tuple[str, ...]:
        """Return the sitemaps that the robots.txt of `url`'s site names, normalised, on any host. Raises as `check`."""
        return self._of(url, deadline).sitemaps

    def _of(self, url: str, deadline: Deadline | None) -> _Known:
        origin, deadline = origin_of(url), deadline or Deadline()
        with self._guard:
            known = self._fresh(origin)
            if known is not None:
                return known
            turn = self._fetching.setdefault(origin, threading.Lock())
        if not turn.acquire(timeout=deadline.left_seconds()):
            raise TimedOut(f"{origin}/robots.txt is still being asked for")
        try:
            with self._guard:
                known = self._fresh(origin)
            return known or self._learn(origin, deadline)
        finally:
            turn.release()

    def _fresh(self, origin: str) -> _Known | None:
        known = self._known.get(origin)
        if known is None or known.expires_at <= self._clock():
            return None
        self._known.move_to_end(origin)
        return known

    def _learn(self, origin: str, deadline: Deadline) -> _Known:
        try:
            answer, seconds = (self._store and self._store.recall(origin)) or self._asked(origin, deadline)
        finally:
            with self._guard:
                self._fetching.pop(origin, None)
        known = self._read(answer, self._clock() + seconds)
        with self._guard:
            self._remember(origin, known)
        return known

    def _remember(self, origin: str, known: _Known) -> None:
        before = self._known.pop(origin, None)
        self._known[origin] = known
        self._rule_count += len(known.rules) - (len(before.rules) if before else 0)
        while len(self._known) > MAX_ORIGINS or (self._rule_count > MAX_RULES and len(self._known) > 1):
            _, forgotten = self._known.popitem(last=False)
            self._rule_count -= len(forgotten.rules)

    def _asked(self, origin: str, deadline: Deadline) -> tuple[RobotsAnswer, float]:
        answer = self._ask(origin, deadline)
        seconds = UNREACHABLE_CACHE_SECONDS if answer.outcome == "closed" else CACHE_SECONDS
        if self._store is not None:
            self._store.keep(origin, answer, seconds)
        return answer, seconds

    def _ask(self, origin: str, deadline: Deadline) -> RobotsAnswer:
        try:
            return _judged(self._fetch(f"{origin}/robots.txt", self._limits, deadline))
        except Overloaded:
            raise  # we are busy; the site did not answer
        except TimedOut:
            if deadline.has_passed:
                raise  # the site may not have had its full time
            return RobotsAnswer("closed", "no answer in time")
        except (Unavailable, InvalidInput) as error:  # the latter: it redirects to an invalid address
            return RobotsAnswer("closed", f"cannot be had ({error})")
        except PolicyRefused as error:
            if error.rule == MALFORMED_RESPONSE:
                return RobotsAnswer("closed", f"cannot be had ({error.problem})")
            if error.rule != "redirects":
                raise
            return RobotsAnswer("open", f"redirects more than {MAX_ROBOTS_REDIRECTS} times")

    def _read(self, answer: RobotsAnswer, expires_at: float) -> _Known:
        rules = read_robots(answer.body, self._token)
        return _Known(answer.outcome, answer.reason, rules, tuple(_addresses(rules.sitemaps)), expires_at)


def _judged(answer: Fetched) -> RobotsAnswer:
    reason = f"answers {answer.status}"
    if answer.status == 429 or answer.status >= 500:
        return RobotsAnswer("closed", reason)
    if not 200 <= answer.status < 300:
        return RobotsAnswer("open", reason)
    return RobotsAnswer("rules", reason, answer.body)


def _addresses(sitemaps: tuple[str, ...]) -> Iterator[str]:
    for sitemap in sitemaps:
        with contextlib.suppress(InvalidInput):
            yield normalise_url(sitemap)


def product_token(user_agent: str) -> str:
    """Return the name that robots.txt groups use: `SluiceBot/0.1 (+…)` is `SluiceBot` (RFC 9309, 2.2.1)."""
    match = re.match(r"[A-Za-z_-]+", user_agent)
    return match[0] if match else "*"
