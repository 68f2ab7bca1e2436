"""One page's crawl, seen by each of its steps: what was directed, what is left of it, and how sites are treated.

Promises: no address is asked for that robots.txt forbids, nor before its host's turn; what a host answers sets the
pace of the next requests to it; what is spent is counted also where the page fails.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from sluice.contracts.errors import BudgetExhausted, PolicyRefused, TimedOut
from sluice.contracts.ingest import CrawlDirected
from sluice.contracts.known_pages import PageLink
from sluice.contracts.operations.hosts import HostCounts
from sluice.ingest.crawl.budget_meter import BudgetMeter
from sluice.ingest.crawl.crawl_context import CrawlContext
from sluice.ingest.crawl.crawled_page import CrawledPage, EgressGrant, Note
from sluice.ingest.crawl.page_scan import PageFacts, read_page
from sluice.ingest.crawl.withdrawal import GONE, NoIndex, PageGone
from sluice.ingest.deadline import Deadline
from sluice.ingest.politeness.hosts import HostAttempt, HostCounters
from sluice.ingest.politeness.response_verdict import judge_status, retry_after_seconds
from sluice.ingest.politeness.robots import product_token
from sluice.ingest.politeness.robots_rules import Directives, read_directives
from sluice.ingest.url import host_of, normalise_url


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
    egress_grant: EgressGrant
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
        return HostAttempt(context.breakers, self._pre_request, context.clock, on_failure=self._count_failure)

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

    def _count_failure(self, origin: str) -> None:
        self.counters.add(host_of(origin), HostCounts(failures=1))

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
