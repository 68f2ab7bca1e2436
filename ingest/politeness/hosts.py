"""Facts about hosts, shared by all workers through the broker; and the course of one request to a host.

`HostStats` counts what the crawl did to each host on each UTC day, for operators; `HostCounters` sums one crawl's part
of it. `HostMemory` learns which hosts build their pages by scripts, so that their next pages go to a browser at once.
`HostAttempt` consults the circuit breaker of each host on the way to a page, and reports the host's answer to it.
`judge_status` and `judge_media_type` judge that answer: a page to read, a reason to come back later, or a named
refusal.

Promises: all of this is optional: without a broker nothing is counted and every page is judged by itself. No error of
the broker leaves here, and a silent broker is waited for once in half a minute. A day keeps at most `MOST_HOSTS`
hosts, later ones are counted under `OTHER`, and days are dropped after eight. A host counts as needing a
browser once three of its last four pages were shells whose text a browser made much longer; each twentieth page of it
is still read without one, so that changes of the site are noticed.
"""

from __future__ import annotations

import contextlib
import email.utils
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from types import MappingProxyType

from sluice.contracts.errors import NotFound, Overloaded, PolicyRefused, Unavailable
from sluice.contracts.ingest import HostCounts, HostView
from sluice.ingest.circuit_breaker import HostBreakers
from sluice.ingest.egress.crawl_account import EgressReport
from sluice.ingest.extract.media_types import PDF, SUPPORTED, is_textual, settle
from sluice.ingest.http.fetch import Fetched
from sluice.ingest.politeness.broker import LenientBroker, lua
from sluice.ingest.politeness.rate_limit import HostRateLimit
from sluice.ingest.url import origin_of

MOST_HOSTS = 10_000
"""Most hosts of one day that are counted separately; a hostile site can make up any number of names."""
OTHER = "other"
"""Name under which all further hosts of a day are counted."""
TTL_SECONDS = 8 * 86_400
"""A week, and the current day."""
MOST_DAYS = 8
"""Days that are kept, today included."""
_WAITED, _WAITED_MS, _INTERVAL, _REFUSED = "waited_seconds", "waited_ms", "interval_seconds", "refused:"
"""The broker adds whole numbers, so waiting is kept in milliseconds."""


class HostStats(LenientBroker):
    """Counts by host and day. `clock` returns times with their zone."""

    def __init__(self, broker_url: str, *, clock: Callable[[], datetime], key_prefix: str = "sluice") -> None:
        super().__init__(broker_url, key_prefix=key_prefix)
        self._clock = clock

    def add(
        self,
        host: str,
        counts: HostCounts,
        *,
        interval_seconds: float | None = None,
        refusals: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        """Add counts for `host` to today, and refusals by their rules. Of `interval_seconds` the latest is kept."""
        kept = counts.model_dump(exclude={_WAITED}) | {_REFUSED + rule: count for rule, count in refusals.items()}
        kept[_WAITED_MS] = round(counts.waited_seconds * 1_000)
        day = self._key("hosts", self._clock().astimezone(UTC).date().isoformat())
        interval = "" if interval_seconds is None else f"{interval_seconds:.3f}"
        pairs = [part for name, count in kept.items() if count for part in (name, count)]
        self.run(
            lua("host_stats_add"), [day], [host, MOST_HOSTS, OTHER, TTL_SECONDS, counts.requests, interval, *pairs]
        )

    def top(self, most: int, since: date) -> tuple[HostView, ...]:
        """Return at most `most` hosts, those with the most requests from the UTC day `since` until today first."""
        days = [self._key("hosts", day.isoformat()) for day in self._days(since)]
        found = self.run(lua("host_stats_top"), days, [max(0, most)]) if days else None
        return tuple(_row(host, per_day) for host, per_day in found or ())

    def one(self, host: str, since: date) -> HostView:
        """Return what is counted of one host from the UTC day `since` until today."""
        days = [self._key("hosts", day.isoformat(), host) for day in self._days(since)]
        script = "local days = {} for at, day in ipairs(KEYS) do days[at] = redis.call('HGETALL', day) end return days"
        return _row(host, (self.run(script, days, []) if days else None) or [])

    def _days(self, since: date) -> Iterator[date]:
        """Yield the days from `since`, or the first one still kept, until today."""
        today = self._clock().astimezone(UTC).date()
        day = max(since, today - timedelta(days=MOST_DAYS - 1))
        while day <= today:
            yield day
            day += timedelta(days=1)


def _row(host: str, per_day: list[list[str]]) -> HostView:
    """Sum the days of one host; each is a list of alternating names and values."""
    sums: dict[str, float] = {}
    refusals: Counter[str] = Counter()
    for pairs in per_day:
        for name, value in zip(pairs[::2], pairs[1::2], strict=True):
            if name.startswith(_REFUSED):
                refusals[name.removeprefix(_REFUSED)] += int(value)
            else:
                sums[name] = float(value) if name == _INTERVAL else sums.get(name, 0) + int(value)
    waited_ms = sums.pop(_WAITED_MS, 0.0)
    return HostView.model_validate({"host": host, **sums, _WAITED: waited_ms / 1_000, "refusals": refusals})


LOOKED_AT = 4
"""The latest pages of a host that count."""
LEAST_SHELLS = 3
"""Pages among them that must have needed a browser."""
CHECK_EVERY = 20
"""One in this many pages of a host that needs a browser is read without it."""
LEARNED_SECONDS = 7 * 86_400
"""A site that was not crawled for a week may have been rebuilt."""
CIRCUIT_KEPT_SECONDS = 86_400


class HostMemory(LenientBroker):
    """Learned facts about hosts: their need for a browser, and when one kept failing."""

    def needs_browser(self, host: str) -> str | None:
        """Return why `host`'s next page should go to a browser at once, or None. Call it once per page: it counts."""
        shells = self.run(
            lua("host_memory_ask"), [self._key("host", host)], [LEAST_SHELLS, CHECK_EVERY, LEARNED_SECONDS]
        )
        return f"{shells} of the last {LOOKED_AT} pages of {host} needed one" if shells else None

    def learned(self, host: str, was_shell: bool, rendered_helped: bool | None) -> None:
        """Record a page of `host` that was read without a browser first.

        `was_shell`: there was evidence that it needs one. `rendered_helped`: whether the browser's text was then
        much longer (`ingest.crawl.page_scan.browser_helped`); None if no browser was used, from which nothing can be
        learned.
        """
        if was_shell and rendered_helped is None:
            return
        needed = 1 if was_shell and rendered_helped else 0
        self.run(lua("host_memory_learn"), [self._key("host", host)], [needed, LOOKED_AT, LEARNED_SECONDS])

    def circuit_opened(self, host: str, at: datetime) -> None:
        """Record that a worker asks nothing of `host` for a while, as it kept failing."""
        script = "redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])"
        self.run(script, [self._key("circuit", host)], [at.timestamp(), CIRCUIT_KEPT_SECONDS])

    def circuit_opened_at(self, host: str) -> datetime | None:
        """Return when that was last recorded; None if it was not within a day."""
        at = self.run("return redis.call('GET', KEYS[1])", [self._key("circuit", host)], [])
        return datetime.fromtimestamp(float(at), UTC) if at else None


class HostAttempt:
    """The hosts that one request leads to, one after the other.

    These count as failures of a host: no connection, no answer in time, a status of 500 or more. These do not: a
    missing page, and refusals by our own rules. `waited_seconds` is the time spent before the requests.
    """

    def __init__(
        self,
        breakers: HostBreakers,
        pre_request: Callable[[str], None],
        clock: Callable[[], datetime],
        *,
        on_failure: Callable[[str], None] = lambda origin: None,
    ) -> None:
        """Take `pre_request`, called with each address before it is requested, unless the circuit of its host is open.

        `on_failure` is called with the origin that failed.
        """
        self.waited_seconds = 0.0
        self._breakers = breakers
        self._pre_request = pre_request
        self._clock = clock
        self._on_failure = on_failure
        self._origin: str | None = None

    def pre_request(self, url: str) -> None:
        """Prepare a request to `url`; call it before each. Counts the host that redirected here as successful.

        Raises HostUnavailable if the circuit of the host is open, and the errors of `pre_request`.
        """
        self.ended(failed=False)
        started = self._clock()
        try:
            self._breakers.admit(origin_of(url))
            self._pre_request(url)
        finally:
            self.waited_seconds += (self._clock() - started).total_seconds()
        self._origin = origin_of(url)

    def ended(self, *, failed: bool) -> None:
        """Record the outcome of the latest requested host, once."""
        origin, self._origin = self._origin, None
        if origin is not None:
            self._breakers.record(origin, failed=failed)
            if failed:
                self._on_failure(origin)


class HostCounters:
    """Sums by host. Not for several threads."""

    def __init__(self) -> None:
        self._hosts: defaultdict[str, HostCounts] = defaultdict(HostCounts)
        self._refusals: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def add(self, host: str, counts: HostCounts) -> None:
        """Add counts to those of `host`."""
        self._hosts[host] += counts

    def refuse(self, host: str, rule: str, count: int = 1) -> None:
        """Count what a rule refused of `host`."""
        self._refusals[host][rule] += count
        self._hosts[host] += HostCounts()

    def add_to(self, stats: HostStats, report: EgressReport, rate_limit: HostRateLimit) -> None:
        """Add the sums to `stats`, with the refusals that the proxy reports and the present interval of each host."""
        for refusal, count in report.refusals:
            self.add(refusal.host, HostCounts(egress_refusals=count))
            self.refuse(refusal.host, refusal.rule, count)
        for host, counts in self._hosts.items():
            interval_seconds = None
            with contextlib.suppress(Overloaded):  # without the broker there are no stats either
                interval_seconds = rate_limit.interval_seconds(host) if counts.requests else None
            stats.add(host, counts, interval_seconds=interval_seconds, refusals=self._refusals[host])


DEFAULT_RETRY_SECONDS = 30.0
"""Wait after 429 or 503 without a Retry-After."""
MAX_RETRY_SECONDS = 3_600.0
SNIFFED_BYTES = 2_048


def retry_after_seconds(header: str | None, now: datetime) -> float:
    """Return the seconds to wait by a Retry-After (RFC 9110, 10.2.3), at most an hour; 30 if there is none."""
    text = (header or "").strip()
    if text.isdecimal():
        return min(float(text), MAX_RETRY_SECONDS)
    try:
        moment = email.utils.parsedate_to_datetime(text)
        return min(max((moment - now).total_seconds(), 0.0), MAX_RETRY_SECONDS)
    except (ValueError, TypeError, OverflowError):  # the last: a date with too many digits
        return DEFAULT_RETRY_SECONDS


def judge_status(status: int, retry_after: str | None, url: str, now: datetime) -> None:
    """Return if the status is that of a page; otherwise raise its error.

    Raises:
        Overloaded: 429, 503; says when to come back. Unavailable: other 5xx, 408, 425, and 304 to a request
            without conditions.
        PolicyRefused: rule `access`: 401, 403, 407, 451. NotFound: 204 and everything else.
    """
    if 200 <= status < 300 and status != 204:
        return
    if status in {429, 503}:
        raise Overloaded(f"{url} answers {status}", retry_after_seconds(retry_after, now))
    if status >= 500 or status in {304, 408, 425}:
        raise Unavailable(f"{url} answers {status}")
    if status in {401, 403, 407, 451}:
        raise PolicyRefused("access", f"{url} answers {status}", "the site's owner")
    raise NotFound(f"{url} answers {status}")


def judge_media_type(answer: Fetched) -> str:
    """Return the type by which to read the body. Raises PolicyRefused (`media_type`) if nothing here can read it."""
    kind = settle(answer.media_type, answer.final_url, answer.body[:SNIFFED_BYTES])
    if not (is_textual(kind) or kind == PDF) or kind == "image/svg+xml":
        raise PolicyRefused("media_type", f"{answer.final_url} is {kind}", f"a page that is {SUPPORTED}")
    return kind
