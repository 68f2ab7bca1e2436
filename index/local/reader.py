"""The reader of a corpus: searches the current generation, and reloads without a failed query.

    reader = IndexReader(root, "default", QuerySettings())
    retrieval = reader.search(Query(query="how are leases renewed"), vector)

Safe for threads. Every result names the one generation that it comes from.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from sluice.contracts.document import Chunk, TrustScorer
from sluice.contracts.errors import InvalidInput
from sluice.contracts.graph.retrieval import GraphArm, GraphUse
from sluice.contracts.retrieval import Query, Retrieval, RetrievalMetadata, Strategy
from sluice.index.disk.layout import CorpusLayout
from sluice.index.generations.manifest import load_manifest
from sluice.index.generations.view import View
from sluice.index.journal.document_facts import DocumentFacts
from sluice.index.journal.records import Vectors
from sluice.index.local.fixed_view import FixedView
from sluice.index.local.follower import Follower
from sluice.index.search.candidates import DEEPER, select_candidates
from sluice.index.search.chunk_source import SegmentChunkSource
from sluice.index.search.filters import FilterMasks, has_conditions
from sluice.index.search.fusion import CANDIDATES
from sluice.index.search.graph_reach import Expanded, add_reached, as_hits, expand
from sluice.index.search.probe import EMPTY_PROBE, Probe, find_function_words, read_hits
from sluice.index.search.ranking_options import Ranking
from sluice.index.search.rerank.base import Reranker
from sluice.index.search.retrievers import Search, retrieve_candidates
from sluice.index.search.select import NOTHING, Selection, make_metadata, select_results
from sluice.index.settings import QuerySettings
from sluice.index.terms.bm25 import count_chunks_with

RELOAD_TIMEOUT_SECONDS = 10.0
"""How long a query waits for a generation that covers the offset it asks for."""


def _utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class CorpusHash:
    """What a corpus holds, as one number (`index.generations.manifest.IdSet`): of every document and its chunks."""

    generation: str
    journal_offset: int
    served: str
    published: str | None
    """As the generation's manifest has it; None while more than the generation is served."""

    @property
    def is_whole(self) -> bool:
        """Whether what is served is what was published."""
        return self.published in (None, self.served)


class IndexReader:
    """Searches one corpus. Opens nothing before its first use.

    `on_fallback` is called with the reason when another generation is served because the current one is damaged.
    `graph` is walked where a query's strategy asks for it.
    """

    def __init__(
        self,
        root: Path,
        corpus: str,
        settings: QuerySettings,
        reranker: Reranker | None = None,
        trust: TrustScorer | None = None,
        clock: Callable[[], datetime] = _utc_now,
        on_fallback: Callable[[str], None] = lambda reason: None,
        verify_on_open: bool = True,
        reload_timeout_seconds: float = RELOAD_TIMEOUT_SECONDS,
        graph: GraphArm | None = None,
    ) -> None:
        self._settings = settings
        self._graph = graph
        self._reload_timeout_seconds = reload_timeout_seconds
        self._ranking = Ranking.of(settings, reranker, trust)
        self._clock = clock
        self._masks = FilterMasks()
        self._layout = CorpusLayout(root, corpus)
        self._follower: Follower | FixedView = Follower(
            self._layout, verify_on_open, on_fallback, settings.max_recent_chunks
        )

    @property
    def generation(self) -> str | None:
        """The name of the generation that is served now."""
        served = self._follower.latest()
        return served.name if served else None

    @property
    def journal_offset(self) -> int:
        """The journal offset that the served generation covers."""
        served = self._follower.latest()
        return served.journal_offset if served else 0

    @property
    def chunk_count(self) -> int:
        """Chunks in the served generation."""
        served = self._follower.latest()
        return served.chunk_count if served else 0

    @property
    def document_count(self) -> int:
        """Documents in the served generation."""
        served = self._follower.latest()
        return served.coverage.document_count if served else 0

    @property
    def model_fingerprint(self) -> str | None:
        """The model whose vectors the served generation holds; None while it holds none."""
        served = self._follower.latest()
        return served.coverage.model_fingerprint if served else None

    @property
    def fallback_reason(self) -> str | None:
        """Why another generation than the current one is served; None while the current one is."""
        return self._follower.fallback_reason

    def search(self, query: Query, query_vector: Vectors | None = None) -> Retrieval:
        """The best chunks for the query, by its strategy, filters, trust threshold and token budget.

        `query_vector` is float32 (d,), L2-normalised, and needed unless the strategy is `bm25`. Raises
        `InvalidInput` without it, `Conflict` for another dimension, `Unavailable` when no generation
        covers `minimum_journal_offset` in time, and `Corrupted` when no generation is whole.
        """
        started = time.perf_counter()
        if query_vector is None and query.strategy is not Strategy.BM25:
            raise InvalidInput("query_vector", f"strategy {query.strategy} needs the question's vector")
        generation = self._follower.covering(query.minimum_journal_offset, self._reload_timeout_seconds)
        if generation is None:
            return Retrieval(generation=None, journal_offset=0, chunks=(), metadata=self._metadata(query, started))
        search = self._search(generation, query, query_vector)
        selection, candidate_count, graph = self._select(generation, query, search)
        return Retrieval(
            generation=generation.name,
            journal_offset=generation.journal_offset,
            chunks=selection.chunks,
            metadata=self._metadata(query, started, candidate_count, selection, graph),
        )

    def pin(self, minimum_journal_offset: int = 0) -> IndexReader:
        """This reader over the view that is served now, whatever is published later.

        Raises `Unavailable` when no generation covers the offset in time.
        """
        pinned = copy.copy(self)
        pinned._follower = FixedView(self._follower.covering(minimum_journal_offset, self._reload_timeout_seconds))
        return pinned

    def probe(
        self,
        query_text: str,
        query_vector: Vectors | None,
        top_k: int,
        terms: Sequence[str] = (),
        trust_threshold: float = 0.0,
    ) -> Probe:
        """The raw hits of both retrievers for a question, and how frequent each of `terms` is, from one generation.

        What an answer would not serve is no hit: blocked chunks, and those that are trusted less than the threshold.
        """
        generation = self._follower.latest()
        if generation is None:
            return EMPTY_PROBE
        strategy = Strategy.BM25 if query_vector is None else Strategy.HYBRID
        search = Search(query_text, query_vector, strategy, generation.live_masks(), is_filtered=False)
        ranked = retrieve_candidates(generation, search, max(top_k, CANDIDATES), self._settings)
        source = SegmentChunkSource(generation)
        return Probe(
            generation.name,
            generation.journal_offset,
            generation.chunk_count,
            read_hits(source, ranked, top_k, self._ranking, self._clock(), trust_threshold),
            _frequencies(generation, terms),
            *find_function_words(query_text, terms, generation.terms.languages),
        )

    def document_frequency(self, terms: Sequence[str]) -> dict[str, int]:
        """For each term the number of chunks of the served generation that have it; terms are analysed as text is."""
        generation = self._follower.latest()
        return _frequencies(generation, terms) if generation else dict.fromkeys(terms, 0)

    def document(self, document_id: str) -> DocumentFacts | None:
        """The document's facts, or None when it is not in the served generation."""
        generation = self._follower.latest()
        return generation.facts(document_id) if generation else None

    def documents(self, document_ids: Sequence[str]) -> dict[str, DocumentFacts]:
        """The facts of those documents that are in the served generation."""
        found = ((document_id, self.document(document_id)) for document_id in document_ids)
        return {document_id: facts for document_id, facts in found if facts is not None}

    def all_facts(self) -> Iterator[DocumentFacts]:
        """The facts of every document of the generation that is served now."""
        generation = self._follower.latest()
        return generation.all_facts() if generation else iter(())

    def corpus_hash(self) -> CorpusHash | None:
        """The hash of what is served, read anew, beside the published one; None for a corpus without a generation."""
        generation = self._follower.latest()
        if generation is None:
            return None
        manifest = load_manifest(self._layout.generations / generation.name)
        is_published = manifest.journal_offset == generation.journal_offset  # and nothing besides is in memory
        published = manifest.id_set_hash if is_published else None
        return CorpusHash(generation.name, generation.journal_offset, generation.id_set_hash(), published)

    def chunks(self, document_id: str, minimum_journal_offset: int = 0) -> tuple[Chunk, ...]:
        """The document's chunks in its order; none where it is not in the served generation.

        Raises `Unavailable` when no generation covers the offset in time.
        """
        generation = self._follower.covering(minimum_journal_offset, self._reload_timeout_seconds)
        return generation.chunks(document_id) if generation else ()

    def vectors(self, document_id: str) -> Vectors | None:
        """The vectors (n, d) of the document's chunks in its order; None where it is not in the served generation."""
        generation = self._follower.latest()
        return generation.vectors(document_id) if generation else None

    def has_document(self, document_id: str) -> bool:
        """Whether the served generation holds the document."""
        return self.document(document_id) is not None

    def reload(self) -> str | None:
        """Read the pointer now and serve what it names; returns the name of the generation served."""
        served = self._follower.reload()
        return served.name if served else None

    def close(self) -> None:
        """Unpin the served generation. Searches must have ended."""
        self._follower.close()

    def _search(self, generation: View, query: Query, vector: Vectors | None) -> Search:
        masks = self._masks.over(generation, query.filters)
        return Search(query.query, vector, query.strategy, masks, has_conditions(query.filters))

    def _select(self, generation: View, query: Query, search: Search) -> tuple[Selection, int, GraphUse | None]:
        """Search deeper while dropped candidates, and not a lack of them, leave the list short."""
        depth = max(CANDIDATES, query.top_k, self._ranking.rerank_depth(query))
        source, now = SegmentChunkSource(generation), self._clock()
        graph: Expanded | None = None
        while True:
            found = ranked = retrieve_candidates(generation, search, depth, self._settings)
            if query.strategy is Strategy.HYBRID_GRAPH:
                if graph is None:
                    hits = select_candidates(source, as_hits(query), found, self._ranking, now)
                    graph = expand(self._graph, generation, search, hits.candidates)
                ranked = add_reached(found, graph, generation, search, self._settings)
            candidates = select_candidates(source, query, ranked, self._ranking, now)
            if not candidates.needs_more(query.top_k, depth, len(found)):
                selection = select_results(source, query, candidates, self._ranking)
                return selection, len(ranked), graph.use if graph else None
            depth *= DEEPER

    def _metadata(
        self,
        query: Query,
        started: float,
        candidate_count: int = 0,
        selection: Selection = NOTHING,
        graph: GraphUse | None = None,
    ) -> RetrievalMetadata:
        duration_seconds = time.perf_counter() - started
        return make_metadata(query, self._settings, duration_seconds, candidate_count, selection, graph)


def _frequencies(generation: View, terms: Sequence[str]) -> dict[str, int]:
    return {term: min(count_chunks_with(generation.terms, term), generation.chunk_count) for term in terms}
