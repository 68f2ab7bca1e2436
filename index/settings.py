"""Settings of the index and of queries. Each default carries its unit and its reason."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from contracts.base import Value


class IndexSettings(Value):
    """Journal, segments and generations."""

    keep_generations: Annotated[int, Field(ge=1)] = 3
    """Generations kept for rollback; one that a reader has pinned is kept beyond this number."""
    max_segments: Annotated[int, Field(ge=1)] = 8
    """Vector segments above which the small ones are merged: each costs a query about 20 µs."""
    verify_on_open: bool = True
    """Re-hash a generation's files before they are served. FAISS and Tantivy load damaged files silently."""
    journal_segment_bytes: Annotated[int, Field(ge=1_000)] = 64_000_000
    """Size at which the journal starts a new segment: small enough to copy away, large enough to be few."""
    flush_chunks: Annotated[int, Field(ge=1)] = 20_000
    """Chunks held in memory before they become a segment; at 384 dimensions about 30 MB of vectors."""
    term_heap_bytes: Annotated[int, Field(ge=15_000_000)] = 50_000_000
    """Memory of the term index writer; Tantivy refuses less than 15 MB."""
    refresh_after_seconds: Annotated[float, Field(ge=0)] = 3_600.0
    """An unchanged document fetched again within this time is the same version. Later its new date is
    recorded, since the gate judges freshness by it."""


class QuerySettings(Value):
    """Fusion, trust and budget defaults."""

    candidates: Annotated[int, Field(ge=1, le=1_000)] = 50
    """Candidates that each arm hands to fusion."""
    fusion: Literal["rrf", "weighted"] = "rrf"
    """`rrf` needs no tuning; `weighted` mixes z-scores by `alpha` and `beta`."""
    rrf_k: Annotated[int, Field(ge=1)] = 60
    """The constant of reciprocal rank fusion, as in its paper (Cormack et al., SIGIR 2009)."""
    alpha: Annotated[float, Field(ge=0, le=1)] = 0.35
    """Weight of the lexical arm in the weighted mix. 0.3-0.4 did best over nine public collections."""
    beta: Annotated[float, Field(ge=0, le=1)] = 0.65
    """Weight of the dense arm in the weighted mix."""
    max_query_terms: Annotated[int, Field(ge=1, le=1_024)] = 64
    """Terms of a question that are searched, the rarest first: a bound on the cost of a pasted page."""
    title_boost: Annotated[float, Field(ge=0)] = 0.5
    """Weight of a term found in the document's title; in the text it weighs 1. Half did best on SciFact's
    training questions: nDCG@10 0.699, against 0.689 without titles and 0.642 at twice the text's weight."""
    heading_boost: Annotated[float, Field(ge=0)] = 0.5
    """Weight of a term found in the chunk's section path."""
    code_boost: Annotated[float, Field(ge=0)] = 0.25
    """Weight of a part of an identifier (camelCase, snake_case); low, as plain words match in the text too."""
    trusted_domains: tuple[str, ...] = ()
    trusted_authors: tuple[str, ...] = ()
    reload_timeout_seconds: Annotated[float, Field(gt=0)] = 10.0
    """How long a query waits for a generation that covers the offset it asks for."""
