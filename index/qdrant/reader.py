"""The reader of a corpus in Qdrant.

    reader = QdrantReader(collection, "default", QuerySettings())
    retrieval = reader.retrieve(Query(query="how are leases renewed"), vector)

Qdrant retrieves candidates; all that follows is the same code as for a local corpus (`index.search.reader`).
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from sluice.contracts.document import TrustScorer
from sluice.contracts.retrieval import Filters, Strategy
from sluice.index.generations.corpus_writer import utc_now
from sluice.index.journal.records import Vectors
from sluice.index.qdrant.payload import STATE_ID, parse_state
from sluice.index.qdrant.server import ServerCollection
from sluice.index.qdrant.view import QdrantChunkSource, QdrantView
from sluice.index.search.fusion import RankedCandidates
from sluice.index.search.reader import RELOAD_TIMEOUT_SECONDS, CorpusReader
from sluice.index.search.rerank.base import Reranker
from sluice.index.settings import QuerySettings


class QdrantReader(CorpusReader[QdrantView]):
    """Searches one corpus. Sends nothing to the engine before its first use. Safe for threads.

    There is no other generation to fall back to: a search fails when the engine does.
    """

    engine = "qdrant"
    no_graph = "the engine qdrant does not search by the graph"
    look_seconds = 0.005, 0.2

    def __init__(
        self,
        collection: ServerCollection,
        corpus: str,
        settings: QuerySettings,
        reranker: Reranker | None = None,
        trust: TrustScorer | None = None,
        clock: Callable[[], datetime] = utc_now,
        reload_timeout_seconds: float = RELOAD_TIMEOUT_SECONDS,
    ) -> None:
        super().__init__(corpus, settings, reranker, trust, clock, reload_timeout_seconds)
        self._collection = collection

    def close(self) -> None:
        """Does nothing: the owner of the collection closes it."""

    def _latest(self) -> QdrantView | None:
        state = parse_state(self._collection.payload(STATE_ID), self._corpus)
        return QdrantView(self._collection, state, self._settings) if state else None

    def _find(
        self, view: QdrantView, text: str, vector: Vectors | None, strategy: Strategy, filters: Filters, depth: int
    ) -> tuple[RankedCandidates, QdrantChunkSource]:
        return view.find(text, vector, strategy, filters, depth)
