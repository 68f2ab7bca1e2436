"""A query of an index and its results: every score, every rank, every source."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Literal, Protocol

from pydantic import AliasChoices, Field

from sluice.contracts.base import CorpusName, LaterText, Moment, Switch, Value, is_empty, is_none
from sluice.contracts.document import Provenance, Scalar
from sluice.contracts.graph.retrieval import GraphPath, GraphUse
from sluice.contracts.trust import GateCheck, Inspection, TrustScore

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAX_QUERY_CHARACTERS = 8_000
QueryText = Annotated[str, Field(min_length=1, max_length=MAX_QUERY_CHARACTERS, pattern=r"\S")]


class PromptMessage(Value):
    """One message of a chat: who speaks, and what is said."""

    role: Literal["user", "assistant", "system", "tool"]
    content: str


PromptName = Annotated[str | None, Field(max_length=64, exclude_if=is_none)]
"""A template of the prompt catalogue (`sluice prompts`): `rag` for its latest version, `rag.v1` for that one."""

Prompt = Annotated[tuple[PromptMessage, ...], Field(exclude_if=is_empty)]
"""The messages that were asked for with `prompt`; empty where none were."""


class Strategy(StrEnum):
    """Which arms find candidates."""

    BM25 = "bm25"
    VECTOR = "vector"
    HYBRID = "hybrid"
    HYBRID_GRAPH = "hybrid_graph"
    """As hybrid, and what the graph leads to from there. Where the graph has nothing to add, the result is hybrid's."""


TEXT_STRATEGIES = (Strategy.BM25, Strategy.VECTOR, Strategy.HYBRID)
"""Those that look at texts alone."""


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


_NO_FILTERS = Filters()


def _no_filters() -> Filters:
    """The same value for every query: a plain default would be copied for each, as it holds a dict."""
    return _NO_FILTERS


def _is_true(value: object) -> bool:
    return value is True


Names = Annotated[tuple[str, ...], Field(exclude_if=is_empty)]
LaterNumber = Annotated[int, Field(ge=0, exclude_if=is_empty)]
"""Fields that came later, left out of the JSON where they say nothing: so what was recorded before says the same."""


class SearchOptions(Value):
    """What is searched for, and how passages are chosen: the same for a question to the gate and for a query."""

    query: QueryText
    top_k: Annotated[int, Field(ge=1, le=100)] = 8
    filters: Filters = Field(default_factory=_no_filters, json_schema_extra={"default": _NO_FILTERS.model_dump()})
    trust_threshold: Annotated[
        float, Field(ge=0, le=1, validation_alias=AliasChoices("trust_threshold", "trustThreshold"))
    ] = 0.0
    """Passages whose source is trusted less are left out. The retrieval RFC's spelling is taken too."""
    diversity: Annotated[float | None, Field(ge=0, le=1, exclude_if=is_none)] = None
    """How much a result's difference from those before it counts against its relevance (maximal marginal relevance):
    0 orders by relevance alone, 1 by difference alone. None takes the configured default."""
    neighbours: Annotated[int, Field(ge=0, le=3, exclude_if=is_empty)] = 0
    """How many chunks before and as many behind a found one, of the same document, are given with it."""
    max_per_domain: Annotated[int | None, Field(ge=0, le=200, exclude_if=is_none)] = None
    """The most results of one host; of what has no host, of one document. 0 for no cap, None for the configured one."""
    duplicate_threshold: Annotated[float | None, Field(ge=0, le=1, exclude_if=is_none)] = None
    """The share of three-word shingles (as a Jaccard index) from which two texts are one; 1 for equal words only, 0 for
    never. None takes the configured default."""
    rerank: Annotated[bool, Field(exclude_if=_is_true)] = True
    """Whether the reranker is asked, where one is configured."""
    confidence_floor: Annotated[float | None, Field(ge=0, le=1, exclude_if=is_none)] = None
    """Passages whose confidence is lower are left out, where it is calibrated. At the gate None takes the configured
    floor; a query keeps every passage then."""
    prompt: PromptName = None


class Query(SearchOptions):
    """One search. `minimum_journal_offset` asks for a generation that covers it (read your writes)."""

    corpus: CorpusName = "default"
    top_k: Annotated[int, Field(ge=1, le=200)] = 8
    strategy: Strategy = Strategy.HYBRID
    max_tokens: Annotated[int, Field(ge=1, le=200_000)] | None = None
    minimum_journal_offset: Annotated[int, Field(ge=0)] = 0


class RetrievedChunk(Value):
    """A chunk with everything that ranked it. Ranks are 1-based; None means that arm did not find it.

    `dense_distance` is 1 - cosine, in [0, 2]; `lexical_score` is BM25; `fused_score` orders `rank`, unless a reranker
    (`rerank_score`, the higher the better, None where it was not asked) or the query's `diversity` had the last word.
    `duplicates` are the ids of chunks that say the same and were left out for it. `passage` has the ids of all chunks
    that `text` is of, in reading order, where neighbours were asked for; lines, tokens and `checksum` are then the
    passage's, everything else is of the chunk that was found.
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
    """What was found in the text when it was ingested, or when it was answered with; None for nothing."""
    inspected_by: LaterText = None
    """Version of the rules and the model that inspected it at ingest; None for what was not inspected."""
    confidence: Annotated[float | None, Field(ge=0, le=1, exclude_if=is_none)] = None
    """Calibrated probability that this passage answers the question; None where it was not judged."""
    graph_score: Annotated[float | None, Field(gt=0, le=1, exclude_if=is_none)] = None
    """How near the graph has it to what was found; None where the graph does not lead to it."""
    graph_path: Annotated[GraphPath | None, Field(exclude_if=is_none)] = None
    """By which edges the graph leads to it."""


class RetrievalMetadata(Value):
    """How the result came about. `total_candidates` were found; some were dropped, and why is told by number.

    `reranked` says that the reranker's order stands. Where it was to be asked and the fused order stands instead,
    `rerank_failure` says why. `rerank_asked` says that it was asked, so it may have taken its price either way.
    `embedder_down` says why the question has no vector; then it was searched by BM25 alone, as `strategy` says.
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
    trust_scores: Annotated[tuple[TrustScore, ...], Field(exclude_if=is_empty)] = ()
    """One for each chunk, in their order."""
    checks: Annotated[tuple[GateCheck, ...], Field(exclude_if=is_empty)] = ()
    """What the gates over the whole retrieval say: source trust, poisoning."""
    confidence: Annotated[float | None, Field(ge=0, le=1, exclude_if=is_none)] = None
    """That of the best passage found; None where it was not judged."""
    limits: LaterText = None
    """What the reader should know where the confidence is low."""
    confidence_dropped: LaterNumber = 0
    """Passages below the query's `confidence_floor`."""
    guard_dropped: LaterNumber = 0
    """Passages that were found and that the guard blocks."""
    graph: Annotated[GraphUse | None, Field(exclude_if=is_none)] = None
    """What the graph had to add; None where it was not to be asked."""


class Retrieval(Value):
    """The ranked chunks of one query, and the generation they came from (None: the corpus is empty)."""

    generation: str | None
    journal_offset: int
    chunks: tuple[RetrievedChunk, ...]
    metadata: RetrievalMetadata
    prompt: Prompt = ()


class RetrievalStats(Value):
    """What an engine holds of one corpus. `generation` is None while it holds nothing."""

    engine: str
    corpus: CorpusName
    generation: str | None
    journal_offset: int
    document_count: int
    chunk_count: int
    model_fingerprint: str | None


class RetrievalPort(Protocol):
    """RetrievalPort, version 1: what every retrieval engine offers. Frozen: a change is a version 2.

    The query carries `top_k`, `filters`, `strategy` and `trust_threshold`; its `corpus` must be the
    engine's. `vector` is the question's, float32 (d,), of length 1, and needed unless the strategy is
    `bm25`. Safe for threads.
    """

    version: Literal[1]

    def retrieve(self, query: Query, vector: NDArray[np.float32] | None = None) -> Retrieval:
        """The best chunks for one query, with every score and rank, and the duration.

        Raises `InvalidInput` where the strategy needs a vector and there is none, `Conflict` for a vector
        of another dimension, `Unavailable` when the engine cannot answer in time or does not yet cover
        `minimum_journal_offset`, and `Corrupted` when what it holds is damaged.
        """
        ...

    def batch_retrieve(
        self, queries: Sequence[Query], vectors: NDArray[np.float32] | None = None
    ) -> tuple[Retrieval, ...]:
        """One result for each query, in order, all from the same generation; `vectors` is (queries, d)."""
        ...

    def stats(self) -> RetrievalStats:
        """What is served now."""
        ...
