"""The candidates that may become results: trusted enough, distinct, and not too many of one domain.

Candidates are read in fused order and only until there are enough, so most are never read at all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from contracts.document import Chunk
from contracts.retrieval import Query
from index.journal.document_facts import DocumentFacts
from index.search.chunk_source import ChunkSource
from index.search.domains import host_of
from index.search.fusion import Candidate
from index.search.near_duplicates import DistinctTexts
from index.search.ranking_options import Ranking

DEEPER = 4
"""How many times as many candidates are asked for where too few remain."""
MOST_CANDIDATES = 1_000
"""How deep duplicates and capped domains are looked through for others: a mirrored site costs no more than that."""


@dataclass(slots=True, eq=False)
class Kept:
    """A candidate that may become a result."""

    candidate: Candidate
    facts: DocumentFacts
    chunk: Chunk
    trust: float
    duplicates: tuple[str, ...] = ()
    rerank_score: float | None = None


@dataclass(slots=True, eq=False)
class Gathered:
    """The candidates that may become results, in fused order, and how many others were dropped and why."""

    kept: list[Kept] = field(default_factory=list)
    trust_dropped: int = 0
    duplicates_dropped: int = 0
    domain_dropped: int = 0

    def wants_more(self, top_k: int, depth: int, found: int) -> bool:
        """Whether the list is short for what was dropped, and not for want of candidates: `found` of `depth`."""
        if len(self.kept) >= top_k or found < depth:
            return False
        repeats = self.duplicates_dropped + self.domain_dropped
        return self.trust_dropped > 0 or (repeats > 0 and DEEPER * depth <= MOST_CANDIDATES)


def gather_candidates(
    source: ChunkSource, query: Query, ranked: Sequence[Candidate], ranking: Ranking, now: datetime
) -> Gathered:
    """The best candidates that are trusted, distinct and within the domain cap: as many as the rest will look at."""
    gathered = Gathered()
    kept = gathered.kept
    distinct = DistinctTexts(ranking.duplicate_threshold(query), ranking.signatures)
    room = DomainRoom(ranking.max_per_domain(query))
    wanted = len(ranked) if ranking.diversity(query) else max(query.top_k, ranking.rerank_depth(query))
    for candidate in ranked:
        if len(kept) == wanted:
            break
        facts, chunk = source.read(candidate.number)
        trust = ranking.trust.value(facts.url, facts.provenance, chunk, now)
        if trust < query.trust_threshold:
            gathered.trust_dropped += 1
        elif (duplicate := distinct.find_duplicate(chunk.chunk_id, chunk.text)) is not None:
            kept[duplicate].duplicates += (chunk.chunk_id,)
            gathered.duplicates_dropped += 1
        elif not room.take(facts):
            gathered.domain_dropped += 1
        else:
            distinct.keep(chunk.chunk_id, chunk.text)
            kept.append(Kept(candidate, facts, chunk, trust))
    return gathered


class DomainRoom:
    """Room for `most` chunks of each host, for all of them where `most` is 0.

    What has no host, a file or a submission, is from nobody else's domain: there each document is a source of its own.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken: Counter[str] = Counter()

    def take(self, facts: DocumentFacts) -> bool:
        """Whether there is room for one more from this document's source, which is then taken."""
        if not self._most:
            return True
        source = host_of(facts.url) or facts.document_id
        self._taken[source] += 1
        return self._taken[source] <= self._most
