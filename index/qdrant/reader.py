"""The reader of a corpus in Qdrant: RetrievalPort version 1, and the coverage probe of the gate.

    reader = QdrantReader(collection, "default", QuerySettings())
    retrieval = reader.retrieve(Query(query="how are leases renewed"), vector)

Qdrant retrieves candidates; fusion, trust, reranking and selection are the same code as for a local corpus.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Literal

from sluice.contracts.document import Chunk, TrustScorer
from sluice.contracts.errors import Unavailable
from sluice.contracts.graph.retrieval import GraphUse
from sluice.contracts.retrieval import (
    Filters,
    Query,
    Retrieval,
    RetrievalMetadata,
    RetrievalStats,
    Strategy,
)
from sluice.index.journal.document_facts import DocumentFacts
from sluice.index.journal.records import Vectors
from sluice.index.local.reader import RELOAD_TIMEOUT_SECONDS
from sluice.index.local.retrieval_port import check_corpus, check_vector, pair_with_vectors
from sluice.index.qdrant.collection import Collection
from sluice.index.qdrant.payload import STATE_ID, CollectionState, parse_state
from sluice.index.qdrant.view import QdrantView
from sluice.index.search.candidates import DEEPER, select_candidates
from sluice.index.search.fusion import CANDIDATES
from sluice.index.search.probe import EMPTY_PROBE, Probe, find_function_words, read_hits
from sluice.index.search.ranking_options import Ranking
from sluice.index.search.rerank.base import Reranker
from sluice.index.search.select import NOTHING, Selection, make_metadata, select_results
from sluice.index.settings import QuerySettings

NO_GRAPH = "the engine qdrant does not search by the graph"
_FIRST_LOOK_SECONDS = 0.005
_LONGEST_LOOK_SECONDS = 0.2


def _utc_now() -> datetime:
    return datetime.now(UTC)


class QdrantReader:
    """Searches one corpus. Sends nothing to the engine before its first use. Safe for threads."""

    version: Literal[1] = 1
    fallback_reason: str | None = None
    """Always None: there is no other generation to fall back to, and a search fails when the engine does."""

    def __init__(
        self,
        collection: Collection,
        corpus: str,
        settings: QuerySettings,
        reranker: Reranker | None = None,
        trust: TrustScorer | None = None,
        clock: Callable[[], datetime] = _utc_now,
        reload_timeout_seconds: float = RELOAD_TIMEOUT_SECONDS,
    ) -> None:
        self._collection = collection
        self._corpus = corpus
        self._settings = settings
        self._reload_timeout_seconds = reload_timeout_seconds
        self._ranking = Ranking.of(settings, reranker, trust)
        self._clock = clock

    @property
    def generation(self) -> str | None:
        """The name of the generation that is served now."""
        state = self._state()
        return state.name if state else None

    @property
    def journal_offset(self) -> int:
        """The journal offset that the served generation covers."""
        state = self._state()
        return state.journal_offset if state else 0

    @property
    def chunk_count(self) -> int:
        """Chunks in the served generation."""
        state = self._state()
        return state.chunk_count if state else 0

    @property
    def document_count(self) -> int:
        """Documents in the served generation."""
        state = self._state()
        return state.document_count if state else 0

    @property
    def model_fingerprint(self) -> str | None:
        """The model whose vectors the served generation holds; None while it holds none."""
        state = self._state()
        return state.model_fingerprint if state else None

    def retrieve(self, query: Query, vector: Vectors | None = None) -> Retrieval:
        """As `RetrievalPort.retrieve`."""
        started = time.perf_counter()
        check_corpus(query, self._corpus)
        check_vector(query, vector)
        view = self._covering(query.minimum_journal_offset)
        return self._answer(view, query, vector, started)

    def batch_retrieve(self, queries: Sequence[Query], vectors: Vectors | None = None) -> tuple[Retrieval, ...]:
        """As `RetrievalPort.batch_retrieve`."""
        pairs = pair_with_vectors(queries, vectors)
        for query, vector in pairs:
            check_corpus(query, self._corpus)
            check_vector(query, vector)
        view = self._covering(max((query.minimum_journal_offset for query in queries), default=0))
        return tuple(self._answer(view, query, vector, time.perf_counter()) for query, vector in pairs)

    def stats(self) -> RetrievalStats:
        """What is served now."""
        state = self._state()
        return RetrievalStats(
            engine="qdrant",
            corpus=self._corpus,
            generation=state.name if state else None,
            journal_offset=state.journal_offset if state else 0,
            document_count=state.document_count if state else 0,
            chunk_count=state.chunk_count if state else 0,
            model_fingerprint=state.model_fingerprint if state else None,
        )

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
        view = self.current_view()
        if view is None:
            return EMPTY_PROBE
        strategy = Strategy.BM25 if query_vector is None else Strategy.HYBRID
        depth = max(top_k, CANDIDATES)
        ranked, source = view.find(query_text, query_vector, strategy, Filters(), depth)
        return Probe(
            view.state.name,
            view.state.journal_offset,
            view.state.chunk_count,
            read_hits(source, ranked, top_k, self._ranking, self._clock(), trust_threshold),
            view.count_chunks_with(terms),
            *find_function_words(query_text, terms, view.state.languages),
        )

    def document_frequency(self, terms: Sequence[str]) -> dict[str, int]:
        """For each term the number of chunks of the served generation that have it; terms are analysed as text is."""
        view = self.current_view()
        return view.count_chunks_with(terms) if view else dict.fromkeys(terms, 0)

    def document(self, document_id: str) -> DocumentFacts | None:
        """The document's facts, or None when it is not in the served generation."""
        return self.documents([document_id]).get(document_id)

    def documents(self, document_ids: Sequence[str]) -> dict[str, DocumentFacts]:
        """The facts of those documents that are in the served generation."""
        view = self.current_view()
        return view.documents(document_ids) if view else {}

    def all_facts(self) -> Iterator[DocumentFacts]:
        """The facts of every document of the served generation."""
        view = self.current_view()
        return view.all_facts() if view else iter(())

    def chunks(self, document_id: str, minimum_journal_offset: int = 0) -> tuple[Chunk, ...]:
        """The document's chunks in its order; none where it is not in the served generation.

        Raises `Unavailable` when no generation covers the offset in time.
        """
        view = self._covering(minimum_journal_offset)
        return view.chunks(document_id) if view else ()

    def vectors(self, document_id: str) -> Vectors | None:
        """The vectors (n, d) of the document's chunks in its order; None where it is not in the served generation."""
        view = self.current_view()
        return view.vectors(document_id) if view else None

    def has_document(self, document_id: str) -> bool:
        """Whether the served generation holds the document."""
        return self.document(document_id) is not None

    def reload(self) -> str | None:
        """The name of the generation that is served; every search reads it again."""
        return self.generation

    def close(self) -> None:
        """Does nothing: the owner of the collection closes it."""

    def _answer(self, view: QdrantView | None, query: Query, vector: Vectors | None, started: float) -> Retrieval:
        if view is None:
            return Retrieval(generation=None, journal_offset=0, chunks=(), metadata=self._metadata(query, started))
        selection, candidate_count = self._select(view, query, vector)
        return Retrieval(
            generation=view.state.name,
            journal_offset=view.state.journal_offset,
            chunks=selection.chunks,
            metadata=self._metadata(query, started, candidate_count, selection),
        )

    def _select(self, view: QdrantView, query: Query, vector: Vectors | None) -> tuple[Selection, int]:
        """Search deeper while dropped candidates, and not a lack of them, leave the list short."""
        depth = max(CANDIDATES, query.top_k, self._ranking.rerank_depth(query))
        now = self._clock()
        while True:
            ranked, source = view.find(query.query, vector, query.strategy, query.filters, depth)
            candidates = select_candidates(source, query, ranked, self._ranking, now)
            if not candidates.needs_more(query.top_k, depth, len(ranked)):
                return select_results(source, query, candidates, self._ranking), len(ranked)
            depth *= DEEPER

    def _covering(self, journal_offset: int) -> QdrantView | None:
        """The served generation, once it covers the offset. Raises `Unavailable` when that takes too long."""
        deadline = time.monotonic() + self._reload_timeout_seconds
        look_seconds = _FIRST_LOOK_SECONDS
        while True:
            view = self.current_view()
            covered = view.state.journal_offset if view else 0
            if covered >= journal_offset:
                return view
            left = deadline - time.monotonic()
            if left <= 0:
                raise Unavailable(f"corpus {self._corpus} covers journal offset {covered}, not yet {journal_offset}")
            time.sleep(min(look_seconds, left))
            look_seconds = min(2 * look_seconds, _LONGEST_LOOK_SECONDS)

    def current_view(self) -> QdrantView | None:
        """What searches see now; None before the first publish."""
        state = self._state()
        return QdrantView(self._collection, state, self._settings) if state else None

    def _state(self) -> CollectionState | None:
        return parse_state(self._collection.payload(STATE_ID), self._corpus)

    def _metadata(
        self, query: Query, started: float, candidate_count: int = 0, selection: Selection = NOTHING
    ) -> RetrievalMetadata:
        graph = GraphUse(abstained=NO_GRAPH) if query.strategy is Strategy.HYBRID_GRAPH else None
        return make_metadata(query, self._settings, time.perf_counter() - started, candidate_count, selection, graph)
