"""One page's crawl, seen by each of its steps: what was directed, what is left of it, and how sites are treated.

Promises: no address is asked for that robots.txt forbids, nor before its host's turn; what a host answers sets the
pace of the next requests to it; what is spent is counted also where the page fails, as a page that is refused half-way
was fetched.
"""

from __future__ import annotations

from collections.abc import Callable
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
from sluice.ingest.politeness.hosts import HostAttempt, HostCounters, HostMemory, HostStats
from sluice.ingest.politeness.rate_limit import HostRateLimit
from sluice.ingest.politeness.response_verdict import judge_status, retry_after_seconds
from sluice.ingest.politeness.robots import RobotsCache, product_token
from sluice.ingest.politeness.robots_rules import Directives, read_directives
from sluice.ingest.settings import CrawlSettings
from sluice.ingest.url import host_of, normalise_url

if TYPE_CHECKING:
    from sluice.ingest.browser.browser import Browser
    from sluice.ingest.egress.proxy import EgressProxy


@dataclass(slots=True)
class BudgetMeter:
    """Bytes brought in and milliseconds that sites took so far; `pages` are those that were had in the end."""

    allowance: Allowance
    pages: int = 0
    bytes: int = 0
    milliseconds: float = 0.0
    egress: EgressReport | None = None
    """What went through the proxy for it and what was refused there, once the crawl has ended."""

    @property
    def spend(self) -> Spend:
        """As the ledger books it."""
        return Spend(pages=self.pages, bytes=self.bytes, milliseconds=self.milliseconds)

    @property
    def is_used_up(self) -> bool:
        """Whether no byte or no millisecond is left."""
        left = self.allowance.less(self.spend)
        return left.bytes == 0 or (left.milliseconds is not None and left.milliseconds < 1)

    def bytes_left(self, most: int) -> int:
        """How many bytes may still come in, at most `most`.

        Raises:
            BudgetExhausted: none.
        """
        left = self.allowance.less(self.spend).bytes
        if left == 0:
            raise BudgetExhausted("no bytes are left")
        return most if left is None else min(most, left)

    def seconds_left(self, most: float) -> float:
        """How long sites may still take, at most `most` seconds.

        Raises:
            BudgetExhausted: not a millisecond.
        """
        left = self.allowance.less(self.spend).milliseconds
        if left is None:
            return most
        if left < 1:
            raise BudgetExhausted("no milliseconds are left")
        return min(most, left / 1_000)

    def took(self, seconds: float, *, at_most: float) -> None:
        """Count a site's time. What goes beyond its time limit is our own machinery's."""
        self.milliseconds += min(max(0.0, seconds), at_most) * 1_000


class KnownPages(Protocol):
    """What was read of each page before."""

    def recall(self, corpus: str, url: str) -> RememberedPage | None:
        """The page at `url`, where the index holds what was read of it.

        Raises:
            Unavailable: the memory does not answer.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CrawlContext:
    """The services of a crawler. `clock` gives times with their zone.

    `check_cancelled` is called before anything is asked of a site; what it raises ends the crawl. Without
    `known_pages` every page is read anew, without `host_memory` nothing is learned of hosts, without `host_stats`
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


@dataclass(frozen=True, slots=True)
class ReadPage:
    """A page with what it says, and with what it and its response ask of robots."""

    page: CrawledPage
    facts: PageFacts
    directives: Directives

    @property
    def links(self) -> tuple[PageLink, ...]:
        """Where it leads; nowhere where it asks that its links not be followed."""
        return () if self.directives.nofollow else self.facts.anchors


@dataclass(slots=True, kw_only=True)
class PageVisit:
    """The state of one page's crawl. `note` is told of each decision."""

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
        """A way to a page: each address on it is judged by robots.txt, waits its host's turn and is counted."""
        context = self.context
        return HostAttempt(
            context.breakers,
            self._pre_request,
            context.clock,
            on_failure=lambda origin: self.counters.add(host_of(origin), HostCounts(failures=1)),
        )

    def _pre_request(self, url: str) -> None:
        """Robots first, then the host's turn: what is disallowed takes no turn from others."""
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
        self.counters.add(host, HostCounts(requests=1, waited_seconds=waited))

    def keep_pace(self, url: str, status: int, retry_after: str | None) -> None:
        """Slow down where a site says that we are too fast; speed up, little by little, where it answers well."""
        host = host_of(url)
        if status in {429, 503}:
            pause = retry_after_seconds(retry_after, self.context.clock()) if retry_after else None
            self.context.rate_limit.slow_down(host, pause)
            self.note("turn", f"{host} answers {status}: slower from now on")
        elif status < 500:
            self.context.rate_limit.went_well(host)

    def learn(self, url: str, *, was_shell: bool, helped: bool | None) -> None:
        """Remember of the host of `url` whether its page was a shell, and whether a browser helped."""
        if self.context.host_memory is not None:
            self.context.host_memory.learned(host_of(url), was_shell, helped)

    # What was read.

    def require_page(self, final_url: str, status: int, retry_after: str | None, *, rendered: bool = False) -> None:
        """Nothing for a page; otherwise what its status says.

        Raises:
            PageGone: 404 or 410. And what `ingest.politeness.response_verdict.judge_status` raises.
        """
        if status in GONE:
            raise PageGone(self.url, final_url, status, rendered=rendered)
        judge_status(status, retry_after, self.url, self.context.clock())

    def read(self, page: CrawledPage, html: str, robots_tag: str | None) -> ReadPage:
        """What the page says; `html` is empty where it is no HTML. `robots_tag` is its X-Robots-Tag.

        Raises:
            NoIndex: it asks not to be indexed.
        """
        token = product_token(self.context.settings.agent)
        facts = read_page(html, page.final_url, token)
        directives = read_directives(robots_tag, facts.meta_robots, token, self.context.clock())
        self.require_indexable(directives, page.final_url, rendered=page.rendered)
        return ReadPage(page, facts, directives)

    def require_indexable(self, directives: Directives, url: str, *, rendered: bool = False) -> None:
        """Raises NoIndex where the directives of the page at `url` ask for that."""
        told = [name for name in ("noindex", "nofollow", "noarchive", "nosnippet") if getattr(directives, name)]
        self.note("directives", ", ".join(told) or "none for us")
        if directives.noindex:
            raise NoIndex(self.url, url, rendered=rendered)

    # What it costs.

    def seconds_since(self, started: datetime) -> float:
        """By the crawler's clock."""
        return (self.context.clock() - started).total_seconds()

    def count_received(self, url: str, received_bytes: int) -> None:
        """Count bytes against the allowance and for the host of `url`."""
        self.meter.bytes += received_bytes
        self.counters.add(host_of(url), HostCounts(received_bytes=received_bytes))

    def require_patience(self, error: TimedOut, url: str, limit_seconds: float) -> None:
        """A page too slow for what its run has left is a matter of budget, and its site is not at fault.

        Raises:
            BudgetExhausted: `limit_seconds` was less than a page may take.
        """
        if limit_seconds < self.context.settings.page_timeout_seconds:
            limit_ms = limit_seconds * 1_000
            raise BudgetExhausted(f"{url} takes longer than the {limit_ms:g} milliseconds that are left") from error
