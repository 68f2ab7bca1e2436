"""Pages read to be shown, the addresses of a site, and crawls of sites. Each is a run of the crawl's own workers.

A page that is to be shown takes the way of every page (policy, robots.txt, egress, extraction, inspection) and ends
before the index, so what is shown was inspected as what is indexed is.
"""

from __future__ import annotations

from dataclasses import replace

from sluice.contracts.api import Lines, RunAccepted, RunKind, RunView
from sluice.contracts.base import fields_of, shared_fields
from sluice.contracts.document import ChunkBatch, ChunkedDocument
from sluice.contracts.errors import BudgetExhausted
from sluice.contracts.gate import Limits
from sluice.contracts.ingest import CrawlDirected, CrawlScope, LinkRules, MappedUrls, PageRead, Render, SiteMapped
from sluice.contracts.operations.corpora import LinkView
from sluice.contracts.operations.crawling import (
    CrawlRequest,
    Mapped,
    MapRequest,
    Scraped,
    ScrapedPage,
    ScrapeRequest,
    ShownFinding,
)
from sluice.contracts.trust import Verdict
from sluice.gate.directives import compute_allowance, lower_limits, make_crawl, set_rendering
from sluice.gate.veto import lowest
from sluice.index.search.passages import join_chunks
from sluice.ledger.events.outbox import NO_KEY
from sluice.trust.private.mask import mask_label
from sluice.trust.private.patterns import build_finder
from sluice.trust.settings import TrustSettings
from sluice.workers.context import Context
from sluice.workers.service.documents import SMALL_DOCUMENTS, encoded, require_showable, shown, usable_url
from sluice.workers.service.service import Service, require_documents_corpus

ONE_PAGE = Limits(max_pages=1)


class CrawlDesk:
    """Begins these runs, and shows what came of them.

    Every beginning raises what `Service.add_documents` does for a URL.
    """

    def __init__(self, context: Context, service: Service) -> None:
        self._context, self._service = context, service

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


def _scope(rules: LinkRules, start: str) -> CrawlScope:
    return CrawlScope(**fields_of(LinkRules, rules), start=start)
