"""A query of an index and its results: every score, every rank, every source."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Literal, Protocol

from pydantic import AliasChoices, Field

from sluice.contracts.base import CorpusName, LaterText, Moment, Switch, Value, is_empty, is_none
from sluice.contracts.document import Provenance, Scalar
from sluice.contracts.filters import METADATA, LaterWhere, Where, all_of, any_value, compare
from sluice.contracts.graph.model import GraphPath, GraphUse
from sluice.contracts.trust import FLOOD, GateCheck, Inspection, TrustScore

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAX_QUERY_CHARACTERS = 8_000
QueryText = Annotated[str, Field(min_length=1, max_length=MAX_QUERY_CHARACTERS, pattern=r"\S")]


class PromptMessage(Value):
    """One message of a chat: the speaker's role and the content."""

    role: Literal["user", "assistant", "system", "tool"]
    content: str


PromptName = Annotated[str | None, Field(max_length=64, exclude_if=is_none)]
"""A template of the prompt catalogue (`sluice prompts`): `rag` for its latest version, `rag.v1` for that one."""

Prompt = Annotated[tuple[PromptMessage, ...], Field(exclude_if=is_empty)]
"""The messages of the requested prompt template; empty if the request names none."""


class Strategy(StrEnum):
    """The arms that find candidates."""

    BM25 = "bm25"
    VECTOR = "vector"
    HYBRID = "hybrid"
    HYBRID_GRAPH = "hybrid_graph"
    """Hybrid, plus the passages that the graph reaches from there. Equals hybrid if the graph adds nothing."""


TEXT_STRATEGIES = (Strategy.BM25, Strategy.VECTOR, Strategy.HYBRID)
"""The strategies that search texts alone."""


class Filters(Value):
    """Conditions that a chunk must all meet: a short form of `where`. Empty means no condition."""

    document_ids: tuple[str, ...] = ()
    url_prefix: str | None = None
    path_prefix: str | None = None
    domains: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    fetched_after: Moment | None = None
    metadata: dict[str, Scalar] = Field(default_factory=dict)

    @property
    def condition(self) -> Where | None:
        """Return what they say in the filter language; None without a condition."""
        return all_of(
            any_value("id", self.document_ids),
            compare("url", "prefix", self.url_prefix) if self.url_prefix else None,
            compare("path", "prefix", self.path_prefix) if self.path_prefix else None,
            any_value("domain", self.domains),
            any_value("language", self.languages),
            any_value("source", self.sources),
            compare("fetched_at", "gt", self.fetched_after.isoformat()) if self.fetched_after else None,
            *(compare(METADATA + name, "eq", value) for name, value in self.metadata.items()),
        )


NO_FILTERS = Filters()
"""The same value for every query: pydantic would copy a plain default each time, as it holds a dict."""


Names = Annotated[tuple[str, ...], Field(exclude_if=is_empty)]
LaterNumber = Annotated[int, Field(ge=0, exclude_if=is_empty)]
"""Fields of a later version: left out of the JSON when empty, so that older records keep their bytes."""


class SearchOptions(Value):
    """The search text and the selection of passages, shared by gate requests and queries."""

    query: QueryText
    top_k: Annotated[int, Field(ge=1, le=100)] = 8
    filters: Filters = Field(default_factory=lambda: NO_FILTERS, json_schema_extra={"default": NO_FILTERS.model_dump()})
    where: LaterWhere = None
    """A condition that a passage's document must meet besides, in the filter language: JSON, or text as in
    `trust >= .5 and language = "en"`."""
    trust_threshold: Annotated[
        float, Field(ge=0, le=1, validation_alias=AliasChoices("trust_threshold", "trustThreshold"))
    ] = 0.0
    """Passages with a lower source trust are left out. The retrieval RFC's spelling is accepted too."""
    diversity: Annotated[float | None, Field(ge=0, le=1, exclude_if=is_none)] = None
    """Weight of a result's difference from those before it against its relevance (maximal marginal relevance): 0 orders
    by relevance alone, 1 by difference alone. None takes the configured default."""
    neighbours: Annotated[int, Field(ge=0, le=3, exclude_if=is_empty)] = 0
    """Number of chunks before and after a retrieved one, of the same document, returned with it."""
    max_per_domain: Annotated[int | None, Field(ge=0, le=200, exclude_if=is_none)] = None
    """The most results of one host, or of one document if it has no host. 0 for no cap, None for the configured one."""
    duplicate_threshold: Annotated[float | None, Field(ge=0, le=1, exclude_if=is_none)] = None
    """The share of three-word shingles (as a Jaccard index) from which two texts are duplicates; 1 for equal words
    only, 0 for never. None takes the configured default."""
    rerank: Annotated[bool, Field(exclude_if=lambda rerank: rerank is True)] = True
    """Whether to use the reranker, if one is configured."""
    lexical_weight: Annotated[float | None, Field(ge=0, le=10, exclude_if=is_none)] = None
    """Weight of a BM25 score in the fused score, beside the signed square of the cosine, whose weight is 1: only their
    ratio orders passages. None takes the weight that was fitted to the corpus's model. Scores are fused, not ranks, so
    there is no constant of reciprocal rank fusion."""
    candidates: Annotated[int | None, Field(ge=1, le=1_000, exclude_if=is_none)] = None
    """Number of candidates that each retriever finds, and fusion orders; at least as many as `top_k` and the reranker
    take. None takes 50."""
    confidence_floor: Annotated[float | None, Field(ge=0, le=1, exclude_if=is_none)] = None
    """Passages with a lower confidence are left out, where it is calibrated. At the gate None takes the configured
    floor; in a query it keeps every passage."""
    prompt: PromptName = None

    @property
    def condition(self) -> Where | None:
        """Return what `filters` and `where` say together; None without a condition."""
        return all_of(None if self.filters == NO_FILTERS else self.filters.condition, self.where)


class Query(SearchOptions):
    """One search. `minimum_journal_offset` requires a generation that covers it (read your writes)."""

    corpus: CorpusName = "default"
    top_k: Annotated[int, Field(ge=1, le=200)] = 8
    strategy: Strategy = Strategy.HYBRID
    max_tokens: Annotated[int, Field(ge=1, le=200_000)] | None = None
    minimum_journal_offset: Annotated[int, Field(ge=0)] = 0


class RetrievedChunk(Value):
    """A chunk with all its scores and ranks. Ranks are 1-based; None means that arm did not find it.

    `dense_distance` is 1 - cosine, in [0, 2]; `lexical_score` is BM25; `fused_score` orders `rank`, unless a reranker
    (`rerank_score`, higher is better, None if it was not used) or the query's `diversity` reordered the results, or the
    chunk is marked as a flood.
    `duplicates` are the ids of equivalent chunks that were left out. With neighbours, `passage` has the ids of all
    chunks in `text`, in reading order; lines, tokens and `checksum` are then the passage's, all other fields those of
    the retrieved chunk.
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
    rerank_score: Annotated[float | None, Field(exclude_if=is_none)] = None
    duplicates: Names = ()
    passage: Names = ()
    anchor: LaterText = None
    page: Annotated[int | None, Field(ge=1, exclude_if=is_none)] = None
    inspection: Annotated[Inspection | None, Field(exclude_if=is_none)] = None
    """Findings of the inspection at ingest or at answer time; None without findings."""
    inspected_by: LaterText = None
    """Version of the rules and the model that inspected it at ingest; None if not inspected."""
    confidence: Annotated[float | None, Field(ge=0, le=1, exclude_if=is_none)] = None
    """Calibrated probability that this passage answers the question; None if not judged."""
    corpus: LaterText = None
    """The corpus that it comes from, where a query names several."""
    graph_score: Annotated[float | None, Field(gt=0, le=1, exclude_if=is_none)] = None
    """Closeness in the graph to the retrieved passages; None if the graph does not reach it."""
    graph_path: Annotated[GraphPath | None, Field(exclude_if=is_none)] = None
    """The edges by which the graph reaches it."""

    @property
    def is_flood(self) -> bool:
        """Return whether it is marked as made for the question; such chunks come last."""
        return self.inspection is not None and any(finding.rule == FLOOD for finding in self.inspection.findings)


class RetrievalMetadata(Value):
    """Facts about the search behind the result. Of `total_candidates` found, the dropped ones are counted by reason.

    `reranked`: the reranker's order is in force. If the reranker failed and the fused order is in force,
    `rerank_failure` is the reason. `rerank_asked`: it was called, so it may have charged its price either way.
    `embedder_down` is the reason why the question has no vector of the corpus's model. The search then used BM25 alone,
    as `strategy` shows, or the second index by `fallback_model`.
    """

    strategy: Strategy
    fusion: str
    duration_ms: float
    total_candidates: int
    trust_dropped: int = 0
    budget_dropped: int = 0
    duplicates_dropped: LaterNumber = 0
    domain_dropped: LaterNumber = 0
    reranked: Switch = False
    rerank_failure: LaterText = None
    rerank_asked: Switch = False
    embedder_down: LaterText = None
    fallback_model: LaterText = None
    trust_scores: Annotated[tuple[TrustScore, ...], Field(exclude_if=is_empty)] = ()
    """One for each chunk, in their order."""
    checks: Annotated[tuple[GateCheck, ...], Field(exclude_if=is_empty)] = ()
    """Results of the gates over the whole retrieval: source trust, poisoning."""
    confidence: Annotated[float | None, Field(ge=0, le=1, exclude_if=is_none)] = None
    """Confidence of the best passage; None if not judged."""
    evidence: Annotated[float | None, Field(ge=0, le=1, exclude_if=is_none)] = None
    """That confidence without the shift by the corpus's own outcomes; None where it is the same."""
    limits: LaterText = None
    """The limits of the result, for the reader, where the confidence is low."""
    confidence_dropped: LaterNumber = 0
    """Passages below the query's `confidence_floor`."""
    guard_dropped: LaterNumber = 0
    """Retrieved passages that the guard blocks."""
    behind: LaterNumber = 0
    """Records that the corpus's journal has and the searched generation lacks, on a machine that pulls generations."""
    graph: Annotated[GraphUse | None, Field(exclude_if=is_none)] = None
    """The graph's contribution; None if the search did not use it."""


class Retrieval(Value):
    """The ranked chunks of one query, and the generation they came from (None: the corpus is empty)."""

    generation: str | None
    journal_offset: int
    chunks: tuple[RetrievedChunk, ...]
    metadata: RetrievalMetadata
    prompt: Prompt = ()


class CorpusSearched(Value):
    """The part of one corpus in a search of several."""

    corpus: CorpusName
    generation: str | None
    journal_offset: int
    metadata: RetrievalMetadata


class JoinedRetrieval(Value):
    """The ranked chunks of several corpora in one order; each names its corpus."""

    corpora: tuple[CorpusSearched, ...]
    chunks: tuple[RetrievedChunk, ...]


class RetrievalStats(Value):
    """The contents of an engine for one corpus. `generation` is None while it is empty."""

    engine: str
    corpus: CorpusName
    generation: str | None
    journal_offset: int
    document_count: int
    chunk_count: int
    model_fingerprint: str | None


class RetrievalPort(Protocol):
    """RetrievalPort, version 1: the interface of every retrieval engine. Frozen: a change is a version 2.

    The query carries `top_k`, `filters`, `strategy` and `trust_threshold`; its `corpus` must be the engine's. `vector`
    is the question's, float32 (d,), of length 1, and needed unless the strategy is `bm25`. Safe for threads.
    """

    version: Literal[1]

    def retrieve(self, query: Query, vector: NDArray[np.float32] | None = None) -> Retrieval:
        """Return the best chunks for one query, with every score and rank, and the duration.

        Raises `InvalidInput` if the strategy needs a vector and there is none, `Conflict` for a vector of another
        dimension, `Unavailable` if the engine cannot answer in time or does not yet cover `minimum_journal_offset`, and
        `Corrupted` if its data are damaged.
        """
        ...

    def batch_retrieve(
        self, queries: Sequence[Query], vectors: NDArray[np.float32] | None = None
    ) -> tuple[Retrieval, ...]:
        """Return one result for each query, in order, all from the same generation; `vectors` is (queries, d)."""
        ...

    def stats(self) -> RetrievalStats:
        """Return the contents served now."""
        ...
