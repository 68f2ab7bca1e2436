"""Facts about hosts, shared by all workers through the broker; and the way of one request to a host.

`HostStats` counts what the crawl did to each host on each UTC day, for operators; `HostCounters` adds up one crawl's
part of it. `HostMemory` learns which hosts build their pages by scripts, so that their next pages go to a browser at
once. `HostAttempt` asks the circuit breaker of each host on the way to a page, and tells it how the host answered.

Promises: none of this is needed: without a broker nothing is counted and every page is judged by itself. No error of
the broker leaves here, and one that is silent is waited for once in half a minute. A day keeps at most `MOST_HOSTS`
hosts, what comes after them is counted under `OTHER`, and days are forgotten after eight. A host is believed to need a
browser once three of its last four pages were shells whose text a browser made much longer; each twentieth page of it
is read without one all the same, so that a site that changes is found out.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta

from sluice.contracts.errors import Overloaded
from sluice.contracts.ingest import HostCounts, HostView
from sluice.ingest.circuit_breaker import HostBreakers
from sluice.ingest.egress.crawl_account import EgressReport
from sluice.ingest.politeness.broker import LenientBroker, lua
from sluice.ingest.politeness.rate_limit import HostRateLimit
from sluice.ingest.url import origin_of

MOST_HOSTS = 10_000
"""Hosts of one day that are counted each by itself; a hostile site can make up any number of names."""
OTHER = "other"
"""Under which all further hosts of a day are counted."""
TTL_SECONDS = 8 * 86_400
"""A week, and the day that is under way."""
MOST_DAYS = 8
"""Days that are kept, today included."""
_WAITED, _WAITED_MS, _INTERVAL = "waited_seconds", "waited_ms", "interval_seconds"
"""The broker adds whole numbers, so waiting is kept in milliseconds."""


class HostStats(LenientBroker):
    """Counts by host and day. `clock` gives times with their zone."""

    def __init__(self, broker_url: str, *, clock: Callable[[], datetime], key_prefix: str = "sluice") -> None:
        super().__init__(broker_url, key_prefix=key_prefix)
        self._clock = clock

    def add(self, host: str, counts: HostCounts, *, interval_seconds: float | None = None) -> None:
        """Count what happened to `host` just now. `interval_seconds` is not added up: the latest one stands."""
        kept = counts.model_dump(exclude={_WAITED})
        kept[_WAITED_MS] = round(counts.waited_seconds * 1_000)
        day = self._key("hosts", self._clock().astimezone(UTC).date().isoformat())
        interval = "" if interval_seconds is None else f"{interval_seconds:.3f}"
        pairs = [part for name, count in kept.items() if count for part in (name, count)]
        self.run(
            lua("host_stats_add"), [day], [host, MOST_HOSTS, OTHER, TTL_SECONDS, counts.requests, interval, *pairs]
        )

    def top(self, most: int, since: date) -> tuple[HostView, ...]:
        """The hosts with the most requests from the UTC day `since` until today, at most `most`, busiest first."""
        days = [self._key("hosts", day.isoformat()) for day in self._days(since)]
        found = self.run(lua("host_stats_top"), days, [max(0, most)]) if days else None
        return tuple(_row(host, per_day) for host, per_day in found or ())

    def _days(self, since: date) -> Iterator[date]:
        """From the first day that is still kept, the latest last."""
        today = self._clock().astimezone(UTC).date()
        day = max(since, today - timedelta(days=MOST_DAYS - 1))
        while day <= today:
            yield day
            day += timedelta(days=1)


def _row(host: str, per_day: list[list[str]]) -> HostView:
    """The days of one host added up; each is a list of names and values by turns."""
    sums: dict[str, float] = {}
    for pairs in per_day:
        for name, value in zip(pairs[::2], pairs[1::2], strict=True):
            sums[name] = float(value) if name == _INTERVAL else sums.get(name, 0) + int(value)
    waited_ms = sums.pop(_WAITED_MS, 0.0)
    return HostView.model_validate({"host": host, **sums, _WAITED: waited_ms / 1_000})


LOOKED_AT = 4
"""The latest pages of a host that count."""
LEAST_SHELLS = 3
"""So many of them must have needed a browser."""
CHECK_EVERY = 20
"""Pages of a host that needs a browser, of which one is read without it."""
LEARNED_SECONDS = 7 * 86_400
"""A site that was not crawled for a week may have been built anew."""


class HostMemory(LenientBroker):
    """What was learned of hosts."""

    def needs_browser(self, host: str) -> str | None:
        """Why the next page of `host` should go to a browser at once; None where it is to be read without one.

        To be asked once for each page: the askings are counted.
        """
        shells = self.run(
            lua("host_memory_ask"), [self._key("host", host)], [LEAST_SHELLS, CHECK_EVERY, LEARNED_SECONDS]
        )
        return f"{shells} of the last {LOOKED_AT} pages of {host} needed one" if shells else None

    def learned(self, host: str, was_shell: bool, rendered_helped: bool | None) -> None:
        """Take note of a page of `host` that was read without a browser first.

        `was_shell`: there was evidence that it needs one. `rendered_helped`: whether the browser's text was then
        much longer (`ingest.crawl.page_scan.browser_helped`); None where none was used, from which nothing can be
        learned.
        """
        if was_shell and rendered_helped is None:
            return
        needed = 1 if was_shell and rendered_helped else 0
        self.run(lua("host_memory_learn"), [self._key("host", host)], [needed, LOOKED_AT, LEARNED_SECONDS])


class HostAttempt:
    """The hosts that one request leads to, one after the other.

    What speaks against a host: no connection, no answer in time, a status of 500 or more. What does not: a page that
    is not there, and whatever our own rules refuse. `waited_seconds` is what went by before they were asked.
    """

    def __init__(
        self,
        breakers: HostBreakers,
        pre_request: Callable[[str], None],
        clock: Callable[[], datetime],
        *,
        on_failure: Callable[[str], None] = lambda origin: None,
    ) -> None:
        """`pre_request` is called with each address before it is asked for, unless the circuit of its host is open.

        `on_failure` is told of the origin that failed.
        """
        self.waited_seconds = 0.0
        self._breakers = breakers
        self._pre_request = pre_request
        self._clock = clock
        self._on_failure = on_failure
        self._origin: str | None = None

    def pre_request(self, url: str) -> None:
        """To be called before `url` is asked for. The host that sent us here has answered.

        Raises:
            HostUnavailable: the circuit of the host is open. Also what `pre_request` raises.
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
        """Judge the host that was asked last, once."""
        origin, self._origin = self._origin, None
        if origin is not None:
            self._breakers.record(origin, failed=failed)
            if failed:
                self._on_failure(origin)


class HostCounters:
    """Sums by host. Not for several threads."""

    def __init__(self) -> None:
        self._hosts: defaultdict[str, HostCounts] = defaultdict(HostCounts)

    def add(self, host: str, counts: HostCounts) -> None:
        """Add to what is known of `host`."""
        self._hosts[host] += counts

    def add_to(self, stats: HostStats, report: EgressReport, rate_limit: HostRateLimit) -> None:
        """Add the sums to `stats`, with the refusals that the proxy reports and the present interval of each host."""
        for refusal, count in report.refusals:
            self.add(refusal.host, HostCounts(egress_refusals=count))
        for host, counts in self._hosts.items():
            interval_seconds = None
            with contextlib.suppress(Overloaded):  # the broker is away: so are the stats
                interval_seconds = rate_limit.interval_seconds(host) if counts.requests else None
            stats.add(host, counts, interval_seconds=interval_seconds)
