"""How results are selected: a reader's settings and tools, and what a query overrides."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from sluice.contracts.document import Chunk, TrustScorer
from sluice.contracts.retrieval import Query
from sluice.index.journal.document_facts import DocumentFacts
from sluice.index.search.near_duplicates import Signatures
from sluice.index.search.rerank.base import KeepOrder, Reranker
from sluice.index.settings import QuerySettings


@dataclass(frozen=True, slots=True)
class Ranking:
    """What every query of a reader is selected by, unless it says otherwise."""

    settings: QuerySettings
    trust: TrustScorer | None = None
    """None: every source is trusted fully."""
    reranker: Reranker = field(default_factory=KeepOrder)
    signatures: Signatures = field(default_factory=Signatures)

    @classmethod
    def of(cls, settings: QuerySettings, reranker: Reranker | None = None, trust: TrustScorer | None = None) -> Ranking:
        """The options of the settings."""
        return cls(settings, trust, reranker or KeepOrder())

    def trusts(self, facts: DocumentFacts, chunk: Chunk, now: datetime, threshold: float) -> bool:
        """Whether the source of a chunk is trusted at least by `threshold`."""
        if not threshold or self.trust is None:
            return True
        return self.trust.score(facts.url, facts.provenance, chunk.chunk_id, now).score >= threshold

    def rerank_depth(self, query: Query) -> int:
        """How many candidates the reranker wants to see for this query."""
        return self.reranker.depth if query.rerank else 0

    def diversity(self, query: Query) -> float:
        """The query's; 0 without one. On SQuAD's questions every weight cost nDCG@10 (0.1: 0.001, 0.3: 0.008)."""
        return query.diversity or 0.0

    def max_per_domain(self, query: Query) -> int:
        """The query's, else the configured one; 0 is no cap."""
        return self.settings.max_per_domain if query.max_per_domain is None else query.max_per_domain

    def duplicate_threshold(self, query: Query) -> float:
        """The query's, else the configured one; 0 keeps every duplicate."""
        return self.settings.duplicate_threshold if query.duplicate_threshold is None else query.duplicate_threshold
