"""Corpora and their documents as the interface shows them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from sluice.contracts.base import CorpusName, Moment, Value, is_none
from sluice.contracts.document import Scalar
from sluice.contracts.trust import Origin

Source = Annotated[str, Field(min_length=1, max_length=253)]


class CorpusSettings(Value):
    """Settings of one corpus. They narrow the policy of `trust.corpora` in the instance's settings, never widen it."""

    description: Annotated[str, Field(max_length=2_000)] = ""
    """What it holds, for people and agents that choose a corpus."""
    search: bool = True
    """Whether questions to it may search the web."""
    crawl: bool = True
    """Whether pages may be crawled into it."""
    sources: Annotated[tuple[Source, ...], Field(max_length=1_000)] = ()
    """The only sources of its documents: hosts (and their subdomains), "files", "submissions". Empty: every source."""


class NewCorpus(CorpusSettings):
    """`POST /v1/corpora`."""

    name: CorpusName


class CorpusPatch(Value):
    """`PATCH /v1/corpora/{corpus}`: a JSON merge patch (RFC 7396). null gives a setting its default."""

    description: Annotated[str | None, Field(max_length=2_000)] = None
    search: bool | None = None
    crawl: bool | None = None
    sources: Annotated[tuple[Source, ...] | None, Field(max_length=1_000)] = None

    @model_validator(mode="after")
    def _changes_something(self) -> CorpusPatch:
        if not self.model_fields_set:
            raise ValueError(f"names no setting: one of {', '.join(CorpusPatch.model_fields)}")
        return self


class CorpusPolicyView(Value):
    """What a corpus may take in, by the instance's settings and its own together."""

    search: bool
    crawl: bool
    sources: tuple[str, ...] | None
    """None: every source."""
    forbidden_patterns: int
    """Number of patterns that keep a chunk out."""


class CorpusView(Value):
    """One corpus as it is served now. `version` is 0, and nobody made it, while it has no settings of its own."""

    name: CorpusName
    version: int
    created_at: Moment | None
    created_by: str | None
    settings: CorpusSettings
    policy: CorpusPolicyView
    engine: str
    documents: int
    chunks: int
    generation: str | None
    journal_offset: int
    bytes: int
    """Bytes on the disk of this instance: journal, generations, and what is being built."""
    embedding_model: str | None
    """Fingerprint of the model of its vectors; None while it has none."""


class Generation(Value):
    """One generation of a corpus on the disk of this instance."""

    name: str
    is_current: bool
    """Whether it is served."""
    journal_offset: int
    documents: int
    chunks: int
    bytes: int
    sha256: str
    """Hash of the ids and versions of all that it holds; "" where its manifest cannot be read."""
    created_at: Moment | None
    problem: str = ""
    """What is wrong with it."""


class AgeGroup(Value):
    """Documents of one age: since they were fetched, or last seen unchanged."""

    days: int | None
    """Of at most so many days, and more than those of the group before; null: of any age beyond."""
    documents: int


class CorpusState(Value):
    """`GET /v1/corpora/{corpus}/state`: what is behind the figures of a corpus."""

    corpus: CorpusName
    generations: tuple[Generation, ...]
    """The newest first."""
    journal_end: int
    """The last record of the journal."""
    journal_lag: int
    """Records that are not served yet."""
    ages: tuple[AgeGroup, ...]
    """The documents that were looked at, by age."""
    looked_at: int
    """How many documents were looked at: the first by their ids, which say nothing of their age."""
    held: int
    """Passages in quarantine; 10,001 stands for more than 10,000."""
    freshness_job_at: Moment | None
    """When the last freshness job ended."""
    graph_behind: int | None
    """Changes of the graph that are not published; null where it has none."""


DocumentOrder = Literal["id", "-id", "fetched_at", "-fetched_at"]
"""An order of documents; with "-" the greatest first."""


class DocumentView(Value):
    """A document as it is served now, without its text."""

    id: str
    corpus: CorpusName
    url: str | None
    file_path: str | None
    title: str | None
    language: str | None
    source: Literal["crawl", "search", "submission", "file"]
    origin: Origin
    trust: float
    """Trust in its source now, from 0 to 1."""
    fetched_at: Moment
    published_at: Moment | None
    author: str | None
    run_id: str | None
    submitted_by: str | None
    checksum: str
    """SHA-256 of its content as indexed: an equal one is the same version."""
    metadata: dict[str, Scalar]
    chunks: Annotated[int | None, Field(exclude_if=is_none)] = None
    """Number of its chunks; only where one document is asked for."""


class ChunkView(Value):
    """A passage of a document. Its text is left out where the guard, its site or its licence withholds it."""

    chunk_id: str
    ordinal: int
    start_line: int
    end_line: int
    page: int | None
    anchor: str | None
    section_path: tuple[str, ...]
    symbol_path: str | None
    language: str | None
    token_estimate: int
    text: str | None
    withheld: Annotated[str | None, Field(exclude_if=is_none)] = None
    """Why the text is left out."""


class LinkView(Value):
    """A link of a document."""

    url: str
    words: str
    line: int
    document_id: str | None
    """The document of the corpus at that address, if there is one."""


class DocumentCount(Value):
    """`GET /v1/documents/count`."""

    corpus: CorpusName
    documents: int


class DocumentPatch(Value):
    """`PATCH /v1/documents/{id}`: a JSON merge patch (RFC 7396). null removes a value of `metadata`."""

    metadata: Annotated[dict[Annotated[str, Field(min_length=1, max_length=190)], Scalar | None], Field(min_length=1)]


class BatchStatus(Value):
    """What came of one item of a batch: the status and the body that the item alone would have got."""

    status: int
    body: dict[str, Any]


class BatchResult(Value):
    """What came of each item of a batch, in order."""

    results: tuple[BatchStatus, ...]
