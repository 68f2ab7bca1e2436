"""What a site asks of robots, by RFC 9309.

| robots.txt answers | then |
|---|---|
| 2xx | its rules hold, of its first 500 KiB |
| 4xx except 429; more than five redirects | everything is allowed (RFC 9309, 2.3.1.3 and 2.3.1.2) |
| 429, 5xx, no answer, a redirect to no web address | nothing is allowed (2.3.1.4) |

An answer is kept for 24 hours per origin (2.4); "no answer" for five minutes, so that a site which comes
back is not shut out for a day.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from protego import Protego

from contracts.errors import InvalidInput, Overloaded, PolicyRefused, TimedOut, Unavailable
from ingest.deadline import Deadline
from ingest.fetch import Fetched, FetchLimits
from ingest.url import origin_of

MAX_ROBOTS_BYTES = 500 * 1_024
MAX_ROBOTS_REDIRECTS = 5
CACHE_SECONDS = 24 * 3_600.0
UNREACHABLE_CACHE_SECONDS = 300.0
MAX_ORIGINS = 10_000
"""Origins remembered at a time; their parsed rules are a few KiB each."""

_AGENT_LINE = re.compile(r"user[- ]?agent\s*[:\s]\s*(.*)", re.IGNORECASE | re.DOTALL)
_AGENT = re.compile(r"\*(?=\s|$)|[A-Za-z_-]+")
_RULE_LINE = re.compile(r"(?:allow|di[a-z]+)\s*[:\s]", re.IGNORECASE)
"""Misspellings of `Disallow` count, as they do for whoever reads the rules."""

RobotsFetch = Callable[[str, FetchLimits, Deadline], Fetched]
"""Fetches a robots.txt, redirects followed. Raises as `Fetcher.fetch` does."""


@dataclass(frozen=True, slots=True)
class _Rules:
    """What one origin said: its rules, or (None) that everything or nothing is allowed."""

    parsed: Protego | None
    closed_because: str | None
    expires_at: float


class RobotsCache:
    """Judges URLs by their origin's robots.txt. Thread-safe; one fetch per origin at a time."""

    def __init__(
        self,
        fetch: RobotsFetch,
        *,
        user_agent: str,
        clock: Callable[[], float],
        max_crawl_delay_seconds: float = 10.0,
        timeout_seconds: float = 10.0,
    ) -> None:
        self._fetch = fetch
        self._token = product_token(user_agent)
        self._clock = clock
        self._max_crawl_delay_seconds = max_crawl_delay_seconds
        self._limits = FetchLimits(timeout_seconds, MAX_ROBOTS_BYTES, MAX_ROBOTS_REDIRECTS, truncate=True)
        self._known: OrderedDict[str, _Rules] = OrderedDict()
        self._guard = threading.Lock()
        self._fetching: dict[str, threading.Lock] = {}

    def check(self, url: str, deadline: Deadline | None = None) -> None:
        """Nothing where `url` may be fetched.

        Raises:
            TimedOut: the deadline passed before the site had its own time to answer; says nothing about it.
            PolicyRefused: rule `robots`: it may not; rule `robots_unreachable`: nobody can say, as the site fails.
                Also what the fetch is refused by.
            Overloaded: too busy to ask now.
        """
        rules = self._rules(url, deadline or Deadline())
        if rules.closed_because is not None:
            why = f"{origin_of(url)}/robots.txt: {rules.closed_because}; unknown rules forbid (RFC 9309, 2.3.1.4)"
            raise PolicyRefused("robots_unreachable", why, "the site answering again")
        if rules.parsed is not None and not rules.parsed.can_fetch(url, self._token):
            raise PolicyRefused("robots", f"{url} is disallowed for {self._token}", "the site's owner")

    def crawl_delay_seconds(self, url: str) -> float:
        """The pause that the site asks for between requests, no more than the cap; 0 where it asks for none."""
        parsed = self._rules(url, Deadline()).parsed
        asked = parsed.crawl_delay(self._token) if parsed is not None else None
        return min(float(asked or 0.0), self._max_crawl_delay_seconds)

    def _rules(self, url: str, deadline: Deadline) -> _Rules:
        origin = origin_of(url)
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

    def _fresh(self, origin: str) -> _Rules | None:
        known = self._known.get(origin)
        return known if known is not None and known.expires_at > self._clock() else None

    def _learn(self, origin: str, deadline: Deadline) -> _Rules:
        try:
            rules = self._ask(origin, deadline)
        finally:
            with self._guard:
                self._fetching.pop(origin, None)
        with self._guard:
            self._known[origin] = rules
            self._known.move_to_end(origin)
            while len(self._known) > MAX_ORIGINS:
                self._known.popitem(last=False)
        return rules

    def _ask(self, origin: str, deadline: Deadline) -> _Rules:
        try:
            answer = self._fetch(f"{origin}/robots.txt", self._limits, deadline)
        except Overloaded:
            raise  # we are busy, the site said nothing
        except TimedOut:
            if deadline.has_passed:
                raise  # it may not have been given its time
            return self._closed("no answer in time")
        except (Unavailable, InvalidInput) as error:  # the latter: it redirects to what is no address
            return self._closed(f"cannot be had ({error})")
        except PolicyRefused as error:
            if error.rule != "redirects":
                raise
            return _Rules(None, None, self._clock() + CACHE_SECONDS)
        return self._read(answer)

    def _read(self, answer: Fetched) -> _Rules:
        if answer.status == 429 or answer.status >= 500:
            return self._closed(f"answers {answer.status}")
        expires_at = self._clock() + CACHE_SECONDS
        if not 200 <= answer.status < 300:
            return _Rules(None, None, expires_at)
        text = answer.body.decode("utf-8-sig", "replace")
        return _Rules(Protego.parse(rules_for(text, self._token)), None, expires_at)

    def _closed(self, why: str) -> _Rules:
        return _Rules(None, why, self._clock() + UNREACHABLE_CACHE_SECONDS)


def rules_for(text: str, token: str) -> str:
    """The groups of a robots.txt for the robot with this product token, as one group for everybody.

    By RFC 9309, 2.2.1: a group is ours where the token of one of its first lines is, in any case, all of ours and not
    just its beginning; several groups of ours are one; the groups for `*` count where none is ours. Only `Allow` and
    `Disallow` end the list of robots that a group begins with (2.2.4).
    """
    ours: list[str] = []
    everybody: list[str] = []
    agents: set[str] = set()
    is_named, has_rules = False, False
    for line in (line.partition("#")[0].strip() for line in text.splitlines()):
        named = _AGENT_LINE.fullmatch(line)
        if named is None:
            has_rules = has_rules or _RULE_LINE.match(line) is not None
            ours += [line] if token.lower() in agents else []
            everybody += [line] if "*" in agents else []
            continue
        if has_rules:
            agents, has_rules = set(), False
        found = _AGENT.match(named[1])
        agents.add(found[0].lower() if found else "")
        is_named = is_named or token.lower() in agents
    return "\n".join(["User-agent: *", *(ours if is_named else everybody)])


def product_token(user_agent: str) -> str:
    """The name that robots.txt groups use: `SluiceBot/0.1 (+…)` is `SluiceBot` (RFC 9309, 2.2.1)."""
    match = re.match(r"[A-Za-z_-]+", user_agent)
    return match[0] if match else "*"
