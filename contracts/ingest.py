"""Events of ingestion (search, crawl, chunk, embed), counters of what the crawl did to each host, pages read before."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field, computed_field

from sluice.contracts.base import BlobRef, LaterText, Moment, Switch, Value, is_empty, is_none
from sluice.contracts.budget import Allowance, LaterAmount
from sluice.contracts.document import ChunkBatch, sha256_text
from sluice.contracts.event import Body
from sluice.contracts.operations.forget import Selection

Render = Literal["auto", "always", "never"]
"""Whether a browser shows the pages: where there is evidence that one is needed, always, or never."""
WithdrawnBy = Literal["noindex", "not_found", "gone"]
"""Why a page may no longer be in the index: it says so, or its site answers 404 or 410."""
AskedRender = Annotated[Render | None, Field(exclude_if=is_none)]
"""As a request may say it; None takes the configured way."""
Vertical = Literal["web", "news", "code"]
"""Which part of the web is searched, where a provider knows such parts."""


def _is_web(vertical: object) -> bool:
    return vertical == "web"


class SearchDirected(Body, queue="search"):
    """Search the web for `query`; crawl up to `crawl_pages` of what is found (0: keep snippets only)."""

    query: str
    locale: str | None = None
    top_k: Annotated[int, Field(ge=1, le=50)] = 8
    filters: dict[str, str] = Field(default_factory=dict)
    vertical: Annotated[Vertical, Field(exclude_if=_is_web)] = "web"
    crawl_pages: Annotated[int, Field(ge=0)] = 0
    crawl_depth: Annotated[int, Field(ge=0, le=5)] = 0
    byte_allowance: Annotated[int, Field(ge=0)] | None = None
    max_usd: Annotated[float, Field(ge=0)] = 0.0
    millisecond_allowance: LaterAmount = None
    """Of the pages that are crawled, not of the search itself."""
    render: AskedRender = None
    """How the pages that are found are shown, where the request said so."""
    screenshot: Switch = False
    """Keep a picture of each page that is found."""

    @property
    def allowance(self) -> Allowance:
        """What the pages that are found may use."""
        return Allowance(pages=self.crawl_pages, bytes=self.byte_allowance, milliseconds=self.millisecond_allowance)


class SearchResult(Value):
    """One result, as its provider gave it."""

    url: str
    title: str
    snippet: str = ""
    published_at: Moment | None = None
    rank: Annotated[int, Field(ge=1)]


class SearchCompleted(Body, queue="chunk"):
    """A provider answered. An empty `results` means that it found nothing, never that it failed."""

    query: str
    provider: str
    results: tuple[SearchResult, ...]
    cost_usd: float
    elapsed_ms: float
    failed_over_from: tuple[str, ...] = ()
    searched_at: Moment
    keep_snippets: bool = True
    """Whether the snippets themselves become documents (they do where no page will be crawled)."""
    shortfalls: Annotated[tuple[str, ...], Field(exclude_if=is_empty)] = ()
    """What the answer lacks and why, a sentence each: a later page that failed, rows that could not be used."""


class CrawlDirected(Body, queue="crawl"):
    """Fetch one page. `page_allowance` counts this page and all that its links may lead to."""

    url: Annotated[str, Field(max_length=4_096)]
    depth: Annotated[int, Field(ge=0)] = 0
    max_depth: Annotated[int, Field(ge=0, le=5)] = 1
    page_allowance: Annotated[int, Field(ge=1)] = 1
    byte_allowance: Annotated[int, Field(ge=0)] | None = None
    render: Render = "auto"
    search_query: str | None = None
    provider: str | None = None
    millisecond_allowance: LaterAmount = None
    screenshot: Switch = False
    """Keep a picture of the page as a blob; takes a browser."""
    came_by: Annotated[tuple[str, ...], Field(exclude_if=is_empty)] = ()
    """The addresses that led here within the run, the first one first: what is endless shows in them."""
    by_sitemap: Switch = False
    """Whether a page that is known need not be asked for where its site's sitemap says that it has not changed."""

    @property
    def allowance(self) -> Allowance:
        """What this page and all that its links lead to may use."""
        return Allowance(pages=self.page_allowance, bytes=self.byte_allowance, milliseconds=self.millisecond_allowance)

    def with_allowance(self, share: Allowance) -> CrawlDirected:
        """The same with another allowance."""
        allowances = {
            "page_allowance": share.pages,
            "byte_allowance": share.bytes,
            "millisecond_allowance": share.milliseconds,
        }
        return self.model_copy(update=allowances)


class PageCrawled(Body, queue="chunk"):
    """A page was fetched; its raw body is the blob."""

    url: str
    final_url: str
    status: int
    blob: BlobRef
    media_type: str
    charset: str | None = None
    depth: int
    rendered: bool = False
    fetched_at: Moment
    etag: str | None = None
    last_modified: str | None = None
    search_query: str | None = None
    provider: str | None = None
    elapsed_ms: float = 0.0
    canonical_url: LaterText = None
    """Under which address the page wants to be known, where it says so and that is on its own site."""
    noarchive: Switch = False
    """The site asks that no copy be shown: the raw page is not kept longer than it takes to read it."""
    unarchived_by: LaterText = None
    """Of such a page the event that crawled it, by which its raw page is kept meanwhile: see
    `workers.runtime.transient_pages`."""
    nosnippet: Switch = False
    """The site asks that no text of the page be shown: it is ranked and cited, and its text stays out of answers."""
    max_snippet: Annotated[int | None, Field(ge=1, exclude_if=is_none)] = None
    """The most characters of a passage that the site lets be shown; None for as many as there are."""
    screenshot: Annotated[BlobRef | None, Field(exclude_if=is_none)] = None
    """A PNG of the page as the browser showed it, where one was asked for."""


class PageUnchanged(Body):
    """A page was asked for again and is as it was: what the index holds of it stands."""

    url: str
    final_url: str
    depth: int
    by: Literal["not_modified", "same_content", "sitemap"]
    """The site said so (304), the body is byte for byte the one that was read last, or the page was not asked for since
    its site's sitemap says that it has not changed."""
    fetched_at: Moment
    elapsed_ms: float = 0.0


class PageWithdrawn(Body, queue="index"):
    """A page that the index holds asks not to be indexed any more, or is gone: its documents are to be removed.

    Removed is only what was fetched up to `seen_at`, and only from `crawl` and `search`: what was handed in stays.
    """

    url: str
    document_ids: tuple[str, ...]
    by: WithdrawnBy
    seen_at: Moment


class EgressRefused(Body):
    """Something that a crawl or a search wanted to reach, and may not: once for each target and rule, with a count."""

    purpose: str
    host: str
    port: int
    rule: str
    detail: str
    count: Annotated[int, Field(ge=1)] = 1


class DocumentsSubmitted(Body, queue="chunk"):
    """Documents handed in by an agent or an operator; the blob is a `DocumentBatch`."""

    documents: BlobRef
    document_count: Annotated[int, Field(ge=1)]


class ChunkFact(Value):
    """A chunk as a message carries it: its id and the hash of what is embedded for it."""

    chunk_id: str
    text_sha256: str


class DocumentChunked(Body, queue="embed"):
    """Documents were split; the blob is a `ChunkBatch`: as much as is embedded in about a second, or one document."""

    chunks_blob: BlobRef
    document_ids: tuple[str, ...]
    chunks: tuple[ChunkFact, ...]
    token_estimate: int

    @classmethod
    def of(cls, batch: ChunkBatch, blob: BlobRef) -> DocumentChunked:
        """The event of a batch that is kept as `blob`."""
        chunks = tuple(
            ChunkFact(chunk_id=chunk.chunk_id, text_sha256=sha256_text(text))
            for document in batch.documents
            for chunk, text in zip(document.chunks, document.embedding_texts(), strict=True)
        )
        return cls(
            chunks_blob=blob,
            document_ids=tuple(document.document_id for document in batch.documents),
            chunks=chunks,
            token_estimate=sum(chunk.token_estimate for document in batch.documents for chunk in document.chunks),
        )


class ChunksPartlyEmbedded(Body, queue="embed"):
    """The first `chunk_count` chunks of the batch have their vectors by one model; the embed stage goes on from there.

    So a document of any length is embedded in steps of about a second, between which other work has its turn. With
    `chunk_count` 0 the batch is embedded anew: its corpus got another model meanwhile.
    """

    chunks_blob: BlobRef
    vectors_blobs: tuple[BlobRef, ...] = ()
    """Float32, one blob for each step, row after row."""
    model_fingerprint: str
    chunk_count: Annotated[int, Field(ge=0)] = 0
    cache_hits: int = 0
    cost_usd: float = 0.0


class ChunksEmbedded(Body, queue="index"):
    """Every chunk of the batch has its vector: `vectors_blob` is float32, row i for chunk i of `chunks_blob`."""

    chunks_blob: BlobRef
    vectors_blob: BlobRef
    model_fingerprint: str
    dimension: Annotated[int, Field(ge=1)]
    chunk_count: int
    cache_hits: int = 0
    cost_usd: float = 0.0


class DocumentsRemoved(Body, queue="index"):
    """An agent or operator asked for documents to be forgotten.

    With `erase` nothing of them is to be left, in older versions and generations either; `selection` is what was asked.
    """

    document_ids: tuple[str, ...]
    erase: Switch = False
    selection: Annotated[Selection | None, Field(exclude_if=is_none)] = None


class ForgetDirected(Body, queue="index"):
    """Find the documents that are meant, in the journal and elsewhere, remove them and every trace of them."""

    selection: Selection
    keep_out: bool
    """Whether the negative list is to name the documents; it has the selection itself already."""
    operator: str
    note: str = ""


class ErasureDirected(Body, queue="index"):
    """Remove what is left of forgotten documents outside the index: known pages, raw pages, batches of chunks."""

    document_ids: tuple[str, ...]
    selection: Selection


class HostCounts(Value):
    """What happened to one host. Counts of several crawls or days are added up."""

    requests: int = 0
    """Whatever left for it: pages, redirects, robots.txt, sitemaps, parts of rendered pages."""
    pages: int = 0
    """Pages that were read, unchanged ones too."""
    failures: int = 0
    """No connection, no answer in time, a status of 500 or more."""
    robots_refusals: int = 0
    egress_refusals: int = 0
    received_bytes: int = 0
    rendered: int = 0
    """Pages that a browser showed."""
    waited_seconds: float = 0.0
    """For turns, in all."""

    def __add__(self, other: HostCounts) -> HostCounts:
        ours, theirs = self.model_dump(), other.model_dump()
        return HostCounts(**{name: ours[name] + theirs[name] for name in HostCounts.model_fields})


class HostView(HostCounts):
    """`GET /v1/hosts`: what the crawl did to one host over the days asked for."""

    host: str
    interval_seconds: float = 0.0
    """Between two requests, as it was held last."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def success_share(self) -> float:
        """Of the requests, those that did not fail; 1 where there were none."""
        return 1.0 if self.requests == 0 else max(0.0, 1.0 - self.failures / self.requests)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def render_share(self) -> float:
        """Of the pages, those that a browser showed; 0 where there were none."""
        return self.rendered / self.pages if self.pages else 0.0


@dataclass(frozen=True, slots=True)
class PageLink:
    """One way on from a page: a canonical address, and the text that a reader sees of it (or its title)."""

    url: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class RememberedPage:
    """A page as it was read last. `url` is the address that was directed, in its canonical form."""

    url: str
    final_url: str
    document_id: str
    """Of the document that was made of it."""
    body_sha256: str
    """Of the body that was kept, in hexadecimal digits: for a rendered page that of the browser's HTML."""
    fetched_at: datetime
    """When it was read last, or seen to be as it was."""
    rendered: bool = False
    """Whether a browser showed it: then a 304 for the page itself says nothing about what its scripts load."""
    etag: str | None = None
    last_modified: str | None = None
    canonical_url: str | None = None
    links: tuple[PageLink, ...] = ()
    nosnippet: bool = False
    """Whether the index holds it as a page of which no text is shown."""


@dataclass(frozen=True, slots=True)
class WatchedPage:
    """A page that the index holds, as far as it matters to when it is asked for again."""

    url: str
    """Where it was found in the end."""
    document_id: str
    fetched_at: datetime
    """When it was read last, or seen to be as it was."""
    asked_at: datetime
    """When its site was last asked for the page itself: its sitemap may have told of it since."""
    watched_since: datetime
    """When it was read first of all."""
    changes: int = 0
    """How often its text was found to be another one since then."""
    cited_by: tuple[str, ...] = ()
    """The profiles of the gate whose answers cite it."""


@dataclass(frozen=True, slots=True)
class WithdrawnPage:
    """A page that was taken out of the index at `withdrawn_at`, and why."""

    by: WithdrawnBy
    withdrawn_at: datetime
