"""The reader of a corpus in Qdrant.

    reader = QdrantReader(collection, "default", QuerySettings())
    retrieval = reader.retrieve(Query(query="how are leases renewed"), vector)

Qdrant retrieves candidates; all later steps are the same code as for a local corpus (`index.search.reader`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from operator import attrgetter
from typing import Any

import numpy as np

from sluice.contracts.document import Chunk, DocumentFacts, TrustScorer
from sluice.contracts.errors import Corrupted
from sluice.contracts.filters import Where
from sluice.contracts.retrieval import Strategy
from sluice.index.generations.corpus_writer import utc_now
from sluice.index.generations.manifest import Coverage
from sluice.index.generations.view import Floats, Listed, Numbers, Ranked
from sluice.index.journal.records import Vectors
from sluice.index.qdrant.payload import (
    CHUNK_FIELDS,
    DOCUMENT_FIELDS,
    STATE_ID,
    CollectionState,
    list_dimensions,
    parse_state,
    read_chunk,
    read_document,
    read_live_documents,
    solve_frequency,
    weigh_question,
    where_document_is,
    where_live,
    where_matches,
)
from sluice.index.qdrant.server import Clause, Hit, SearchRequest, ServerCollection
from sluice.index.search.filters import Matches, matcher
from sluice.index.search.fusion import RankedCandidates, break_ties, combine_results, fuse_scores, list_candidates
from sluice.index.search.reader import CorpusReader
from sluice.index.settings import QuerySettings

_MOST_HITS = 10_000
"""Most hits of one score that are read to find those with the first chunk ids."""


class QdrantView:
    """One generation of a corpus. Every condition sent to the server names its generation, so the view stays the same
    while the collection is written. Safe for threads.
    """

    def __init__(self, collection: ServerCollection, state: CollectionState, settings: QuerySettings) -> None:
        self._collection = collection.at(state.collection)
        self._settings = settings
        self.state, self.coverage = state, Coverage.of(state.name, state)
        self._chunks = where_live(state.number, "chunk")

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages of the chunks' analyses."""
        return self.state.languages

    def find(
        self,
        text: str,
        vector: Vectors | None,
        strategy: Strategy,
        where: Where | None,
        depth: int,
        lexical_weight: float | None = None,
        trust: TrustScorer | None = None,
        now: datetime | None = None,
    ) -> tuple[RankedCandidates, QdrantChunkSource]:
        """Retrieve `depth` candidates by each retriever; return them fused, best first, and their source.

        What the server cannot compare of `where` is compared here, in at most `_MOST_HITS` hits of each. Raises
        `Conflict` when the vector's dimension is not the corpus's.
        """
        if vector is not None and self.state.chunk_count:
            self.coverage.check_dimension(vector)
        compared, rest = where_matches(where)
        among, passes = self._chunks + compared, matcher(rest, trust, now or utc_now()) if rest else None
        is_lexical = strategy is not Strategy.VECTOR
        weights = weigh_question(text, self.state.languages) if is_lexical else {}
        asks: list[SearchRequest] = []
        if weights:
            asks.append(SearchRequest(depth, among, terms=weights, fields=CHUNK_FIELDS))
        if vector is not None and strategy is not Strategy.BM25:
            asks.append(SearchRequest(depth, among, dense=vector.tolist(), fields=CHUNK_FIELDS))
        answers = list(zip(asks, self._best(asks, passes), strict=True)) if asks else []
        source = QdrantChunkSource(self._collection, self.state.number)
        lexical = source.put([hit for ask, hits in answers if ask.terms for hit in hits])
        dense = source.put([hit for ask, hits in answers if ask.terms is None for hit in hits])
        dense, lexical = break_ties(dense, source.chunk_id), break_ties(lexical, source.chunk_id)
        cosines, scores = self._scores(
            source, text, vector, strategy, list_candidates(dense, lexical), len(dense.numbers)
        )
        results = combine_results(dense, lexical, cosines, scores)
        own = {} if lexical_weight is None else {"lexical_weight": lexical_weight}
        fused = fuse_scores(results, strategy, self._settings.model_copy(update=own))
        return RankedCandidates(results, fused, source.chunk_id), source

    def count_chunks_with(self, terms: Sequence[str]) -> dict[str, int]:
        """Count the chunks that have each term, by its rarest part. Replaced chunks count until they are deleted."""
        analysed = {term: [list_dimensions(term, language) for language in self.state.languages] for term in terms}
        places = [place for those in analysed.values() for parts in those for place in parts]
        if not places:
            return dict.fromkeys(terms, 0)
        population = self._collection.count((Clause("any", "kind", ("chunk",)),))
        found = self._collection.ranked([SearchRequest(1, (), terms={place: 1.0}, with_terms=True) for place in places])
        counts = {place: _counted(place, hits, population) for place, hits in zip(places, found, strict=True)}
        return {
            term: min(sum(min(map(counts.__getitem__, parts), default=0) for parts in those), self.state.chunk_count)
            for term, those in analysed.items()
        }

    def documents(self, document_ids: Sequence[str]) -> dict[str, DocumentFacts]:
        """Return the facts of those documents that the generation holds."""
        found = read_live_documents(self._collection, self.state.number, document_ids) if document_ids else {}
        return {document_id: document.facts for document_id, document in found.items()}

    def all_facts(self) -> Iterator[DocumentFacts]:
        """Return the facts of every document that the generation holds."""
        hits = self._collection.points(where_live(self.state.number, "document"), DOCUMENT_FIELDS)
        return (read_document(hit.payload).facts for hit in hits)

    def listed(self, by: Listed, after: str | None = None, *, backwards: bool = False) -> Iterator[DocumentFacts]:
        """Yield the facts of every document behind the position `after`, in order. Reads them all."""
        key = attrgetter("fetch_key" if by == "by_fetch" else "document_id")
        found = sorted(self.all_facts(), key=key, reverse=backwards)
        return (one for one in found if after is None or (key(one) < after if backwards else key(one) > after))

    def chunks(self, document_id: str) -> tuple[Chunk, ...]:
        """Return the document's chunks in its order; empty where the generation lacks it."""
        hits = self._collection.points(self._chunks + where_document_is([document_id]), CHUNK_FIELDS)
        return tuple(sorted((read_chunk(hit.payload)[1] for hit in hits), key=lambda one: one.ordinal))

    def vectors(self, document_id: str) -> Vectors | None:
        """Return the vectors (n, d) of the document's chunks in its order; None where the generation lacks it."""
        hits = self._collection.points(self._chunks + where_document_is([document_id]), ("ordinal",), with_dense=True)
        own = [hit.dense for hit in sorted(hits, key=lambda hit: int(hit.payload["ordinal"])) if hit.dense is not None]
        return np.array(own, dtype=np.float32) if own else None

    def _best(self, asks: Sequence[SearchRequest], passes: Matches | None) -> list[list[Hit]]:
        """Return the first `limit` hits of each search that pass, equal scores in the order of their chunk ids.

        Qdrant cuts off a run of equal scores at any point, so more hits are requested until the run has ended.
        """
        found = self._collection.ranked([replace(ask, limit=ask.limit + 1) for ask in asks])
        return [self._cut(ask, hits, passes) for ask, hits in zip(asks, found, strict=True)]

    def _cut(self, ask: SearchRequest, hits: list[Hit], passes: Matches | None) -> list[Hit]:
        limit = ask.limit + 1
        while True:
            kept = [hit for hit in hits if passes is None or passes(_facts_of(hit))]
            is_cut = len(kept) < ask.limit or hits[-1].score == kept[ask.limit - 1].score
            if len(hits) < limit or limit == _MOST_HITS or not is_cut:
                return sorted(kept, key=lambda hit: (-hit.score, hit.payload["chunk_id"]))[: ask.limit]
            limit = min(4 * limit, _MOST_HITS)
            hits = self._collection.ranked([replace(ask, limit=limit)])[0]

    def _scores(
        self,
        source: QdrantChunkSource,
        text: str,
        vector: Vectors | None,
        strategy: Strategy,
        numbers: Numbers,
        dense_count: int,
    ) -> tuple[Floats, Floats | None]:
        """Return the cosines of the candidates after `dense_count`, and BM25 of all for a mix; in one request."""
        ids = source.ids(numbers)
        alone = ids[dense_count:]
        is_mixed = strategy in (Strategy.HYBRID, Strategy.HYBRID_GRAPH)
        weights = weigh_question(text, self.state.languages, with_function_words=True) if is_mixed else {}
        asks: list[SearchRequest] = []
        if alone and vector is not None:
            asks.append(SearchRequest(len(alone), (Clause("id", "", alone),), dense=vector.tolist()))
        if ids and weights:
            asks.append(SearchRequest(len(ids), (Clause("id", "", ids),), terms=weights))
        answers = list(zip(asks, self._collection.ranked(asks), strict=True)) if asks else []
        cosine_of = {hit.id: hit.score for ask, hits in answers if ask.terms is None for hit in hits}
        score_of = {hit.id: hit.score for ask, hits in answers if ask.terms for hit in hits}
        scores = [score_of.get(one, 0.0) for one in ids] if is_mixed else None
        return [cosine_of.get(one, math.nan) for one in alone], scores


class QdrantChunkSource:
    """The chunks found by one search, numbered in the order of their arrival."""

    def __init__(self, collection: ServerCollection, generation: int) -> None:
        self._collection = collection
        self._generation = generation
        self._hits: list[Hit] = []
        self._numbers: dict[str, int] = {}
        self._read: dict[int, tuple[DocumentFacts, Chunk]] = {}

    def put(self, hits: Sequence[Hit]) -> Ranked:
        """Number the hits, with the same number for the same chunk, and return the numbers with the scores."""
        for hit in hits:
            if hit.id not in self._numbers:
                self._numbers[hit.id] = len(self._hits)
                self._hits.append(hit)
        return Ranked.of([(self._numbers[hit.id], hit.score) for hit in hits])

    def ids(self, numbers: Sequence[int]) -> tuple[str, ...]:
        """Return the ids of the points."""
        return tuple(self._hits[number].id for number in numbers)

    def chunk_id(self, number: int) -> str:
        """Return the chunk id of a number."""
        return str(self._hits[number].payload["chunk_id"])

    def read(self, number: int) -> tuple[DocumentFacts, Chunk]:
        """Return a chunk and its document's facts, as `ChunkSource.read` does."""
        if number not in self._read:
            self._read[number] = read_chunk(self._hits[number].payload)
        return self._read[number]

    def vectors_of(self, numbers: Sequence[int]) -> Vectors:
        """Return the vectors, as `ChunkSource.vectors_of` does, in one request."""
        ids = self.ids(numbers)
        found = {hit.id: hit.dense for hit in self._collection.points((Clause("id", "", ids),), (), with_dense=True)}
        if any(found.get(one) is None for one in ids):
            raise Corrupted("the Qdrant collection has lost a chunk that it has just found: rebuild it")
        return np.array([found[one] for one in ids], dtype=np.float32)

    def around(self, number: int, width: int) -> Sequence[Chunk]:
        """Return the chunk and its neighbours, as `ChunkSource.around` does, in one request by ordinal."""
        _, chunk = self.read(number)
        near = (
            *where_document_is([chunk.document_id]),
            Clause("above", "ordinal", chunk.ordinal - width - 1),
            Clause("at_most", "ordinal", chunk.ordinal + width),
        )
        found = self._collection.points(where_live(self._generation, "chunk") + near, CHUNK_FIELDS)
        return sorted((read_chunk(hit.payload)[1] for hit in found), key=lambda one: one.ordinal)


class QdrantReader(CorpusReader[QdrantView]):
    """Searches one corpus. Sends nothing to the engine before its first use. Safe for threads.

    There is no other generation to fall back to: when the engine fails, the search fails.
    """

    engine = "qdrant"
    no_graph = "the engine qdrant does not search by the graph"
    look_seconds = 0.005, 0.2

    def __init__(self, collection: ServerCollection, *of_any_reader: Any, **more: Any) -> None:
        """The other arguments are those of `CorpusReader`."""
        super().__init__(*of_any_reader, **more)
        self._collection = collection

    def close(self) -> None:
        """Do nothing: the owner of the collection closes it."""

    def _latest(self) -> QdrantView | None:
        state = parse_state(self._collection.payload(STATE_ID), self._corpus)
        return QdrantView(self._collection, state, self._settings) if state else None

    def _find(
        self,
        view: QdrantView,
        text: str,
        vector: Vectors | None,
        strategy: Strategy,
        where: Where | None,
        depth: int,
        lexical_weight: float | None = None,
    ) -> tuple[RankedCandidates, QdrantChunkSource]:
        trust, now = self._ranking.trust, self._clock()
        return view.find(text, vector, strategy, where, depth, lexical_weight, trust, now)


def _facts_of(hit: Hit) -> DocumentFacts:
    """Return the facts of a chunk's document, with the chunk's own language."""
    facts, chunk = read_chunk(hit.payload)
    return facts.model_copy(update={"language": chunk.language or facts.language})


def _counted(place: int, hits: Sequence[Hit], population: int) -> int:
    if not hits:
        return 0
    return solve_frequency(hits[0].score, (hits[0].terms or {}).get(place, 0.0), population)
