"""The reader of a corpus: searches the current generation, and reloads without a failed query.

reader = IndexReader(root, "default", QuerySettings())
retrieval = reader.search(Query(query="how are leases renewed"), vector)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from sluice.contracts.document import TrustScorer
from sluice.contracts.graph.model import GraphArm
from sluice.contracts.retrieval import Filters, Query, Strategy
from sluice.index.disk.layout import CorpusLayout
from sluice.index.generations.corpus_writer import utc_now
from sluice.index.generations.manifest import load_manifest
from sluice.index.generations.view import View
from sluice.index.journal.records import Vectors
from sluice.index.local.follower import Follower
from sluice.index.search.candidates import select_candidates
from sluice.index.search.chunk_source import SegmentChunkSource
from sluice.index.search.filters import find_masks, has_conditions
from sluice.index.search.fusion import LatestCandidates, RankedCandidates, Search, retrieve_candidates
from sluice.index.search.graph_reach import Expanded, add_reached, as_hits, expand
from sluice.index.search.reader import RELOAD_TIMEOUT_SECONDS, CorpusReader
from sluice.index.search.rerank.base import Reranker
from sluice.index.settings import QuerySettings


@dataclass(frozen=True, slots=True)
class CorpusHash:
    """Hash of all documents and chunks of a corpus, as one number (`index.generations.manifest.IdSet`)."""

    generation: str
    journal_offset: int
    served: str
    published: str | None
    """Hash in the generation's manifest; None while the view holds more than the generation."""

    @property
    def is_whole(self) -> bool:
        """Whether the served documents are those that were published."""
        return self.published in (None, self.served)


class IndexReader(CorpusReader[View]):
    """Searches a corpus on this machine's disk.

    `on_fallback` is called with the reason when another generation is served because the current one is damaged.
    `graph` is walked where a query's strategy requires it.
    """

    engine = "local"

    def __init__(
        self,
        root: Path,
        corpus: str,
        settings: QuerySettings,
        reranker: Reranker | None = None,
        trust: TrustScorer | None = None,
        clock: Callable[[], datetime] = utc_now,
        on_fallback: Callable[[str], None] = lambda reason: None,
        verify_on_open: bool = True,
        reload_timeout_seconds: float = RELOAD_TIMEOUT_SECONDS,
        graph: GraphArm | None = None,
    ) -> None:
        super().__init__(corpus, settings, reranker, trust, clock, reload_timeout_seconds)
        self._graph = graph
        self._latest_candidates = LatestCandidates()
        self._layout = CorpusLayout(root, corpus)
        self._follower = Follower(self._layout, verify_on_open, on_fallback, settings.max_recent_chunks)

    @property
    def fallback_reason(self) -> str | None:
        """Reason for serving another generation than the current one; None while the current one is served."""
        return None if self._pinned else self._follower.fallback_reason

    def corpus_hash(self) -> CorpusHash | None:
        """Return the hash of the served view, read anew, and the published one; None without a generation."""
        generation = self.current_view()
        if generation is None:
            return None
        manifest = load_manifest(self._layout.generations / generation.name)
        is_published = manifest.journal_offset == generation.journal_offset  # and memory holds no further records
        published = manifest.id_set_hash if is_published else None
        return CorpusHash(generation.name, generation.journal_offset, generation.id_set_hash(), published)

    def reload(self) -> str | None:
        """Read the pointer now, serve its generation, and return the name of the generation served."""
        self._latest_candidates.clear()
        if self._pinned is None:
            self._follower.reload()
        return self.generation

    def close(self) -> None:
        """Unpin the served generation. Searches must have ended."""
        self._latest_candidates.clear()
        if self._pinned is None:
            self._follower.close()

    def _latest(self) -> View | None:
        return self._follower.latest()

    def _pause(self, seconds: float) -> None:
        self._follower.wait_for_swap(seconds)

    def _find(
        self, view: View, text: str, vector: Vectors | None, strategy: Strategy, filters: Filters, depth: int
    ) -> tuple[RankedCandidates, SegmentChunkSource]:
        search = self._search(view, text, vector, strategy, filters)
        candidates = self._latest_candidates.take(view, search, depth)
        if candidates is None:
            candidates = retrieve_candidates(view, search, depth, self._settings)
            self._latest_candidates.keep(view, search, depth, candidates)
        return candidates, SegmentChunkSource(view)

    def _reach(
        self, view: View, query: Query, vector: Vectors | None, found: RankedCandidates, known: Expanded | None
    ) -> tuple[RankedCandidates, Expanded]:
        search = self._search(view, query.query, vector, query.strategy, query.filters)
        if known is None:
            source = SegmentChunkSource(view)
            hits = select_candidates(source, as_hits(query), found, self._ranking, self._clock())
            known = expand(self._graph, view, search, hits.candidates)
        return add_reached(found, known, view, search, self._settings), known

    def _search(self, view: View, text: str, vector: Vectors | None, strategy: Strategy, filters: Filters) -> Search:
        return Search(text, vector, strategy, find_masks(view, filters), has_conditions(filters))
