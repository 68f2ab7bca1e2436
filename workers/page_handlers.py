"""Handlers of searches, crawled pages and submitted documents. They end in chunks.

Refusals of the egress proxy become events of the run, and marks on the span of its hop. The proxy's own log line,
written at the first refusal of each kind, has the run id as well. The rules of handlers stand in `workers.handlers`.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from opentelemetry import trace

from sluice.contracts import ingest
from sluice.contracts.base import BlobRef, shared_fields
from sluice.contracts.budget import Spend
from sluice.contracts.document import ChunkBatch, Document, DocumentBatch, Provenance, document_id_for
from sluice.contracts.errors import BudgetExhausted, InvalidInput, NotFound, PolicyRefused, SluiceError
from sluice.contracts.event import Body, CostlyFailure, Done, Event, Gap, GapFound, Next, Outcome, Postponable, Waited
from sluice.gate.directives import CrawlLimits, make_crawl, make_result_crawls
from sluice.gate.veto import fit_within
from sluice.ingest.circuit_breaker import PROVIDER_PAUSE_SECONDS, HostUnavailable
from sluice.ingest.crawl.crawled_page import withdrawal_in
from sluice.ingest.crawl.crawler import CrawledPage, Crawler, UnchangedPage, directions_from
from sluice.ingest.crawl.frontier import is_in_scope
from sluice.ingest.crawl.page_visit import BudgetMeter
from sluice.ingest.egress.crawl_account import EgressReport, egress_context
from sluice.ingest.egress.proxy import EgressProxy
from sluice.ingest.search.search import SearchFailed
from sluice.ingest.url import host_of
from sluice.ledger.known_pages import PageMemory
from sluice.ledger.learning.flags import flag_gap
from sluice.ledger.ledger import Ledger
from sluice.otel.context import span
from sluice.trust.settings import CorpusPolicy
from sluice.workers.runtime.blob_store import BlobStore, TransientPages
from sluice.workers.runtime.flags import FlagReader
from sluice.workers.runtime.negative_list import forgotten_page
from sluice.workers.runtime.observers import count_failed_search, utc_now
from sluice.workers.settings import Settings
from sluice.workers.steps.chunk import Chunker, documents_of_snippets, gap_of
from sluice.workers.wiring.corpora import CorpusReaders, policy_of
from sluice.workers.wiring.inject import Step
from sluice.workers.wiring.steering import Doubts

_OF_THE_WEB = frozenset({"crawl", "search"})
"""Sources whose documents the site may withdraw; a submission under the same address belongs to its sender."""


@dataclass(frozen=True, slots=True)
class Pages(Step):
    """Crawled pages: their bodies, the memory of them, and those that may no longer be in the index."""

    page_memory: PageMemory
    readers: CorpusReaders
    blobs: BlobStore
    transient_pages: TransientPages

    def record(self, page: CrawledPage | UnchangedPage, event: Event) -> Body:
        """Remember a page, so that the next crawl need not read it again, and return its event.

        Its body is kept as a blob; if the site requests that no copy be archived, only until it was read. A page that
        is only shown is not remembered.
        """
        if isinstance(page, UnchangedPage):
            self.page_memory.seen_again(event.corpus, page.url, page.fetched_at, asked=page.by != "sitemap")
            return page.as_event()
        picture = self.blobs.put(page.screenshot) if page.screenshot else None
        unarchived_by = event.id if page.noarchive else None
        crawled = page.as_event(self._bodies(event, unarchived_by).put(page.body), picture, unarchived_by=unarchived_by)
        if crawled.purpose != "read":
            self.page_memory.remember(event.corpus, remembered(page, crawled.blob), run_id=event.run_id)
        return crawled

    def mapped(self, page: CrawledPage | UnchangedPage, event: Event) -> ingest.SiteMapped:
        """Return the event of a site whose addresses were listed: its page first, then those that it leads to."""
        urls = tuple(dict.fromkeys((page.final_url, *page.links)))
        blob = self.blobs.put(ingest.MappedUrls(urls=urls).model_dump_json().encode())
        return ingest.SiteMapped(url=page.url, final_url=page.final_url, urls=blob, url_count=len(urls))

    def document(self, page: ingest.PageCrawled, event: Event) -> Document:
        """Return a recorded page as a document. Its id follows from the page's final URL, after redirects."""
        return document_of_page(page, self._bodies(event, page.unarchived_by).get(page.blob), event.run_id)

    def withdrawn(self, refusal: SluiceError, corpus: str, seen_at: datetime) -> tuple[ingest.PageWithdrawn, ...]:
        """Return a withdrawal if the corpus holds a page that, by the refusal, it no longer may; else nothing.

        The crawl calls it, so that a page that was never indexed makes no event. The index checks again
        (`withdrawable`), since the page may have been read anew meanwhile.
        """
        withdrawal = withdrawal_in(refusal)
        if withdrawal is None:
            return ()
        documents = self.withdrawable(withdrawal.document_ids, corpus, seen_at)
        if not documents:
            return ()
        return (
            ingest.PageWithdrawn(
                url=withdrawal.addresses[-1], document_ids=documents, by=withdrawal.by, seen_at=seen_at
            ),
        )

    def withdrawable(self, document_ids: Sequence[str], corpus: str, seen_at: datetime) -> tuple[str, ...]:
        """Return the documents that the corpus holds, that came from the web and were not seen since `seen_at`."""
        try:
            held = self.readers.existing(corpus).documents(document_ids)
        except NotFound:
            return ()
        seen_again = self.page_memory.seen_at(corpus, document_ids)
        return tuple(
            document_id
            for document_id, facts in held.items()
            if facts.provenance.source in _OF_THE_WEB
            and max(facts.provenance.fetched_at, seen_again.get(document_id, facts.provenance.fetched_at)) <= seen_at
        )

    def _bodies(self, event: Event, unarchived_by: str | None) -> BlobStore:
        """Return the store that keeps the body of a page."""
        return self.transient_pages.of_crawl(event.run_id, unarchived_by) if unarchived_by else self.blobs


@dataclass(frozen=True, slots=True)
class WebSearch(Step):
    """Asks the search providers, and directs the crawl of what they find."""

    search_web: Callable[[ingest.SearchDirected], ingest.SearchCompleted]
    crawl_limits: CrawlLimits
    doubts: Doubts

    def ask(self, directed: ingest.SearchDirected, corpus: str) -> Done | SearchFailed:
        """Return the search results with crawls of them, or the failure if no provider answered."""
        try:
            answered = self.search_web(directed)
        except (PolicyRefused, BudgetExhausted, InvalidInput) as refusal:
            return Done(gaps=(gap_of(refusal, "search", directed.query),))
        except SearchFailed as failure:
            return failure
        completed = answered.model_copy(update={"keep_snippets": directed.crawl_pages == 0})
        gaps = tuple(
            Gap(stage="search", subject=directed.query, reason="search_incomplete", detail=shortfall)
            for shortfall in completed.shortfalls
        )
        if not completed.results:
            gaps += (Gap(stage="search", subject=directed.query, reason="nothing_found"),)
        spend = Spend(usd=completed.cost_usd, milliseconds=completed.elapsed_ms)
        crawls = make_result_crawls(directed, completed, self.crawl_limits.render, self.doubts.pages(corpus))
        return Done((Next(completed), *crawls), gaps, spend)


def on_search_directed(
    event: Event, egress: EgressProxy, web: WebSearch, flags: FlagReader, settings: Settings, ledger: Ledger
) -> Outcome | Postponable:
    """Query the search providers. A second run queries them again; only one of the answers is recorded."""
    directed = event.body_as(ingest.SearchDirected)
    if not flags.enabled_now("search"):
        return Done(gaps=(flag_gap("search", directed.query),))
    if not policy_of(settings.trust, ledger, event.corpus).search:
        return Done(gaps=(gap_of(_forbidden(event.corpus, "web search"), "search", directed.query),))
    try:
        egress_grant = egress.open("search", run_id=event.run_id)
    except PolicyRefused as refusal:
        return Done(gaps=(gap_of(refusal, "search", directed.query),))
    with egress_grant, egress_context(egress_grant.url):
        outcome = web.ask(directed, event.corpus)
    report = egress_grant.report()
    mark_refusals(report)
    if not isinstance(outcome, SearchFailed):
        return replace(outcome, emits=(*outcome.emits, *refused(report)))
    count_failed_search(name for name, _ in outcome.reasons)
    is_shut_out = report.refusals and not report.hosts  # by our own rules: trying again cannot help
    if outcome.asked and not is_shut_out:
        raise outcome
    done = Done(refused(report), (gap_of(outcome, "search", directed.query),))
    return done if is_shut_out else Postponable(done, PROVIDER_PAUSE_SECONDS, str(outcome))


def on_search_completed(event: Event, chunker: Chunker) -> Outcome:
    """Make documents of the snippets, where no page will be crawled. Ids follow from URL and content."""
    completed = event.body_as(ingest.SearchCompleted)
    documents = documents_of_snippets(completed, event.run_id) if completed.keep_snippets else ()
    return chunker.chunk(documents, event)


def on_crawl_directed(
    event: Event, crawler: Crawler, pages: Pages, ledger: Ledger, settings: Settings, flags: FlagReader
) -> Outcome | Postponable:
    """Fetch one page. A second run fetches it again; the run's dedupe key keeps one event per URL.

    Withdraws a page that may no longer be in the index. In the crawl of a site it directs the links that its run has
    not directed yet, as many as there is room for; a site that is mapped has its links recorded instead.
    """
    directed = event.body_as(ingest.CrawlDirected)
    meter = BudgetMeter(directed.allowance)
    if not flags.enabled_now("crawl"):
        return Done(gaps=(flag_gap("crawl", directed.url),))
    if gap := forgotten_page(directed.url, event, ledger.forgotten):
        return Done(gaps=(gap,))
    policy = policy_of(settings.trust, ledger, event.corpus)
    try:
        _check_source(directed.url, event.corpus, policy)
        host = host_of(directed.url)
        with span(f"fetch {host}", kind="client", attributes={"server.address": host}):
            page = crawler.crawl(directed, meter, corpus=event.corpus, run_id=event.run_id)
        _check_source(page.final_url, event.corpus, policy)
        _check_scope(page.final_url, directed)
        if gap := forgotten_page(page.final_url, event, ledger.forgotten):
            return Done(refused(meter.egress), (gap,), meter.spend, _waited(directed, meter))
        crawled = pages.mapped(page, event) if directed.purpose == "map" else pages.record(page, event)
    except (PolicyRefused, NotFound, InvalidInput, BudgetExhausted, HostUnavailable) as refusal:
        without_page = _not_crawled(refusal, event, meter, pages)
        if isinstance(refusal, HostUnavailable):
            return Postponable(without_page, settings.crawl.breaker_reset_seconds, str(refusal))
        return without_page
    except Exception as error:
        raise CostlyFailure(meter.spend) from error
    finally:
        mark_refusals(meter.egress)
    if directed.purpose == "map":
        return Done((Next(crawled), *refused(meter.egress)), (), meter.spend, _waited(directed, meter))
    directions = directions_from(page.links, directed, meter.spend, page_url=page.final_url)
    children = tuple(map(make_crawl, directions))
    if directed.scope is not None:
        children = _fitting(children, page.final_url, event, ledger)
    return Done((Next(crawled), *children, *refused(meter.egress)), (), meter.spend, _waited(directed, meter))


def _waited(directed: ingest.CrawlDirected, meter: BudgetMeter) -> Waited | None:
    return Waited(meter.waited_seconds, f"turn of {host_of(directed.url)}") if meter.waited_seconds else None


def _fitting(links: tuple[Next, ...], page_url: str, event: Event, ledger: Ledger) -> tuple[Next, ...]:
    """Return those links of the crawl of a site that its run has not directed yet, as many as there is room for; and
    the gap of the others, which a run has once."""
    taken = ledger.taken_keys(event.run_id, [one.dedupe_key or "" for one in links])
    costly = [(one, one.reserve or Spend()) for one in links if one.dedupe_key not in taken]
    fitting = fit_within(ledger.budget_left(event.run_id), costly, stage="crawl", subject=lambda one: page_url)
    if not fitting.gaps:
        return fitting.items
    first = fitting.gaps[0]
    lift = first.lifted_by.replace("limits.max_pages", "limit")
    return (*fitting.items, links_left_out(len(fitting.gaps), page_url, first.detail, lift))


def links_left_out(count: int, page_url: str, why: str, lifted_by: str) -> Next:
    """Return the gap of the links that the crawl of a site has no room for. A run has it once, for its first ones."""
    detail = f"{count} links of it are not followed ({why}), nor are later ones"
    gap = Gap(stage="crawl", subject=page_url, reason="limit", detail=detail, lifted_by=lifted_by)
    return Next(GapFound(gap=gap), "crawl-limit")


def _forbidden(corpus: str, what: str) -> PolicyRefused:
    return PolicyRefused("corpus_policy", f"the policy of corpus {corpus!r} has no {what}", "trust.corpora")


def _check_source(url: str, corpus: str, policy: CorpusPolicy) -> None:
    """Raise `PolicyRefused` if the corpus takes in no page of this address."""
    if not policy.crawl:
        raise _forbidden(corpus, "crawling")
    if not policy.takes_page(url):
        raise _forbidden(corpus, f"source for {url}")


def _check_scope(url: str, directed: ingest.CrawlDirected) -> None:
    """Raise `PolicyRefused` if the page, redirected perhaps, is none that the crawl of its site takes in."""
    if directed.scope is not None and not is_in_scope(directed.scope, url, is_start=directed.depth == 0):
        problem = f"{directed.url} leads to {url}, which is outside of the crawl of {directed.scope.start}"
        raise PolicyRefused("out_of_scope", problem, "crawl that address, or give another `reach` or pattern")


def _not_crawled(refusal: SluiceError, event: Event, meter: BudgetMeter, pages: Pages) -> Done:
    """Return a gap, and the page's withdrawal if the index holds it although it no longer may."""
    directed = event.body_as(ingest.CrawlDirected)
    is_indexed = directed.purpose in ("index", "read_and_index")
    try:
        withdrawn = pages.withdrawn(refusal, event.corpus, utc_now()) if is_indexed else ()
    except Exception as error:
        raise CostlyFailure(meter.spend) from error
    gap = gap_of(refusal, "crawl", directed.url)
    return Done((*map(Next, withdrawn), *refused(meter.egress)), (gap,), meter.spend, _waited(directed, meter))


def on_page_crawled(event: Event, pages: Pages, chunker: Chunker) -> Outcome:
    """Extract and chunk a page. Chunk ids follow from URL and content."""
    page = event.body_as(ingest.PageCrawled)
    return chunker.chunk((pages.document(page, event),), event, page.purpose)


def on_documents_submitted(event: Event, chunker: Chunker) -> Outcome:
    """Extract and chunk submitted documents. Chunk ids follow from source and content."""
    submitted = event.body_as(ingest.DocumentsSubmitted)
    batch = DocumentBatch.model_validate_json(chunker.blobs.get(submitted.documents))
    return chunker.chunk(tuple(brought_by(event.run_id, document) for document in batch.documents), event)


def on_files_received(event: Event, blobs: BlobStore) -> Outcome:
    """Name the files of an upload that were refused at the door among what the run lacks."""
    lines = ingest.UploadedFiles.model_validate_json(blobs.get(event.body_as(ingest.FilesReceived).files))
    refused = (line for line in lines.files if line.status == "refused")
    return Done(
        gaps=tuple(Gap(stage="accept", subject=one.name, reason="refused", detail=one.reason or "") for one in refused)
    )


def document_of_page(page: ingest.PageCrawled, body: bytes, run_id: str) -> Document:
    """Return a crawled page as a document. Its id follows from the page's final URL, after redirects."""
    return Document(
        id=document_id_for(page.final_url),
        url=page.final_url,
        media_type=page.media_type if not page.charset else f"{page.media_type}; charset={page.charset}",
        data=base64.b64encode(body),
        provenance=Provenance(source="crawl", crawl_depth=page.depth, run_id=run_id, **shared_fields(Provenance, page)),
    )


def first_crawled_at(batch: ChunkBatch) -> datetime | None:
    """Return when the first crawled page of a batch was fetched; None if no page was crawled."""
    provenances = (document.provenance for document in batch.documents)
    return min((one.fetched_at for one in provenances if one.source == "crawl"), default=None)


def brought_by(run_id: str, document: Document) -> Document:
    """Return a submitted document with the run that brings it."""
    provenance = document.provenance.model_copy(update={"run_id": run_id})
    return document.model_copy(update={"provenance": provenance})


def remembered(page: CrawledPage, body: BlobRef) -> ingest.RememberedPage:
    """Return the facts by which the next crawl recognises a page."""
    return ingest.RememberedPage(
        url=page.url,
        final_url=page.final_url,
        document_id=document_id_for(page.final_url),
        body_sha256=body.sha256,
        fetched_at=page.fetched_at,
        rendered=page.rendered,
        etag=page.etag,
        last_modified=page.last_modified,
        canonical_url=page.canonical_url,
        links=page.page_links,
        nosnippet=page.nosnippet,
    )


MARK = "egress refused"
"""The name of the span's event."""


def refused(report: EgressReport | None) -> tuple[Next, ...]:
    """Return an event for each refused target and rule."""
    return tuple(map(Next, _bodies(report)))


def mark_refusals(report: EgressReport | None) -> None:
    """Mark each refusal on the current span, also for an attempt that fails and therefore emits nothing."""
    for body in _bodies(report):
        trace.get_current_span().add_event(MARK, body.model_dump())


def _bodies(report: EgressReport | None) -> Iterator[ingest.EgressRefused]:
    for refusal, count in report.refusals if report else ():
        yield ingest.EgressRefused(count=count, **shared_fields(ingest.EgressRefused, refusal))
