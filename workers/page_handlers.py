"""Handlers of what comes from outside: searches, pages, submitted documents. They end in chunks.

The rules of handlers stand in `workers.handlers`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from sluice.contracts.budget import Spend
from sluice.contracts.document import DocumentBatch
from sluice.contracts.errors import BudgetExhausted, InvalidInput, NotFound, PolicyRefused, SluiceError
from sluice.contracts.event import Event, Gap
from sluice.contracts.ingest import CrawlDirected, DocumentsSubmitted, PageCrawled, SearchCompleted, SearchDirected
from sluice.contracts.outcome import CostlyFailure, Done, Next, Outcome, Postponable
from sluice.gate.directives import make_crawl, make_result_crawls
from sluice.ingest.circuit_breaker import PROVIDER_PAUSE_SECONDS, HostUnavailable
from sluice.ingest.crawl.crawler import directions_from
from sluice.ingest.crawl.page_visit import BudgetMeter
from sluice.ingest.egress.crawl_account import egress_context
from sluice.ingest.search.search import SearchFailed
from sluice.ledger.learning.flags import flag_gap
from sluice.workers.runtime.event_counters import count_failed_search
from sluice.workers.runtime.negative_list import forgotten_page
from sluice.workers.steps.chunk import Chunker
from sluice.workers.steps.pages import Pages, brought_by, documents_of_snippets, gap_of, mark_refusals, refused
from sluice.workers.wiring.observers import utc_now

if TYPE_CHECKING:
    from sluice.gate.directives import CrawlLimits
    from sluice.ingest.crawl.crawler import Crawler
    from sluice.ingest.egress.proxy import EgressProxy
    from sluice.ledger.ledger import Ledger
    from sluice.workers.runtime.flags import FlagReader
    from sluice.workers.settings import Settings


def on_search_directed(
    event: Event,
    egress: EgressProxy,
    search_web: Callable[[SearchDirected], SearchCompleted],
    crawl_limits: CrawlLimits,
    flags: FlagReader,
) -> Outcome | Postponable:
    """Ask the search providers. Run twice it asks twice; only one of the answers is recorded."""
    directed = event.body_as(SearchDirected)
    if not flags.enabled_now("search"):
        return Done(gaps=(flag_gap("search", directed.query),))
    try:
        egress_grant = egress.open("search", run_id=event.run_id)
    except PolicyRefused as refusal:
        return Done(gaps=(gap_of(refusal, "search", directed.query),))
    with egress_grant, egress_context(egress_grant.url):
        outcome = _searched(directed, search_web, crawl_limits)
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


def _searched(
    directed: SearchDirected, search_web: Callable[[SearchDirected], SearchCompleted], crawl_limits: CrawlLimits
) -> Done | SearchFailed:
    """What the providers found, and the crawls of it; or that none of them answered."""
    try:
        answered = search_web(directed)
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
    return Done((Next(completed), *make_result_crawls(directed, completed, crawl_limits.render)), gaps, spend)


def on_search_completed(event: Event, chunker: Chunker) -> Outcome:
    """Make documents of the snippets, where no page will be crawled. Ids follow from URL and content."""
    completed = event.body_as(SearchCompleted)
    documents = documents_of_snippets(completed, event.run_id) if completed.keep_snippets else ()
    return chunker.chunk(documents, event)


def on_crawl_directed(
    event: Event, crawler: Crawler, pages: Pages, ledger: Ledger, settings: Settings, flags: FlagReader
) -> Outcome | Postponable:
    """Fetch one page. Run twice it fetches twice; the run's dedupe key keeps one event per URL.

    A page that may no longer be in the index is withdrawn from it.
    """
    directed = event.body_as(CrawlDirected)
    meter = BudgetMeter(directed.allowance)
    if not flags.enabled_now("crawl"):
        return Done(gaps=(flag_gap("crawl", directed.url),))
    if gap := forgotten_page(directed.url, event, ledger.forgotten):
        return Done(gaps=(gap,))
    try:
        page = crawler.crawl(directed, meter, corpus=event.corpus, run_id=event.run_id)
        if gap := forgotten_page(page.final_url, event, ledger.forgotten):
            return Done(refused(meter.egress), (gap,), meter.spend)
        crawled = pages.record(page, event)
    except (PolicyRefused, NotFound, InvalidInput, BudgetExhausted, HostUnavailable) as refusal:
        without_page = _not_crawled(refusal, event, meter, pages)
        if isinstance(refusal, HostUnavailable):
            return Postponable(without_page, settings.crawl.breaker_reset_seconds, str(refusal))
        return without_page
    except Exception as error:
        raise CostlyFailure(meter.spend) from error
    finally:
        mark_refusals(meter.egress)
    children = map(make_crawl, directions_from(page.links, directed, meter.spend, page_url=page.final_url))
    return Done((Next(crawled), *children, *refused(meter.egress)), spend=meter.spend)


def _not_crawled(refusal: SluiceError, event: Event, meter: BudgetMeter, pages: Pages) -> Done:
    """A gap; and where the index holds the page although it no longer may, that it is to be withdrawn."""
    try:
        withdrawn = pages.withdrawn(refusal, event.corpus, utc_now())
    except Exception as error:
        raise CostlyFailure(meter.spend) from error
    gap = gap_of(refusal, "crawl", event.body_as(CrawlDirected).url)
    return Done((*map(Next, withdrawn), *refused(meter.egress)), (gap,), meter.spend)


def on_page_crawled(event: Event, pages: Pages, chunker: Chunker) -> Outcome:
    """Extract and chunk a page. Chunk ids follow from URL and content."""
    return chunker.chunk((pages.document(event.body_as(PageCrawled), event),), event)


def on_documents_submitted(event: Event, chunker: Chunker) -> Outcome:
    """Extract and chunk what was handed in. Chunk ids follow from source and content."""
    submitted = event.body_as(DocumentsSubmitted)
    batch = DocumentBatch.model_validate_json(chunker.blobs.get(submitted.documents))
    return chunker.chunk(tuple(brought_by(event.run_id, document) for document in batch.documents), event)
