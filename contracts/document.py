"""Documents, their chunks, and their provenance: the values that travel from ingest to index."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal, NamedTuple, Protocol
from urllib.parse import urlsplit

from pydantic import Base64Bytes, Field, model_validator

from sluice.contracts.base import LaterText, Moment, Sha256, Switch, Value, is_empty, is_none
from sluice.contracts.trust import Inspection, Origin, TrustScore

Scalar = str | int | float | bool


class Provenance(Value):
    """The provenance of a document: kept with every chunk, shown with every citation."""

    source: Literal["crawl", "search", "submission", "file"]
    fetched_at: Moment
    search_query: str | None = None
    provider: str | None = None
    crawl_depth: int | None = None
    rendered: bool = False
    etag: str | None = None
    last_modified: str | None = None
    published_at: Moment | None = None
    author: str | None = None
    run_id: str | None = None
    nosnippet: Switch = False
    """The site requests that no text of the page be shown: its chunks are ranked and cited without their text."""
    max_snippet: Annotated[int | None, Field(ge=1, exclude_if=is_none)] = None
    """The most characters of a passage that the site allows to be shown; None for no limit."""
    submitted_by: LaterText = None
    """For a submitted document: the API key's id; None where no key was needed."""
    by_operator: Switch = False
    """For a submitted document: an operator submitted it, by a key or from this machine without one."""
    first_seen_at: Annotated[Moment | None, Field(exclude_if=is_none)] = None
    """For a document that came again with the same content: the time of its first fetch or submission."""
    signed_by: LaterText = None
    """The id of the key in `trust.keys` whose signature was valid when the document arrived."""
    file_sha256: LaterText = None
    """For a document that was read from a file: the SHA-256 of its bytes. An equal file is not read again."""
    repository: LaterText = None
    """For a file of a repository: the repository's address, or its local folder."""
    commit: LaterText = None
    """The commit at which the file was read."""
    branch: LaterText = None

    @property
    def origin(self) -> Origin:
        """Return the kind of origin by which trust is scored."""
        return "operator" if self.by_operator else _ORIGINS[self.source]

    @property
    def known_since(self) -> datetime:
        """Return when this content of the document first came, by the clock of the instance."""
        return self.first_seen_at or self.fetched_at


_AHEAD = timedelta(days=1)
"""Tolerance for a publication date after the fetch: a date without a time of day may be in any time zone."""


def is_publication_date(published_at: datetime | None, fetched_at: datetime) -> bool:
    """Return whether `published_at` is set and not after the fetch, within a day's tolerance."""
    return published_at is not None and published_at <= fetched_at + _AHEAD


_ORIGINS: dict[str, Origin] = {"crawl": "crawled", "search": "searched", "submission": "submitted", "file": "file"}


class Document(Value):
    """One version of a document before it is chunked: `text`, or `data` for binary media."""

    id: Annotated[str, Field(min_length=1, max_length=512)]
    media_type: str
    provenance: Provenance
    text: str | None = None
    data: Base64Bytes | None = None
    url: str | None = None
    file_path: str | None = None
    title: str | None = None
    metadata: dict[str, Scalar] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _has_content(self) -> Document:
        if (self.text is None) == (self.data is None):
            raise ValueError("give exactly one of text and data")
        return self

    @property
    def source(self) -> str:
        """Return the address that a reader would look up: the URL, else the path, else the id."""
        return self.url or self.file_path or self.id

    @property
    def size(self) -> int:
        """Return how many characters or bytes the content has."""
        return len(self.text or "") + len(self.data or b"")


class Batch(Value):
    """Documents that travel together (a blob)."""

    @property
    def subject(self) -> str | None:
        """Return the source of the only document; None if there are several."""
        documents: tuple[Document | ChunkedDocument, ...] = getattr(self, "documents", ())
        return documents[0].source if len(documents) == 1 else None


class DocumentBatch(Batch):
    """Documents that travel together from a submission to the chunk worker (a blob)."""

    documents: tuple[Document, ...]


class PageLink(NamedTuple):
    """A link of a page: the line of its words in the chunked text, its target, and its words."""

    line: int
    url: str
    words: str


class Chunk(Value):
    """A passage: the unit that is embedded, indexed, ranked and cited.

    `chunk_id` is derived from the document's source and the chunk's normalised content, so the same passage of the same
    source always has the same id. `start_line` and `end_line` are 1-based and inclusive, in the chunked text (for code:
    the file itself; for HTML and PDF: the extracted Markdown); header rows that a later part of a table repeats above
    its rows are not counted. `section_path` is the breadcrumb of headings, outermost first. `anchor` is the fragment of
    the nearest HTML heading that has one, `page` the page of a PDF on which the chunk begins.
    """

    chunk_id: str
    document_id: str
    ordinal: Annotated[int, Field(ge=0)]
    text: str
    start_line: Annotated[int, Field(ge=1)]
    end_line: Annotated[int, Field(ge=1)]
    section_path: tuple[str, ...] = ()
    symbol_path: str | None = None
    language: str | None = None
    token_estimate: Annotated[int, Field(ge=0)]
    checksum: Sha256
    anchor: LaterText = None
    page: Annotated[int | None, Field(ge=1, exclude_if=is_none)] = None
    inspection: Annotated[Inspection | None, Field(exclude_if=is_none)] = None
    """Findings of the inspection in the text; None where there are none."""
    links: Annotated[tuple[PageLink, ...], Field(exclude_if=is_empty)] = ()
    """For a page whose text holds no addresses: the links that begin in this chunk."""


def fetch_key(document_id: str, fetched_at: datetime) -> str:
    """Return a text that orders documents by the time of their fetch, and then by their id."""
    return f"{fetched_at:%Y-%m-%dT%H:%M:%S.%f} {document_id}"


class DocumentFacts(Value):
    """A document version without its chunks."""

    document_id: str
    checksum: Sha256
    """SHA-256 of the normalised content: with an equal checksum nothing is embedded again."""
    url: str | None = None
    file_path: str | None = None
    title: str | None = None
    language: str | None = None
    metadata: dict[str, Scalar] = Field(default_factory=dict)
    provenance: Provenance
    inspected_by: LaterText = None
    """Version of the rules and the model that inspected its chunks; None if not inspected."""
    inspected_at: Annotated[Moment | None, Field(exclude_if=is_none)] = None
    inspection_sha256: LaterText = None
    """Digest of the chunks that the inspection let through and of its findings: see `inspection_digest`."""

    @property
    def source(self) -> str:
        """Return the address that a reader would look up: the URL, else the path, else the id."""
        return self.url or self.file_path or self.document_id

    @property
    def fetch_key(self) -> str:
        """Return a text that orders documents by the time of their fetch, and then by their id."""
        return fetch_key(self.document_id, self.provenance.fetched_at)


class ChunkedDocument(DocumentFacts):
    """A document version as the index keeps it: its facts and its chunks."""

    chunks: tuple[Chunk, ...]

    def embedding_texts(self) -> list[str]:
        """Return the text to embed for each chunk: title and headings first, as they carry the topic."""
        return [embedding_text(self.title, chunk) for chunk in self.chunks]


class ChunkBatch(Batch):
    """The chunked documents of one event (a blob)."""

    documents: tuple[ChunkedDocument, ...]

    @model_validator(mode="before")
    @classmethod
    def _without_token_ids(cls, given: Any) -> Any:
        """Leave out the token ids that blobs of former versions hold."""
        return {name: one for name, one in given.items() if name != "tokens"} if isinstance(given, dict) else given

    def embedding_texts(self) -> list[str]:
        """Return the text to embed for each chunk."""
        return [text for document in self.documents for text in document.embedding_texts()]

    def select(self, is_kept: Callable[[Chunk], bool]) -> ChunkBatch:
        """Return the batch with only the kept chunks; drops documents without a kept chunk."""
        documents = (
            document.model_copy(update={"chunks": tuple(chunk for chunk in document.chunks if is_kept(chunk))})
            for document in self.documents
        )
        return ChunkBatch(documents=tuple(document for document in documents if document.chunks))


class TrustScorer(Protocol):
    """Scores the source of a chunk. Safe for threads; the score is the same for every chunk of a document."""

    def score(self, url: str | None, provenance: Provenance, chunk_id: str, now: datetime) -> TrustScore:
        """Return the trust in a document's source, for one of its chunks, at `now`."""
        ...


def embedding_text(title: str | None, chunk: Chunk) -> str:
    """Return a chunk's text below its title and breadcrumb, without repeating either."""
    heading = " > ".join(dict.fromkeys(part for part in (title, *chunk.section_path, chunk.symbol_path) if part))
    if not heading or chunk.text.startswith(heading):
        return chunk.text
    return f"{heading}\n{chunk.text}"


def inspection_digest(chunks: Sequence[Chunk]) -> str:
    """Return a hash over chunk ids and findings: equal digests mean the same chunks with the same findings."""
    told = (f"{chunk.chunk_id} {chunk.inspection.model_dump_json() if chunk.inspection else ''}" for chunk in chunks)
    return sha256_text("\n".join(told))


def sha256_text(text: str) -> str:
    """Return the hex SHA-256 of the UTF-8 bytes of `text`."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def document_id_for(source: str) -> str:
    """Return the id of a document that has only a URL or path: stable across its versions."""
    return "doc_" + sha256_text(source)[:32]


def snippet_id_for(url: str) -> str:
    """Return the id of a search snippet for `url`. It differs from the page's own: a snippet never replaces a page."""
    return document_id_for(f"snippet:{url}")


def parse_host(url: str | None) -> str | None:
    """Return the host of a URL in lower case; None where there is none."""
    if not url:
        return None
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


def is_under(host: str | None, domains: Iterable[str]) -> bool:
    """Return whether the host is one of the domains or below one of them."""
    if host is None:
        return False
    plain = (domain.lower().strip(".") for domain in domains)
    return any(host == domain or host.endswith(f".{domain}") for domain in plain)
