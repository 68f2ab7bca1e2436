"""Pages read to be shown, the addresses of a site, and crawls of sites. Each is a run of the crawl's own workers.

A page that is to be shown takes the way of every page (policy, robots.txt, egress, extraction, inspection) and ends
before the index, so what is shown was inspected as what is indexed is.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING

from sluice.contracts.api import Lines, RunAccepted, RunKind, RunView
from sluice.contracts.base import fields_of, shared_fields
from sluice.contracts.document import ChunkBatch, ChunkedDocument
from sluice.contracts.errors import BudgetExhausted, InvalidInput, Overloaded, SluiceError
from sluice.contracts.gate import Limits
from sluice.contracts.ingest import (
    CrawlDirected,
    CrawlScope,
    HostView,
    LinkRules,
    MappedUrls,
    PageRead,
    Render,
    SiteMapped,
)
from sluice.contracts.operations.actions import ActionPage
from sluice.contracts.operations.corpora import LinkView
from sluice.contracts.operations.crawling import (
    CrawlDecision,
    CrawlRequest,
    ExplainedCrawl,
    HostState,
    Mapped,
    MapRequest,
    RobotsFile,
    Scraped,
    ScrapedPage,
    ScrapeRequest,
    ShownFinding,
)
from sluice.contracts.trust import Verdict
from sluice.gate.directives import compute_allowance, lower_limits, make_crawl, set_rendering
from sluice.gate.veto import lowest
from sluice.index.search.passages import join_chunks
from sluice.ingest.politeness.hosts import HostMemory
from sluice.ingest.politeness.rate_limit import RateLimitStore
from sluice.ingest.politeness.robots import BrokerRobotsStore, product_token
from sluice.ingest.politeness.robots_rules import read_robots
from sluice.ingest.url import host_of, normalise_url, origin_of
from sluice.ledger.events.outbox import NO_KEY
from sluice.trust.private.mask import mask_label
from sluice.trust.private.patterns import build_finder
from sluice.trust.settings import TrustSettings
from sluice.workers.context import Context
from sluice.workers.service.documents import SMALL_DOCUMENTS, encoded, require_showable, shown, usable_url
from sluice.workers.service.service import Service, require_documents_corpus

if TYPE_CHECKING:  # the crawler is imported where a page is fetched
    from sluice.ingest.crawl.crawled_page import CrawledPage, Note
    from sluice.ingest.crawl.crawler import UnchangedPage

ONE_PAGE = Limits(max_pages=1)
ROBOTS_SHOWN = 20_000
"""Letters of a robots.txt that are shown; those that people write have a tenth of that."""
RESTS_SHOWN = 5


class CrawlDesk:
    """Begins these runs, and shows what came of them.

    Every beginning raises what `Service.add_documents` does for a URL.
    """

    def __init__(self, context: Context, service: Service) -> None:
        self._context, self._service = context, service
        self._explaining = threading.Lock()

    @cached_property
    def _lines(self) -> RateLimitStore:
        settings = self._context.settings
        return self._context.opened(RateLimitStore(settings.broker_location, settings.instance))

    @cached_property
    def _robots(self) -> BrokerRobotsStore:
        settings = self._context.settings
        return self._context.opened(BrokerRobotsStore(settings.broker_location, key_prefix=settings.instance))

    @cached_property
    def _hosts(self) -> HostMemory:
        settings = self._context.settings
        return self._context.opened(HostMemory(settings.broker_location, key_prefix=settings.instance))

    def host(self, named: str, days: int = 1, url: str | None = None) -> HostState:
        """Return what the crawl did to a host on so many UTC days, how it stands, and its robots.txt as it is kept,
        with what that says of `url`. Raises `InvalidInput` if the name is none, or the address is of another host."""
        host = _host("host", named)
        if url is not None and host_of(url := usable_url("url", url)) != host:
            raise InvalidInput("url", f"is not of {host}", f"give an address of {host}")
        now = datetime.now(UTC)
        line = self._lines.state(f"host:{host}")
        asked = ActionPage(subject=f"host:{host}", limit=RESTS_SHOWN)
        counted = self._context.host_stats.one(host, (now - timedelta(days=days - 1)).date())
        return HostState(
            **fields_of(HostView, counted),
            next_turn_at=_to_come(max(line.next, line.closed), now),
            closed_until=_to_come(line.closed, now),
            slow_seconds=line.slow_seconds,
            circuit_opened_at=self._hosts.circuit_opened_at(host),
            robots=tuple(self._robots_of(host, url, now)),
            rests=tuple(self._context.ledger.console.actions(asked)),
        )

    def rest(self, named: str, seconds: float, operator: str, note: str) -> HostState:
        """Let no request to a host begin for so long, at most a week; 0 ends that. Recorded with who, when and why.
        Pages of it wait in their queue, or are left out where their runs end before."""
        host = _host("host", named)
        told = f"{seconds:g} seconds: {note}" if seconds else note
        self._context.ledger.console.record(operator, "rest_host" if seconds else "wake_host", [f"host:{host}"], told)
        self._lines.rest(f"host:{host}", seconds)
        return self.host(host)

    def explain(self, corpus: str, url: str) -> ExplainedCrawl:
        """Fetch one page in this process, over HTTP alone, and return each decision about it. Nothing is recorded.

        Raises `Overloaded` while another page is explained, and `PolicyRefused` if crawling is off.
        """
        require_documents_corpus(corpus)
        self._service.require_crawling()
        url = usable_url("url", url)
        if not self._explaining.acquire(blocking=False):
            raise Overloaded("another page is being tried", self._context.settings.crawl.page_timeout_seconds)
        try:
            return explain_page(self._context, corpus, url, "never")
        finally:
            self._explaining.release()

    def _robots_of(self, host: str, url: str | None, now: datetime) -> Iterator[RobotsFile]:
        token = product_token(self._context.settings.crawl.agent)
        for origin in dict.fromkeys((*([origin_of(url)] if url else ()), f"https://{host}", f"http://{host}")):
            if (kept := self._robots.recall(origin)) is None:
                continue
            answer, seconds = kept
            is_asked = url is not None and origin_of(url) == origin
            allowed, line = read_robots(answer.body, token).decision(url) if url and is_asked else (None, None)
            yield RobotsFile(
                origin=origin,
                outcome=answer.outcome,
                reason=answer.reason,
                expires_at=now + timedelta(seconds=seconds),
                text=answer.body.decode("utf-8", "replace")[:ROBOTS_SHOWN],
                url=url if is_asked else None,
                allowed=allowed and answer.outcome != "closed",
                line=line,
            )

    def scrape(self, request: ScrapeRequest, *, owner: str = NO_KEY, idempotency_key: str | None = None) -> RunAccepted:
        """Record the reading of one page."""
        directed = CrawlDirected(
            url=usable_url("url", request.url),
            max_depth=0,
            render=self._rendering(request.render),
            purpose="read_and_index" if request.index else "read",
        )
        return self._begin("scrape", request, directed, ONE_PAGE, owner, idempotency_key)

    def map(self, request: MapRequest, *, owner: str = NO_KEY, idempotency_key: str | None = None) -> RunAccepted:
        """Record the listing of a site's addresses: one page is fetched, and the sitemaps."""
        url = usable_url("url", request.url)
        directed = CrawlDirected(
            url=url,
            max_depth=1,
            render=self._rendering(request.render),
            search_query=request.search,
            purpose="map",
            scope=_scope(request, url),
        )
        return self._begin("map", request, directed, ONE_PAGE, owner, idempotency_key)

    def crawl(self, request: CrawlRequest, *, owner: str = NO_KEY, idempotency_key: str | None = None) -> RunAccepted:
        """Record the crawl of a site."""
        url = usable_url("url", request.url)
        directed = CrawlDirected(
            url=url,
            max_depth=int(lowest(request.max_depth, request.limits.max_depth) or 0),
            render=self._rendering(request.render),
            screenshot=request.screenshot,
            scope=_scope(request, url),
        )
        pages = lowest(request.limit or self._context.crawl_limits.max_pages, request.limits.max_pages)
        limits = request.limits.model_copy(update={"max_pages": pages})
        return self._begin("crawl", request, directed, limits, owner, idempotency_key)

    def scraped(self, run: RunView) -> Scraped:
        """Return the page that a run has read.

        Raises `PolicyRefused` if its site or its licence lets no text of it be shown, and `NotFound` if it was
        forgotten since.
        """
        events = self._context.ledger.events_of_kind(run.run_id, PageRead.kind)
        page = None
        if events:
            batch = ChunkBatch.model_validate_json(self._context.blobs.get(events[0].body_as(PageRead).page))
            page = page_of(batch.documents[0], self._context.settings.trust)
        return Scraped(**shared_fields(Scraped, run), page=page)

    def mapped(self, run: RunView, most: int, after: int = 0) -> Mapped:
        """Return `most` of the addresses that a run has listed, after the first `after`."""
        events = self._context.ledger.events_of_kind(run.run_id, SiteMapped.kind)
        known = shared_fields(Mapped, run)
        if not events:
            return Mapped(**known)
        body = events[0].body_as(SiteMapped)
        urls = MappedUrls.model_validate_json(self._context.blobs.get(body.urls)).urls
        return Mapped(**known, url=body.final_url, urls=urls[after : after + most], url_count=body.url_count)

    def _rendering(self, wanted: Render | None) -> Render:
        return set_rendering(self._context.crawl_limits, wanted, screenshot=False).render

    def _begin(
        self,
        kind: RunKind,
        request: ScrapeRequest | MapRequest | CrawlRequest,
        directed: CrawlDirected,
        limits: Limits,
        owner: str,
        idempotency_key: str | None,
    ) -> RunAccepted:
        """Record a run of this directive, which gets the share of one page of the run's ceilings."""
        require_documents_corpus(request.corpus)
        self._service.require_crawling()
        told = request if isinstance(request, CrawlRequest) else request.model_copy(update={"wait": False})
        creates: bool | None = None
        if isinstance(request, CrawlRequest) or (isinstance(request, ScrapeRequest) and request.index):
            creates = request.create_corpus
        run = self._service.new_run(
            kind,
            request.corpus,
            owner=owner,
            idempotency_key=idempotency_key,
            fingerprint=encoded("request", told),
            query=directed.url,
            limits=limits,
            named_pages=limits.max_pages or 0,
            create_corpus=creates,
        )
        pages, size = run.ceilings.run.pages or 0, run.ceilings.run.bytes or 0
        reach = lower_limits(self._context.crawl_limits, limits)
        reach = reach.model_copy(update={"max_pages": pages, "max_bytes": size})
        allowance = compute_allowance(pages, reach, run.ceilings)
        if not allowance.pages:
            raise BudgetExhausted("there is no room for a page: limits.max_pages and max_bytes, or the budget")
        share = allowance.shared([1] * allowance.pages)[0]
        run = replace(run, is_small=pages <= SMALL_DOCUMENTS)
        return self._service.begin(run, [make_crawl(directed.with_allowance(share))])


def explain_page(
    context: Context, corpus: str, url: str, render: Render, *, screenshot: bool = False
) -> ExplainedCrawl:
    """Crawl the page at `url`; return what was decided, and how it ended. Its links are listed."""
    decisions: list[CrawlDecision] = []

    def note(about: str, what: str) -> None:
        decisions.append(CrawlDecision(about=about, what=what))

    _note_withdrawn(context, corpus, url, note)
    # Two pages and one level, so that its links are ranked as a run would rank them.
    directed = CrawlDirected(
        url=url,
        max_depth=1,
        page_allowance=2,
        byte_allowance=context.settings.crawl.run_bytes,
        render=render,
        screenshot=screenshot,
    )
    page, ended = _crawled(context, corpus, directed, note)
    if page is not None:
        note("page", _described(page))
    return ExplainedCrawl(url=url, ended=ended or "crawled", decisions=tuple(decisions))


def _note_withdrawn(context: Context, corpus: str, url: str, note: Note) -> None:
    """Note the page's earlier withdrawal, where it was in the index and had to leave it."""
    known = context.page_memory.withdrawn(corpus, normalise_url(url))
    if known is not None:
        why = known.by.replace("_", " ")
        note("memory", f"withdrawn from the index at {known.withdrawn_at:%Y-%m-%d %H:%M} UTC: {why}")


def _crawled(
    context: Context, corpus: str, directed: CrawlDirected, note: Note
) -> tuple[CrawledPage | UnchangedPage | None, str]:
    """Return the page, or None, with the code of the error that ended the crawl."""
    from sluice.ingest.crawl.page_visit import BudgetMeter

    meter, ended = BudgetMeter(directed.allowance), ""
    page: CrawledPage | UnchangedPage | None = None
    try:
        page = context.crawler.crawl(directed, meter, corpus=corpus, run_id="explain", note=note)
    except SluiceError as error:
        ended = error.code
        note("ended", f"{error.code}: {error}")
    if (report := meter.egress) is not None:
        asked = f"{report.requests} requests to {', '.join(report.hosts) or 'no host'}"
        note("egress", f"{asked}, {report.bytes_in} bytes in")
        for one, count in report.refusals:
            note("egress", f"{one.host}:{one.port} refused by rule {one.rule}, {count} times: {one.detail}")
    return page, ended


def _described(page: CrawledPage | UnchangedPage) -> str:
    from sluice.ingest.crawl.crawler import UnchangedPage
    from sluice.ingest.extract.extract import extract

    if isinstance(page, UnchangedPage):
        return f"unchanged ({page.by.replace('_', ' ')}); nothing would be read again"
    try:
        found = extract(page.body, page.media_type, charset=page.charset, url=page.final_url)
    except SluiceError as error:
        return f"cannot be read: {error}"
    title = f"“{found.title}”" if found.title else "no title"
    picture = f", a picture of {len(page.screenshot)} bytes" if page.screenshot else ""
    return f"{title}, {len(found.text)} characters as {found.form}, confidence {found.confidence:.2f}{picture}"


def page_of(document: ChunkedDocument, settings: TrustSettings) -> ScrapedPage:
    """Return a page as it may be shown. Raises `PolicyRefused` if no text of it may be."""
    require_showable(document, settings)
    finder = build_finder(settings)

    def masked(text: str) -> str:
        return mask_label(text, settings.mask, finder)

    joined = join_chunks(document.chunks)
    text = shown(joined, document, settings)
    inspected = [(chunk, chunk.inspection) for chunk in document.chunks if chunk.inspection]
    findings = (
        ShownFinding(rule=one.rule, start_line=chunk.start_line, end_line=chunk.end_line, verdict=found.verdict)
        for chunk, found in inspected
        for one in found.findings
    )
    blocked = {chunk.chunk_id for chunk, found in inspected if found.verdict is Verdict.BLOCKED}
    links = (link for chunk in document.chunks if chunk.chunk_id not in blocked for link in chunk.links)
    return ScrapedPage(
        **shared_fields(ScrapedPage, document.provenance),
        **{name: getattr(document, name) for name in ("document_id", "language", "checksum", "inspected_by")},
        url=document.source,
        title=document.title and masked(document.title),
        markdown=text.text,
        links=tuple(
            LinkView(url=link.url, words=masked(link.words), line=link.line, document_id=None) for link in links
        ),
        metadata={k: masked(v) if isinstance(v, str) else v for k, v in document.metadata.items()},
        verdict=max((found.verdict for _, found in inspected), key=tuple(Verdict).index, default=Verdict.PASSED),
        findings=tuple(dict.fromkeys(findings)),
        left_out=tuple(Lines(start_line=start, end_line=end) for start, end in joined.left_out),
        masked=len(text.edits),
    )


def _host(field: str, named: str) -> str:
    try:
        return host_of(normalise_url(f"https://{named}/"))
    except InvalidInput as error:
        raise InvalidInput(field, f"{named[:200]!r} is no host", "as example.org") from error


def _to_come(seconds: float, now: datetime) -> datetime | None:
    return datetime.fromtimestamp(seconds, UTC) if seconds > now.timestamp() else None


def _scope(rules: LinkRules, start: str) -> CrawlScope:
    return CrawlScope(**fields_of(LinkRules, rules), start=start)
