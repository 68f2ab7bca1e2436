"""The state shared by the steps of one page's crawl: its directive, its remaining allowance, and the politeness rules.

Promises: no address is requested that robots.txt forbids, nor before its host's turn; a host's answers set the pace of
the next requests to it; spending is counted even if the page fails, since a page that is refused half-way was fetched.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from sluice.contracts.budget import Allowance, Spend
from sluice.contracts.errors import BudgetExhausted, PolicyRefused, TimedOut
from sluice.contracts.ingest import CrawlDirected, HostCounts, PageLink, RememberedPage
from sluice.ingest.circuit_breaker import HostBreakers
from sluice.ingest.crawl.crawled_page import GONE, CrawledPage, NoIndex, Note, PageGone
from sluice.ingest.crawl.page_scan import PageFacts, read_page
from sluice.ingest.crawl.sitemap import SiteMaps
from sluice.ingest.deadline import CancelCheck, Deadline, never_cancelled
from sluice.ingest.egress.crawl_account import EgressAccount, EgressReport
from sluice.ingest.http.fetch import Fetcher
from sluice.ingest.politeness.hosts import (
    HostAttempt,
    HostCounters,
    HostMemory,
    HostStats,
    judge_status,
    retry_after_seconds,
)
from sluice.ingest.politeness.rate_limit import HostRateLimit
from sluice.ingest.politeness.robots import RobotsCache, product_token
from sluice.ingest.politeness.robots_rules import Directives, read_directives
from sluice.ingest.settings import CrawlSettings
from sluice.ingest.url import host_of, normalise_url

if TYPE_CHECKING:
    from sluice.ingest.browser.browser import Browser
    from sluice.ingest.egress.proxy import EgressProxy


@dataclass(slots=True)
class BudgetMeter:
    """Bytes received and milliseconds taken by sites so far; `pages` counts pages completed."""

    allowance: Allowance
    pages: int = 0
    bytes: int = 0
    milliseconds: float = 0.0
    waited_seconds: float = 0.0
    """Time spent waiting for hosts' turns."""
    egress: EgressReport | None = None
    """Traffic and refusals at the proxy for this page, once the crawl has ended."""

    @property
    def spend(self) -> Spend:
        """The spending as the ledger books it."""
        return Spend(pages=self.pages, bytes=self.bytes, milliseconds=self.milliseconds)

    @property
    def is_used_up(self) -> bool:
        """Whether no byte or no millisecond is left."""
        left = self.allowance.less(self.spend)
        return left.bytes == 0 or (left.milliseconds is not None and left.milliseconds < 1)

    def bytes_left(self, most: int) -> int:
        """Return how many bytes may still come in, at most `most`. Raises BudgetExhausted if none may."""
        left = self.allowance.less(self.spend).bytes
        if left == 0:
            raise BudgetExhausted("no bytes are left")
        return most if left is None else min(most, left)

    def seconds_left(self, most: float) -> float:
        """Return how many seconds sites may still take, at most `most`. Raises BudgetExhausted below a millisecond."""
        left = self.allowance.less(self.spend).milliseconds
        if left is None:
            return most
        if left < 1:
            raise BudgetExhausted("no milliseconds are left")
        return min(most, left / 1_000)

    def took(self, seconds: float, *, at_most: float) -> None:
        """Add a site's time, capped at its time limit; the excess is our own overhead."""
        self.milliseconds += min(max(0.0, seconds), at_most) * 1_000


class KnownPages(Protocol):
    """Records of pages read before."""

    def recall(self, corpus: str, url: str) -> RememberedPage | None:
        """Return the record of the page, if the index holds its content. Raises Unavailable if the memory is down."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CrawlContext:
    """The services of a crawler. `clock` returns times with their zone.

    `check_cancelled` is called before each request to a site; what it raises ends the crawl. Without
    `known_pages` every page is read anew, without `host_memory` nothing is learned about hosts, without `host_stats`
    nothing is counted by host.
    """

    settings: CrawlSettings
    egress: EgressProxy
    fetcher: Fetcher
    robots: RobotsCache
    rate_limit: HostRateLimit
    breakers: HostBreakers
    browser: Browser | None
    site_maps: SiteMaps
    clock: Callable[[], datetime]
    check_cancelled: CancelCheck = never_cancelled
    known_pages: KnownPages | None = None
    host_memory: HostMemory | None = None
    host_stats: HostStats | None = None
    doubts: Callable[[str], Mapping[str, float]] = lambda corpus: {}
    """Returns what callers say against a corpus's pages: shares by URL and by host."""


@dataclass(frozen=True, slots=True)
class ReadPage:
    """A page with its facts, and with the robots directives of the page and its response."""

    page: CrawledPage
    facts: PageFacts
    directives: Directives

    @property
    def links(self) -> tuple[PageLink, ...]:
        """The page's links; empty if it asks robots not to follow them."""
        return () if self.directives.nofollow else self.facts.anchors


@dataclass(slots=True, kw_only=True)
class PageVisit:
    """The state of one page's crawl. `note` is called with each decision."""

    context: CrawlContext
    directed: CrawlDirected
    meter: BudgetMeter
    egress_grant: EgressAccount
    corpus: str
    run_id: str
    note: Note
    url: str = field(init=False)
    """The directed address, in canonical form."""
    deadline: Deadline = field(init=False)
    counters: HostCounters = field(init=False, default_factory=HostCounters)

    def __post_init__(self) -> None:
        self.url = normalise_url(self.directed.url)
        self.deadline = Deadline(self.context.settings.page_deadline_seconds)

    # Politeness.

    def attempt(self) -> HostAttempt:
        """Start an attempt: each address on its way is judged by robots.txt, waits its turn and is counted."""
        context = self.context
        return HostAttempt(
            context.breakers,
            self._pre_request,
            context.clock,
            on_failure=lambda origin: self.counters.add(host_of(origin), HostCounts(failures=1)),
        )

    def _pre_request(self, url: str) -> None:
        """Check robots.txt, then wait for the host's turn: a disallowed address takes no turn from others."""
        context, host = self.context, host_of(url)
        context.check_cancelled()
        try:
            verdict = context.robots.check(url, self.deadline)
        except PolicyRefused as refusal:
            self.counters.add(host, HostCounts(robots_refusals=int(refusal.rule.startswith("robots"))))
            self.note(refusal.rule, refusal.problem)
            raise
        interval_seconds = context.robots.crawl_delay_seconds(url, self.deadline)
        self.note("robots", f"{url} is allowed: {verdict.line or verdict.reason}")
        left_seconds = self.deadline.left_seconds()
        waited = context.rate_limit.wait_turn(host, interval_seconds=interval_seconds, at_most_seconds=left_seconds)
        self.note("turn", f"{host}: waited {waited:.2f} s")
        self.meter.waited_seconds += waited
        self.counters.add(host, HostCounts(requests=1, waited_seconds=waited))

    def keep_pace(self, url: str, status: int, retry_after: str | None) -> None:
        """Slow down if a site says that we are too fast; speed up, little by little, when it answers well."""
        host = host_of(url)
        if status in {429, 503}:
            pause = retry_after_seconds(retry_after, self.context.clock()) if retry_after else None
            self.context.rate_limit.slow_down(host, pause)
            self.note("turn", f"{host} answers {status}: slower from now on")
        elif status < 500:
            self.context.rate_limit.went_well(host)

    def learn(self, url: str, *, was_shell: bool, helped: bool | None) -> None:
        """Remember for the host of `url` whether its page was a shell, and whether a browser helped."""
        if self.context.host_memory is not None:
            self.context.host_memory.learned(host_of(url), was_shell, helped)

    # Reading.

    def require_page(self, final_url: str, status: int, retry_after: str | None, *, rendered: bool = False) -> None:
        """Return if the status is that of a page. Raises PageGone for 404 and 410, else as `judge_status`."""
        if status in GONE:
            raise PageGone(self.url, final_url, status, rendered=rendered)
        judge_status(status, retry_after, self.url, self.context.clock())

    def read(self, page: CrawledPage, html: str, robots_tag: str | None) -> ReadPage:
        """Read the page's facts; `html` is empty unless it is HTML. `robots_tag` is its X-Robots-Tag.

        Raises NoIndex if the page asks not to be indexed.
        """
        token = product_token(self.context.settings.agent)
        facts = read_page(html, page.final_url, token)
        directives = read_directives(robots_tag, facts.meta_robots, token, self.context.clock())
        self.require_indexable(directives, page.final_url, rendered=page.rendered)
        return ReadPage(page, facts, directives)

    def require_indexable(self, directives: Directives, url: str, *, rendered: bool = False) -> None:
        """Raise NoIndex if the directives of the page at `url` say so, unless its links alone are wanted."""
        told = [name for name in ("noindex", "nofollow", "noarchive", "nosnippet") if getattr(directives, name)]
        self.note("directives", ", ".join(told) or "none for us")
        if directives.noindex and self.directed.purpose != "map":
            raise NoIndex(self.url, url, rendered=rendered)

    # Costs.

    def seconds_since(self, started: datetime) -> float:
        """Return the seconds since `started`, by the crawler's clock."""
        return (self.context.clock() - started).total_seconds()

    def count_received(self, url: str, received_bytes: int) -> None:
        """Count bytes against the allowance and for the host of `url`."""
        self.meter.bytes += received_bytes
        self.counters.add(host_of(url), HostCounts(received_bytes=received_bytes))

    def require_patience(self, error: TimedOut, url: str, limit_seconds: float) -> None:
        """Raise BudgetExhausted if `limit_seconds` was less than a page may take: then the site is not at fault."""
        if limit_seconds < self.context.settings.page_timeout_seconds:
            limit_ms = limit_seconds * 1_000
            raise BudgetExhausted(f"{url} takes longer than the {limit_ms:g} milliseconds that are left") from error
