"""From what search and crawl bring home to documents."""

from __future__ import annotations

import base64
from datetime import datetime

from sluice.contracts.base import BlobRef
from sluice.contracts.document import ChunkBatch, Document, Provenance, document_id_for, snippet_id_for
from sluice.contracts.event import Body, Event
from sluice.contracts.ingest import PageCrawled, SearchCompleted
from sluice.contracts.known_pages import PageMemory, RememberedPage
from sluice.ingest.crawl.crawler import CrawledPage, UnchangedPage
from sluice.workers.runtime.blob_store import BlobStore
from sluice.workers.runtime.transient_pages import TransientPages


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


def record_page(
    page: CrawledPage | UnchangedPage,
    event: Event,
    page_memory: PageMemory,
    blobs: BlobStore,
    transient_pages: TransientPages,
) -> Body:
    """The event of a page, which is remembered, so that the next crawl need not read it again.

    Its body is kept as a blob; where the site asks that no copy be archived, only until it was read.
    """
    if isinstance(page, UnchangedPage):
        page_memory.seen_again(event.corpus, page.url, page.fetched_at, asked=page.by != "sitemap")
        return page.as_event()
    picture = blobs.put(page.screenshot) if page.screenshot else None
    bodies = transient_pages.of_crawl(event.run_id, event.id) if page.noarchive else blobs
    crawled = page.as_event(bodies.put(page.body), picture, unarchived_by=event.id if page.noarchive else None)
    page_memory.remember(event.corpus, remembered(page, crawled.blob), run_id=event.run_id)
    return crawled


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
