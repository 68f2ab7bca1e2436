"""Turns results of search and crawl into documents, and records pages and refusals.

What the egress proxy refused becomes events of the run, and marks on the span of its hop. The proxy's own log line,
written at the first refusal of each kind, has the run id as well.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from opentelemetry import trace

from sluice.contracts.base import BlobRef
from sluice.contracts.document import ChunkBatch, Document, Provenance, document_id_for, snippet_id_for
from sluice.contracts.errors import NotFound, PolicyRefused, SluiceError
from sluice.contracts.event import Body, Event, Gap
from sluice.contracts.ingest import EgressRefused, PageCrawled, PageWithdrawn, SearchCompleted
from sluice.contracts.known_pages import RememberedPage
from sluice.contracts.outcome import Next
from sluice.ingest.crawl.crawled_page import withdrawal_in
from sluice.ingest.crawl.crawler import CrawledPage, UnchangedPage
from sluice.ingest.egress.crawl_account import EgressReport
from sluice.ledger.known_pages import PageMemory
from sluice.workers.runtime.blob_store import BlobStore
from sluice.workers.runtime.transient_pages import TransientPages
from sluice.workers.wiring.corpora import CorpusReaders
from sluice.workers.wiring.inject import Step


def document_of_page(page: PageCrawled, body: bytes, run_id: str) -> Document:
    """The document that a crawled page is: known by the URL at which it was found in the end."""
    return Document(
        id=document_id_for(page.final_url),
        url=page.final_url,
        media_type=page.media_type if not page.charset else f"{page.media_type}; charset={page.charset}",
        data=base64.b64encode(body),
        provenance=Provenance(
            source="crawl",
            fetched_at=page.fetched_at,
            search_query=page.search_query,
            provider=page.provider,
            crawl_depth=page.depth,
            rendered=page.rendered,
            etag=page.etag,
            last_modified=page.last_modified,
            run_id=run_id,
            nosnippet=page.nosnippet,
            max_snippet=page.max_snippet,
        ),
    )


def first_crawled_at(batch: ChunkBatch) -> datetime | None:
    """When the first crawled page of a batch was fetched; None where no page was crawled."""
    provenances = (document.provenance for document in batch.documents)
    return min((one.fetched_at for one in provenances if one.source == "crawl"), default=None)


def brought_by(run_id: str, document: Document) -> Document:
    """A document that was handed in, with the run that brings it."""
    provenance = document.provenance.model_copy(update={"run_id": run_id})
    return document.model_copy(update={"provenance": provenance})


def remembered(page: CrawledPage, body: BlobRef) -> RememberedPage:
    """What is kept of a page, by which to know it again."""
    return RememberedPage(
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


def documents_of_snippets(completed: SearchCompleted, run_id: str) -> tuple[Document, ...]:
    """One document per snippet. Its id differs from its page's, so that a snippet never replaces a page."""
    return tuple(
        Document(
            id=snippet_id_for(result.url),
            url=result.url,
            media_type="text/plain",
            title=result.title or None,
            text=result.snippet,
            provenance=Provenance(
                source="search",
                fetched_at=completed.searched_at,
                search_query=completed.query,
                provider=completed.provider,
                published_at=result.published_at,
                run_id=run_id,
            ),
        )
        for result in completed.results
        if result.snippet.strip()
    )


_OF_THE_WEB = frozenset({"crawl", "search"})
"""Documents that a site has a say in. What somebody handed in under the same address is his."""


@dataclass(frozen=True, slots=True)
class Pages(Step):
    """Crawled pages: their bodies, what is remembered of them, and those that may no longer be in the index."""

    page_memory: PageMemory
    readers: CorpusReaders
    blobs: BlobStore
    transient_pages: TransientPages

    def record(self, page: CrawledPage | UnchangedPage, event: Event) -> Body:
        """The event of a page, which is remembered, so that the next crawl need not read it again.

        Its body is kept as a blob; where the site asks that no copy be archived, only until it was read.
        """
        if isinstance(page, UnchangedPage):
            self.page_memory.seen_again(event.corpus, page.url, page.fetched_at, asked=page.by != "sitemap")
            return page.as_event()
        picture = self.blobs.put(page.screenshot) if page.screenshot else None
        unarchived_by = event.id if page.noarchive else None
        crawled = page.as_event(self._bodies(event, unarchived_by).put(page.body), picture, unarchived_by=unarchived_by)
        self.page_memory.remember(event.corpus, remembered(page, crawled.blob), run_id=event.run_id)
        return crawled

    def document(self, page: PageCrawled, event: Event) -> Document:
        """The document that a recorded page is: known by the URL at which it was found in the end."""
        return document_of_page(page, self._bodies(event, page.unarchived_by).get(page.blob), event.run_id)

    def withdrawn(self, refusal: SluiceError, corpus: str, seen_at: datetime) -> tuple[PageWithdrawn, ...]:
        """The event for a page that the corpus holds although the refusal says that it no longer may; else none.

        Asked by the crawl, so that a page that was never indexed is no event, and again by the index (`withdrawable`),
        since what it held may have been read anew meanwhile.
        """
        withdrawal = withdrawal_in(refusal)
        if withdrawal is None:
            return ()
        documents = self.withdrawable(withdrawal.document_ids, corpus, seen_at)
        if not documents:
            return ()
        return (PageWithdrawn(url=withdrawal.addresses[-1], document_ids=documents, by=withdrawal.by, seen_at=seen_at),)

    def withdrawable(self, document_ids: Sequence[str], corpus: str, seen_at: datetime) -> tuple[str, ...]:
        """Those documents that the corpus holds, that came from the web, and that were not seen since `seen_at`."""
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
        """Where the body of a page is kept."""
        return self.transient_pages.of_crawl(event.run_id, unarchived_by) if unarchived_by else self.blobs


MARK = "egress refused"
"""The name of the span's event."""


def refused(report: EgressReport | None) -> tuple[Next, ...]:
    """An event for each target and rule."""
    return tuple(map(Next, _bodies(report)))


def mark_refusals(report: EgressReport | None) -> None:
    """Mark each on the current span: also that of an attempt that fails, and therefore emits nothing."""
    for body in _bodies(report):
        trace.get_current_span().add_event(MARK, body.model_dump())


def _bodies(report: EgressReport | None) -> Iterator[EgressRefused]:
    for refusal, count in report.refusals if report else ():
        yield EgressRefused(
            purpose=refusal.purpose,
            host=refusal.host,
            port=refusal.port,
            rule=refusal.rule,
            detail=refusal.detail,
            count=count,
        )


def gap_of(refusal: SluiceError, stage: str, subject: str) -> Gap:
    """What a refusal leaves out of the answer: `subject` (a URL, a query), and why."""
    if isinstance(refusal, PolicyRefused):
        return Gap(
            stage=stage, subject=subject, reason=refusal.rule, detail=refusal.problem, lifted_by=refusal.lifted_by
        )
    return Gap(stage=stage, subject=subject, reason=refusal.code, detail=str(refusal))
