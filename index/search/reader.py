"""The common part of every engine's reader: RetrievalPort version 1, and look-ups of hits and documents.

An engine defines the served view and how to find candidates in it. Fusion, trust, reranking and selection are the same
code for all engines. Every result names the single generation that it comes from.
"""

from __future__ import annotations

import copy
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any, ClassVar, Generic, Literal, NamedTuple, Protocol, Self, TypeVar

from sluice.contracts.document import Chunk, DocumentFacts, TrustScorer
from sluice.contracts.errors import Conflict, InvalidInput, Unavailable
from sluice.contracts.filters import Where
from sluice.contracts.graph.model import GraphUse
from sluice.contracts.retrieval import Query, Retrieval, RetrievalMetadata, RetrievalStats, Strategy
from sluice.index.generations.corpus_writer import utc_now
from sluice.index.generations.manifest import Coverage
from sluice.index.generations.view import Listed
from sluice.index.journal.records import Vectors
from sluice.index.search.candidates import DEEPER, ChunkSource, Ranking, is_blocked, select_candidates
from sluice.index.search.fusion import CANDIDATES, RankedCandidates
from sluice.index.search.graph_reach import Expanded
from sluice.index.search.reranker import Reranker
from sluice.index.search.select import NOTHING, Selection, select_results
from sluice.index.settings import QuerySettings
from sluice.index.terms.analysis import detect_language, is_function_word

RELOAD_TIMEOUT_SECONDS = 10.0
"""Longest time that a query waits for a generation covering its minimum offset."""


class ServedView(Protocol):
    """One generation of a corpus with later records, as an engine serves it. Immutable and safe for threads."""

    @property
    def coverage(self) -> Coverage:
        """The generation, offset and counts that the view covers."""

    @property
    def languages(self) -> Sequence[str]:
        """The languages of the chunks' analyses."""

    def documents(self, document_ids: Sequence[str]) -> dict[str, DocumentFacts]:
        """Return the facts of those documents that the view holds."""

    def all_facts(self) -> Iterator[DocumentFacts]:
        """Return the facts of every document."""

    def listed(self, by: Listed, after: str | None = None, *, backwards: bool = False) -> Iterator[DocumentFacts]:
        """Yield the facts of every document behind the position `after`, in order."""

    def chunks(self, document_id: str) -> tuple[Chunk, ...]:
        """Return the document's chunks in its order; empty where the view lacks it."""

    def vectors(self, document_id: str) -> Vectors | None:
        """Return the vectors (n, d) of the document's chunks in its order; None where the view lacks it."""

    def count_chunks_with(self, terms: Sequence[str]) -> dict[str, int]:
        """Return the number of chunks that have each term; terms are analysed as text is."""


SomeView = TypeVar("SomeView", bound=ServedView)


class CorpusReader(ABC, Generic[SomeView]):
    """Searches one corpus. Opens nothing before its first use. Safe for threads."""

    version: Literal[1] = 1
    engine: ClassVar[Literal["local", "qdrant"]]
    no_graph: ClassVar[str] = ""
    """Reason why the engine does not search by the graph; empty where it does."""
    look_seconds: ClassVar[tuple[float, float]] = (0.002, 0.05)
    """The first and the longest pause between two looks for a view that covers an offset."""

    def __init__(
        self,
        corpus: str,
        settings: QuerySettings,
        reranker: Reranker | None = None,
        trust: TrustScorer | None = None,
        clock: Callable[[], datetime] = utc_now,
        reload_timeout_seconds: float = RELOAD_TIMEOUT_SECONDS,
        doubts: Callable[[], Mapping[str, float]] = dict,
    ) -> None:
        """`doubts` returns the doubt of each passage that callers speak against, by the chunk's id."""
        self._corpus = corpus
        self._settings = settings
        self._reload_timeout_seconds = reload_timeout_seconds
        self._ranking = Ranking(settings, trust, reranker, doubts)
        self._clock = clock
        self._pinned: tuple[SomeView | None] | None = None

    @abstractmethod
    def _latest(self) -> SomeView | None:
        """Return the view to search now; None before the first generation."""

    def _pause(self, seconds: float) -> None:
        """Wait before the next look for a newer view; less if one arrives."""
        time.sleep(seconds)

    @abstractmethod
    def _find(
        self,
        view: SomeView,
        text: str,
        vector: Vectors | None,
        strategy: Strategy,
        where: Where | None,
        depth: int,
        lexical_weight: float | None = None,
    ) -> tuple[RankedCandidates, ChunkSource]:
        """Retrieve `depth` candidates by each retriever; return them fused, best first, and their source."""

    def _reach(
        self, view: SomeView, query: Query, vector: Vectors | None, found: RankedCandidates, known: Expanded | None
    ) -> tuple[RankedCandidates, Expanded | None]:
        """Add the chunks that the graph leads to. `known` is the result of the previous search, of fewer candidates."""
        return found, None

    def current_view(self) -> SomeView | None:
        """Return the view that searches see now; None before the first generation."""
        return self._pinned[0] if self._pinned else self._latest()

    def pin(self, minimum_journal_offset: int = 0) -> Self:
        """Return this reader bound to the view served now. Raises `Unavailable` when none covers the offset in time."""
        pinned = copy.copy(self)
        pinned._pinned = (self._covering(minimum_journal_offset),)
        return pinned

    @property
    def generation(self) -> str | None:
        """The name of the generation that is served now."""
        return self._coverage().name or None

    @property
    def journal_offset(self) -> int:
        """The journal offset that the served generation covers."""
        return self._coverage().journal_offset

    @property
    def chunk_count(self) -> int:
        """Number of chunks in the served generation."""
        return self._coverage().chunk_count

    @property
    def document_count(self) -> int:
        """Number of documents in the served generation."""
        return self._coverage().document_count

    @property
    def model_fingerprint(self) -> str | None:
        """The model whose vectors the served generation holds; None while it holds no vectors."""
        return self._coverage().model_fingerprint

    @property
    def languages(self) -> Sequence[str]:
        """The languages of the chunks' analyses in the served generation."""
        view = self.current_view()
        return view.languages if view else ()

    @property
    def fallback_reason(self) -> str | None:
        """Reason for serving another generation than the current one; None while the current one is served."""
        return None

    def retrieve(self, query: Query, vector: Vectors | None = None) -> Retrieval:
        """Retrieve as `RetrievalPort.retrieve` does."""
        self._check(query, vector)
        return self.search(query, vector)

    def batch_retrieve(self, queries: Sequence[Query], vectors: Vectors | None = None) -> tuple[Retrieval, ...]:
        """Retrieve as `RetrievalPort.batch_retrieve` does. Raises `Conflict` unless there is one vector per query."""
        if vectors is not None and (vectors.ndim != 2 or len(vectors) != len(queries)):
            raise Conflict(f"vectors of shape {vectors.shape} for {len(queries)} queries: give one row for each")
        pairs = [(query, None if vectors is None else vectors[row]) for row, query in enumerate(queries)]
        for query, vector in pairs:
            self._check(query, vector)
        pinned = self.pin(max((query.minimum_journal_offset for query in queries), default=0))
        return tuple(pinned.search(query, vector) for query, vector in pairs)

    def search(self, query: Query, vector: Vectors | None = None) -> Retrieval:
        """Return the best chunks for the query, by its strategy, filters, trust threshold and token budget.

        Searches as `retrieve` does, but ignores the query's corpus. `vector` is float32 (d,), L2-normalised, and needed
        unless the strategy is `bm25`. Raises `InvalidInput` without it, `Conflict` for another dimension, `Unavailable`
        when no generation covers `minimum_journal_offset` in time, and `Corrupted` when no generation is intact.
        """
        started = time.perf_counter()
        _check_vector(query, vector)
        view = self._covering(query.minimum_journal_offset)
        if view is None:
            return Retrieval(generation=None, journal_offset=0, chunks=(), metadata=self._metadata(query, started))
        selection, candidate_count, graph = self._select(view, query, vector)
        return Retrieval(
            generation=view.coverage.name,
            journal_offset=view.coverage.journal_offset,
            chunks=selection.chunks,
            metadata=self._metadata(query, started, candidate_count, selection, graph),
        )

    def stats(self) -> RetrievalStats:
        """Return the figures of the generation that is served now."""
        covered = self._coverage()
        same = ("corpus", "journal_offset", "document_count", "chunk_count", "model_fingerprint")
        facts: dict[str, Any] = {field: getattr(covered, field) for field in same}
        return RetrievalStats(engine=self.engine, generation=covered.name or None, **facts)

    def find_hits(self, text: str, vector: Vectors | None, most: int) -> tuple[RawHit, ...]:
        """Return the best hits of both retrievers, or of words alone without a vector; no blocked ones."""
        view = self.current_view()
        if view is None:
            return ()
        strategy = Strategy.BM25 if vector is None else Strategy.HYBRID
        ranked, source = self._find(view, text, vector, strategy, None, max(most, CANDIDATES))
        read = ((source.read(one.number)[1], one) for one in ranked)
        served = (
            RawHit(chunk.document_id, one.similarity, one.lexical_score) for chunk, one in read if not is_blocked(chunk)
        )
        return tuple(islice(served, most))

    def document_frequency(self, terms: Sequence[str]) -> dict[str, int]:
        """Return the number of the served generation's chunks that have each term; terms are analysed as text is."""
        view = self.current_view()
        return view.count_chunks_with(terms) if view else dict.fromkeys(terms, 0)

    def document(self, document_id: str) -> DocumentFacts | None:
        """Return the document's facts, or None when it is not in the served generation."""
        return self.documents([document_id]).get(document_id)

    def documents(self, document_ids: Sequence[str]) -> dict[str, DocumentFacts]:
        """Return the facts of those documents that are in the served generation."""
        view = self.current_view()
        return view.documents(document_ids) if view else {}

    def all_facts(self) -> Iterator[DocumentFacts]:
        """Return the facts of every document of the served generation."""
        view = self.current_view()
        return view.all_facts() if view else iter(())

    def listed(self, by: Listed, after: str | None = None, *, backwards: bool = False) -> Iterator[DocumentFacts]:
        """Yield the facts of every served document behind the position `after`, in order."""
        view = self.current_view()
        return view.listed(by, after, backwards=backwards) if view else iter(())

    def chunks(self, document_id: str, minimum_journal_offset: int = 0) -> tuple[Chunk, ...]:
        """Return the document's chunks in its order; empty where the served generation lacks it.

        Raises `Unavailable` when no generation covers the offset in time.
        """
        view = self._covering(minimum_journal_offset)
        return view.chunks(document_id) if view else ()

    def vectors(self, document_id: str) -> Vectors | None:
        """Return the vectors (n, d) of the document's chunks in its order; None where the generation lacks it."""
        view = self.current_view()
        return view.vectors(document_id) if view else None

    def has_document(self, document_id: str) -> bool:
        """Return whether the served generation holds the document."""
        return self.document(document_id) is not None

    def reload(self) -> str | None:
        """Look now for a newer published generation and serve it; return the name of the one served."""
        return self.generation

    @abstractmethod
    def close(self) -> None:
        """Release the reader's resources. Searches must have ended."""

    def _coverage(self) -> Coverage:
        view = self.current_view()
        return view.coverage if view else Coverage(self._corpus, "", 0, 0, 0, None, None)

    def _covering(self, journal_offset: int) -> SomeView | None:
        """Return the view to search, once it covers the offset. Raises `Unavailable` after the time-out."""
        deadline = time.monotonic() + self._reload_timeout_seconds
        look_seconds, longest_look_seconds = self.look_seconds
        while True:
            view = self.current_view()
            covered = view.coverage.journal_offset if view else 0
            if covered >= journal_offset:
                return view
            if self._pinned:
                raise Unavailable(f"the pinned view covers journal offset {covered}, not {journal_offset}")
            left = deadline - time.monotonic()
            if left <= 0:
                raise Unavailable(f"corpus {self._corpus} covers journal offset {covered}, not yet {journal_offset}")
            self._pause(min(look_seconds, left))
            look_seconds = min(2 * look_seconds, longest_look_seconds)

    def _select(self, view: SomeView, query: Query, vector: Vectors | None) -> tuple[Selection, int, Expanded | None]:
        """Select the results; search deeper while dropped candidates, and not a lack of them, leave the list short."""
        depth = max(query.candidates or CANDIDATES, query.top_k, self._ranking.rerank_depth(query))
        now = self._clock()
        graph: Expanded | None = None
        while True:
            what = (query.query, vector, query.strategy, query.condition)
            found, source = self._find(view, *what, depth, query.lexical_weight)
            ranked = found
            if query.strategy is Strategy.HYBRID_GRAPH:
                ranked, graph = self._reach(view, query, vector, found, graph)
            candidates = select_candidates(source, query, ranked, self._ranking, now)
            if not candidates.needs_more(query.top_k, depth, len(found)):
                return select_results(source, query, candidates, self._ranking), len(ranked), graph
            depth *= DEEPER

    def _metadata(
        self,
        query: Query,
        started: float,
        candidate_count: int = 0,
        selection: Selection = NOTHING,
        graph: Expanded | None = None,
    ) -> RetrievalMetadata:
        use = graph.use if graph else None
        if self.no_graph and query.strategy is Strategy.HYBRID_GRAPH:
            use = GraphUse(abstained=self.no_graph)
        return RetrievalMetadata(
            strategy=query.strategy,
            fusion="weighted" if query.strategy in (Strategy.HYBRID, Strategy.HYBRID_GRAPH) else "none",
            duration_ms=(time.perf_counter() - started) * 1e3,
            total_candidates=candidate_count,
            graph=use,
            **selection.metadata,
        )

    def _check(self, query: Query, vector: Vectors | None) -> None:
        """Raise `InvalidInput` when the query names another corpus, or its strategy needs a vector that is missing."""
        if query.corpus != self._corpus:
            problem = f"this engine serves {self._corpus}, not {query.corpus}"
            raise InvalidInput("corpus", problem, "ask that corpus's engine")
        _check_vector(query, vector)


def _check_vector(query: Query, vector: Vectors | None) -> None:
    if vector is None and query.strategy is not Strategy.BM25:
        raise InvalidInput("query_vector", f"strategy {query.strategy} needs the question's vector")


class RawHit(NamedTuple):
    """A hit with both scores.

    `similarity` is a cosine and known for every hit when a vector was given; `lexical_score` is None for a chunk that
    is not among BM25's candidates.
    """

    document_id: str
    similarity: float | None
    lexical_score: float | None


def find_function_words(
    query_text: str, terms: Sequence[str], languages: Sequence[str]
) -> tuple[str | None, frozenset[str]]:
    """Return the question's language among those of the corpus, and those of `terms` that are its function words."""
    language = detect_language(query_text, languages)
    if language is None:
        return None, frozenset()
    return language, frozenset(term for term in terms if is_function_word(term, language))
