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
from ingest.fetch import Fetched, FetchLimits
from ingest.url import origin_of

MAX_ROBOTS_BYTES = 500 * 1_024
MAX_ROBOTS_REDIRECTS = 5
CACHE_SECONDS = 24 * 3_600.0
UNREACHABLE_CACHE_SECONDS = 300.0
MAX_ORIGINS = 10_000
"""Origins remembered at a time; their parsed rules are a few KiB each."""

RobotsFetch = Callable[[str, FetchLimits], Fetched]
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

    def check(self, url: str) -> None:
        """Nothing where `url` may be fetched.

        Raises:
            PolicyRefused: rule `robots`: it may not; rule `robots_unreachable`: nobody can say, as the site fails.
                Also what the fetch is refused by.
            Overloaded: too busy to ask now.
        """
        rules = self._rules(url)
        if rules.closed_because is not None:
            why = f"{origin_of(url)}/robots.txt: {rules.closed_because}; unknown rules forbid (RFC 9309, 2.3.1.4)"
            raise PolicyRefused("robots_unreachable", why, "the site answering again")
        if rules.parsed is not None and not rules.parsed.can_fetch(url, self._token):
            raise PolicyRefused("robots", f"{url} is disallowed for {self._token}", "the site's owner")

    def crawl_delay_seconds(self, url: str) -> float:
        """The pause that the site asks for between requests, no more than the cap; 0 where it asks for none."""
        parsed = self._rules(url).parsed
        asked = parsed.crawl_delay(self._token) if parsed is not None else None
        return min(float(asked or 0.0), self._max_crawl_delay_seconds)

    def _rules(self, url: str) -> _Rules:
        origin = origin_of(url)
        with self._guard:
            known = self._fresh(origin)
            if known is not None:
                return known
            turn = self._fetching.setdefault(origin, threading.Lock())
        with turn:
            with self._guard:
                known = self._fresh(origin)
            return known or self._learn(origin)

    def _fresh(self, origin: str) -> _Rules | None:
        known = self._known.get(origin)
        return known if known is not None and known.expires_at > self._clock() else None

    def _learn(self, origin: str) -> _Rules:
        try:
            rules = self._ask(origin)
        finally:
            with self._guard:
                self._fetching.pop(origin, None)
        with self._guard:
            self._known[origin] = rules
            self._known.move_to_end(origin)
            while len(self._known) > MAX_ORIGINS:
                self._known.popitem(last=False)
        return rules

    def _ask(self, origin: str) -> _Rules:
        try:
            answer = self._fetch(f"{origin}/robots.txt", self._limits)
        except Overloaded:
            raise  # we are busy, the site said nothing
        except TimedOut:
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
        return _Rules(Protego.parse(answer.body.decode("utf-8-sig", "replace")), None, expires_at)

    def _closed(self, why: str) -> _Rules:
        return _Rules(None, why, self._clock() + UNREACHABLE_CACHE_SECONDS)


def product_token(user_agent: str) -> str:
    """The name that robots.txt groups use: `SluiceBot/0.1 (+…)` is `SluiceBot` (RFC 9309, 2.2.1)."""
    match = re.match(r"[A-Za-z_-]+", user_agent)
    return match[0] if match else "*"
