"""Events of ingestion (search, crawl, chunk, embed), counters of each crawled host, and pages crawled before."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field, computed_field

from sluice.contracts.base import BlobRef, LaterText, Moment, Switch, Value, is_empty, is_none
from sluice.contracts.budget import Allowance, LaterAmount
from sluice.contracts.document import ChunkBatch, DocumentBatch, Scalar, sha256_text
from sluice.contracts.event import Body
from sluice.contracts.operations.forget import Selection

Render = Literal["auto", "always", "never"]
"""Use of a browser to render pages: where there is evidence that a page needs it, always, or never."""
WithdrawnBy = Literal["noindex", "not_found", "gone"]
"""Reason for removing a page from the index: the page forbids indexing, or its site answers 404 or 410."""
AskedRender = Annotated[Render | None, Field(exclude_if=is_none)]
"""The value in a request; None takes the configured one."""
Vertical = Literal["web", "news", "code"]
"""The part of the web to search, where a provider supports such parts."""
CrawlPurpose = Literal["index", "read", "read_and_index", "map"]
"""What a page is fetched for: to be indexed; to be inspected and shown (`read`); both; or for its links alone."""


def _is_to_index(purpose: str) -> bool:
    return purpose == "index"


PathPattern = Annotated[str, Field(pattern=r"^(/|\*|https?://)", max_length=256)]
"""A pattern of paths, in which `*` stands for any characters, `?` for one and `[ab]` for one of these: `/docs/*`. It is
compared with the whole path, without the query; one that begins with `http` with the whole address."""


class LinkRules(Value):
    """Which links of a site a crawl follows. No pattern of `exclude` may match, and one of `include`, if there are any.
    The page at which it begins is read in any case."""

    include: Annotated[tuple[PathPattern, ...], Field(max_length=32)] = ()
    exclude: Annotated[tuple[PathPattern, ...], Field(max_length=32)] = ()
    reach: Literal["host", "site", "any"] = "site"
    """Links that stay on the very host, on the site with its subdomains, or lead anywhere."""


class CrawlScope(LinkRules):
    """The links that the crawl of one site follows, each within the run's own ceilings."""

    start: str
    """The address at which it began."""


class SearchDirected(Body, queue="search"):
    """Search the web for `query`; crawl up to `crawl_pages` of the results (0: keep snippets only)."""

    query: str
    locale: str | None = None
    top_k: Annotated[int, Field(ge=1, le=50)] = 8
    filters: dict[str, str] = Field(default_factory=dict)
    vertical: Annotated[Vertical, Field(exclude_if=lambda vertical: vertical == "web")] = "web"
    crawl_pages: Annotated[int, Field(ge=0)] = 0
    crawl_depth: Annotated[int, Field(ge=0, le=5)] = 0
    byte_allowance: Annotated[int, Field(ge=0)] | None = None
    max_usd: Annotated[float, Field(ge=0)] = 0.0
    millisecond_allowance: LaterAmount = None
    """Limit for the crawled pages, not for the search itself."""
    render: AskedRender = None
    """Rendering of the result pages, if the request sets it."""
    screenshot: Switch = False
    """Whether to keep a picture of each result page."""

    @property
    def allowance(self) -> Allowance:
        """Return the allowance for crawling the result pages."""
        return Allowance(pages=self.crawl_pages, bytes=self.byte_allowance, milliseconds=self.millisecond_allowance)


class SearchResult(Value):
    """One result, as the provider returned it."""

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
    """Missing parts of the result with reasons, a sentence each: a later page that failed, unusable rows."""


class CrawlDirected(Body, queue="crawl"):
    """Fetch one page. `page_allowance` counts this page and all pages that its links may lead to."""

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
    """Whether to keep a picture of the page as a blob; requires a browser."""
    came_by: Annotated[tuple[str, ...], Field(exclude_if=is_empty)] = ()
    """The addresses that led here within the run, first one first. They reveal endless chains of links."""
    by_sitemap: Switch = False
    """Whether to skip fetching a known page if its site's sitemap lists it as unchanged."""
    purpose: Annotated[CrawlPurpose, Field(exclude_if=_is_to_index)] = "index"
    scope: Annotated[CrawlScope | None, Field(exclude_if=is_none)] = None
    """For the crawl of a site: its links. The allowance is then this page's alone, and each link gets its own."""

    @property
    def allowance(self) -> Allowance:
        """Return the allowance of this page and all pages that its links lead to."""
        return Allowance(pages=self.page_allowance, bytes=self.byte_allowance, milliseconds=self.millisecond_allowance)

    def with_allowance(self, share: Allowance) -> CrawlDirected:
        """Return the same directive with another allowance."""
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
    """The page's own canonical address, if it names one on its own site."""
    noarchive: Switch = False
    """The site requests that no copy be shown: the raw page is deleted as soon as it has been read."""
    unarchived_by: LaterText = None
    """For such a page, the id of the event that crawled it. The raw page is kept under it until it has been read: see
    `workers.runtime.blob_store.TransientPages`."""
    nosnippet: Switch = False
    """The site requests that no text of the page be shown: the page is ranked and cited, without text in answers."""
    max_snippet: Annotated[int | None, Field(ge=1, exclude_if=is_none)] = None
    """The most characters of a passage that the site allows to be shown; None for no limit."""
    screenshot: Annotated[BlobRef | None, Field(exclude_if=is_none)] = None
    """A PNG of the page as the browser rendered it, if the directive requested one."""
    purpose: Annotated[CrawlPurpose, Field(exclude_if=_is_to_index)] = "index"


class PageRead(Body):
    """A page was read to be shown, and inspected. The blob is a `ChunkBatch` of it, with the passages that the guard
    blocks; only what is let through may be shown."""

    url: str
    document_id: str
    page: BlobRef


class SiteMapped(Body):
    """The addresses of a site were listed, from its sitemaps and the links of one page. The blob is a `MappedUrls`."""

    url: str
    final_url: str
    urls: BlobRef
    url_count: int


class MappedUrls(Value):
    """Addresses of a site, the best first (a blob)."""

    urls: tuple[str, ...]


class PageUnchanged(Body):
    """A page was checked again and is unchanged: its indexed documents stay valid."""

    url: str
    final_url: str
    depth: int
    by: Literal["not_modified", "same_content", "sitemap"]
    """The site answered 304, the body equals the last one byte for byte, or the site's sitemap lists the page as
    unchanged, so it was not fetched."""
    fetched_at: Moment
    elapsed_ms: float = 0.0


class PageWithdrawn(Body, queue="index"):
    """An indexed page forbids indexing now, or is gone. Its crawled or searched documents are removed, unless fetched
    or found unchanged after `seen_at`; submitted documents stay."""

    url: str
    document_ids: tuple[str, ...]
    by: WithdrawnBy
    seen_at: Moment


class EgressRefused(Body):
    """A crawl or a search tried to reach a forbidden target: one event for each target and rule, with a count."""

    purpose: str
    host: str
    port: int
    rule: str
    detail: str
    count: Annotated[int, Field(ge=1)] = 1


class DocumentsSubmitted(Body, queue="chunk"):
    """An agent or an operator submitted documents; the blob is a `DocumentBatch`."""

    documents: BlobRef
    document_count: Annotated[int, Field(ge=1)]
    subject: LaterText = None
    """The source of its document, if it has one alone; so of the three events below."""

    @classmethod
    def of(cls, batch: DocumentBatch, blob: BlobRef) -> DocumentsSubmitted:
        """Return the event of a batch that is stored as `blob`."""
        return cls(documents=blob, document_count=len(batch.documents), subject=batch.subject)


class UploadedFile(Value):
    """One file of an upload, or of an archive in it, and what has become of it."""

    name: str
    """Its name, or for a file of an archive `archive.zip/its/path`."""
    sha256: LaterText = None
    """Of its bytes; None where they were not had."""
    document_id: LaterText = None
    status: Literal["accepted", "unchanged", "indexed", "refused", "failed"]
    """`accepted` is on its way; `unchanged` is in the corpus with these bytes already; `refused` was not taken at the
    door; `failed` was taken, and could not be read later."""
    reason: LaterText = None
    """Why it was refused, failed, or is not whole."""


class UploadedFiles(Value):
    """The files of an upload as they came (a blob)."""

    files: tuple[UploadedFile, ...]


class FilesReceived(Body, queue="chunk"):
    """Files were uploaded. Their list is a blob, `UploadedFiles`, which goes when one of the documents is forgotten."""

    files: BlobRef
    document_ids: tuple[str, ...]
    """Of the files that were not refused."""
    unchanged_count: Annotated[int, Field(ge=0)]


class ChunkFact(Value):
    """A chunk in a message: its id and the hash of its embedding text."""

    chunk_id: str
    text_sha256: str


class DocumentChunked(Body, queue="embed"):
    """Documents were split; the blob is a `ChunkBatch`: about a second's worth of embedding, or one document."""

    chunks_blob: BlobRef
    document_ids: tuple[str, ...]
    chunks: tuple[ChunkFact, ...]
    token_estimate: int
    subject: LaterText = None
    inspected: Annotated[int, Field(ge=0, exclude_if=is_empty)] = 0
    """Chunks of a long document that are inspected already; the rest follows in steps."""
    purpose: Annotated[CrawlPurpose, Field(exclude_if=_is_to_index)] = "index"

    @classmethod
    def of(cls, batch: ChunkBatch, blob: BlobRef, purpose: CrawlPurpose = "index") -> DocumentChunked:
        """Return the event of a batch that is stored as `blob`."""
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
            subject=batch.subject,
            purpose=purpose,
        )


class ChunksPartlyEmbedded(Body, queue="embed"):
    """The first `chunk_count` chunks of the batch have their vectors by one model; the embed stage embeds the rest. So
    a document of any length is embedded in steps of about a second, between which other work has its turn. With
    `chunk_count` 0 the batch is embedded again, because its corpus has a new model."""

    chunks_blob: BlobRef
    vectors_blobs: tuple[BlobRef, ...] = ()
    """Float32, one blob for each step, row after row."""
    model_fingerprint: str
    chunk_count: Annotated[int, Field(ge=0)] = 0
    cache_hits: int = 0
    cost_usd: float = 0.0
    subject: LaterText = None


class ChunksEmbedded(Body, queue="index"):
    """Every chunk of the batch has its vector: `vectors_blob` is float32, row i for chunk i of `chunks_blob`."""

    chunks_blob: BlobRef
    vectors_blob: BlobRef
    model_fingerprint: str
    dimension: Annotated[int, Field(ge=1)]
    chunk_count: int
    cache_hits: int = 0
    cost_usd: float = 0.0
    subject: LaterText = None


IDS_AT_ONCE = 1_000  # most documents whose removal one event directs


class DocumentsRemoved(Body, queue="index"):
    """An agent or operator requested that documents be forgotten. With `erase` every trace is removed, also from older
    versions and generations; `selection` is the request's."""

    document_ids: tuple[str, ...]
    erase: Switch = False
    selection: Annotated[Selection | None, Field(exclude_if=is_none)] = None


class DocumentAmended(Body, queue="index"):
    """An agent or operator changed metadata of a document; None removes a value."""

    document_id: str
    metadata: dict[str, Scalar | None]


class ForgetDirected(Body, queue="index"):
    """Find the selected documents, in the journal and elsewhere, and remove them with every trace."""

    selection: Selection
    keep_out: bool
    """Whether to add the documents to the negative list; it already contains the selection itself."""
    operator: str
    note: str = ""


class ErasureDirected(Body, queue="index"):
    """Remove the remains of forgotten documents outside the index: known pages, raw pages, batches of chunks."""

    document_ids: tuple[str, ...]
    selection: Selection


class HostCounts(Value):
    """Counters of one host. Those of several crawls or days are added up."""

    requests: int = 0
    """All requests to it: pages, redirects, robots.txt, sitemaps, parts of rendered pages."""
    pages: int = 0
    """Pages that were read, unchanged ones too."""
    failures: int = 0
    """No connection, no answer in time, or a status of 500 or more."""
    robots_refusals: int = 0
    egress_refusals: int = 0
    received_bytes: int = 0
    rendered: int = 0
    """Pages that a browser rendered."""
    waited_seconds: float = 0.0
    """Total wait for the host's turns."""

    def __add__(self, other: HostCounts) -> HostCounts:
        ours, theirs = self.model_dump(), other.model_dump()
        return HostCounts(**{name: ours[name] + theirs[name] for name in HostCounts.model_fields})


class HostView(HostCounts):
    """`GET /v1/hosts`: the crawl's counters for one host over the requested days."""

    host: str
    interval_seconds: float = 0.0
    """Latest interval between two requests."""
    refusals: Annotated[dict[str, int], Field(exclude_if=is_empty)] = Field(default_factory=dict)
    """Pages and requests that were refused, by the rule."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def success_share(self) -> float:
        """Return the share of requests that did not fail; 1 without requests."""
        return 1.0 if self.requests == 0 else max(0.0, 1.0 - self.failures / self.requests)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def render_share(self) -> float:
        """Return the share of pages that a browser rendered; 0 without pages."""
        return self.rendered / self.pages if self.pages else 0.0


@dataclass(frozen=True, slots=True)
class PageLink:
    """A link of a page: a canonical address, and its visible text (or its title)."""

    url: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class RememberedPage:
    """A page as it was last read. `url` is the directed address, in canonical form."""

    url: str
    final_url: str
    document_id: str
    """Id of the document that was made from it."""
    body_sha256: str
    """SHA-256 of the stored body, in hexadecimal digits; for a rendered page of the browser's HTML."""
    fetched_at: datetime
    """When the page was last read or found unchanged."""
    rendered: bool = False
    """Whether a browser rendered it. A 304 for the page then does not cover the content that its scripts load."""
    etag: str | None = None
    last_modified: str | None = None
    canonical_url: str | None = None
    links: tuple[PageLink, ...] = ()
    nosnippet: bool = False
    """Whether it is indexed as a page whose text must not be shown."""


@dataclass(frozen=True, slots=True)
class WatchedPage:
    """An indexed page, with the facts that decide when to check it again."""

    url: str
    """Its final address."""
    document_id: str
    fetched_at: datetime
    """When the page was last read or found unchanged."""
    asked_at: datetime
    """When the page itself was last requested; its sitemap may have reported on it since."""
    watched_since: datetime
    """When it was first read."""
    changes: int = 0
    """Number of text changes found since then."""
    cited_by: tuple[str, ...] = ()
    """The gate's profiles whose answers cite it."""
    owner: str | None = None
    """The API key whose run read it first."""
    is_called_outdated: bool = False
    """Whether a caller has called a passage of it outdated since it was last requested."""


@dataclass(frozen=True, slots=True)
class WithdrawnPage:
    """A page that was removed from the index at `withdrawn_at`, with the reason."""

    by: WithdrawnBy
    withdrawn_at: datetime
