"""What a query asks of an index and what comes back: every score, every rank, every source."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from contracts.base import CorpusName, Moment, Value
from contracts.document import Provenance, Scalar

MAX_QUERY_CHARACTERS = 8_000
QueryText = Annotated[str, Field(min_length=1, max_length=MAX_QUERY_CHARACTERS, pattern=r"\S")]


class Strategy(StrEnum):
    """Which arms find candidates."""

    BM25 = "bm25"
    VECTOR = "vector"
    HYBRID = "hybrid"


class Filters(Value):
    """Conditions that a chunk must all meet. Empty means no condition."""

    document_ids: tuple[str, ...] = ()
    url_prefix: str | None = None
    path_prefix: str | None = None
    domains: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    fetched_after: Moment | None = None
    metadata: dict[str, Scalar] = Field(default_factory=dict)


class Query(Value):
    """One search. `minimum_journal_offset` asks for a generation that covers it (read your writes)."""

    query: QueryText
    corpus: CorpusName = "default"
    top_k: Annotated[int, Field(ge=1, le=200)] = 8
    strategy: Strategy = Strategy.HYBRID
    filters: Filters = Filters()
    trust_threshold: Annotated[float, Field(ge=0, le=1)] = 0.0
    max_tokens: Annotated[int, Field(ge=1, le=200_000)] | None = None
    minimum_journal_offset: Annotated[int, Field(ge=0)] = 0


class RetrievedChunk(Value):
    """A chunk with everything that ranked it. Ranks are 1-based; None means that arm did not find it.

    `dense_distance` is 1 - cosine, in [0, 2]; `lexical_score` is BM25; `fused_score` orders `rank`.
    """

    chunk_id: str
    document_id: str
    url: str | None
    file_path: str | None
    start_line: int
    end_line: int
    language: str | None
    section_path: tuple[str, ...]
    symbol_path: str | None
    title: str | None
    text: str
    token_estimate: int
    checksum: str
    metadata: dict[str, Scalar]
    provenance: Provenance
    dense_distance: float | None
    dense_rank: int | None
    lexical_score: float | None
    lexical_rank: int | None
    fused_score: float
    rank: int
    trust: float


class RetrievalMetadata(Value):
    """How the result came about."""

    strategy: Strategy
    fusion: str
    duration_ms: float
    total_candidates: int
    trust_dropped: int = 0
    budget_dropped: int = 0


class Retrieval(Value):
    """The ranked chunks of one query, and the generation they came from (None: the corpus is empty)."""

    generation: str | None
    journal_offset: int
    chunks: tuple[RetrievedChunk, ...]
    metadata: RetrievalMetadata
