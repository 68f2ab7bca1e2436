"""Searches of what agents remember, as the index answers them: one feature's collection is a corpus of its own."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sluice.contracts.document import ChunkBatch, ChunkedDocument
from sluice.contracts.errors import NotFound
from sluice.contracts.operations.quarantine import MOST_HELD_AT_ONCE, QuarantinePage
from sluice.contracts.retrieval import MAX_QUERY_CHARACTERS, Query, Retrieval, RetrievedChunk, Strategy
from sluice.memory.documents import documents_of
from sluice.memory.ports import Hit, Hits
from sluice.workers.runtime.negative_list import refused_documents

if TYPE_CHECKING:
    from sluice.ledger.ledger import Ledger
    from sluice.memory.journal.feature_memory import FeatureMemory
    from sluice.workers.wiring.corpora import CorpusReaders

MOST_FOUND = 200


class IndexSearch:
    """Searches of memory's collections by whatever answers queries of the index."""

    def __init__(self, ask: Callable[[Query], Retrieval]) -> None:
        """`ask` raises what a direct query raises."""
        self._ask = ask

    def search(self, collection: str, query: str, top_k: int) -> Hits:
        """The best of one collection; empty where nothing was indexed yet.

        Raises:
            Unavailable: the engine is away, or does not answer in time.
        """
        asked = Query(
            query=query[:MAX_QUERY_CHARACTERS],
            corpus=collection,
            top_k=min(top_k, MOST_FOUND),
            max_per_domain=0,
            duplicate_threshold=0.0,
            diversity=0.0,
            rerank=False,
        )
        try:
            return hits_of(self._ask(asked))
        except NotFound:
            return Hits((), "hybrid")


def hits_of(found: Retrieval) -> Hits:
    """What was found, with relevances in [0, 1] in the order of fusion: the best one's is the best cosine.

    A fused score has no upper end, as BM25 has none; so each counts as a share of the best. Where there are no vectors
    the best one's relevance is 1.
    """
    best = max((chunk.fused_score for chunk in found.chunks), default=0.0)
    cosines = [1.0 - chunk.dense_distance for chunk in found.chunks if chunk.dense_distance is not None]
    top = min(1.0, max(0.0, max(cosines))) if cosines else 1.0
    hits = tuple(Hit(chunk.document_id, round(top * _share(chunk, best), 6)) for chunk in found.chunks)
    return Hits(hits, "bm25" if found.metadata.strategy is Strategy.BM25 else "hybrid")


def _share(chunk: RetrievedChunk, best: float) -> float:
    return min(1.0, max(0.0, chunk.fused_score / best)) if best > 0 else 0.0


@dataclass(frozen=True, slots=True)
class IndexLag:
    """What the index lacks of a feature's memory, or has in another version; and what it holds that is to go."""

    entry_ids: tuple[str, ...]
    """Iterations that it lacks."""
    learning_ids: tuple[str, ...]
    surplus: tuple[str, ...]
    """Ids of documents that the journal knows nothing of, or that are not offered any more."""
    documents: int
    """How many the index is to hold in all."""
    indexed: int
    """How many it holds."""
    withheld: int
    """How many of the journal's the guard or the negative list keeps out of the index."""
    digest: str
    """Stands for what it lacks or has too much: the same lag has the same."""

    @property
    def behind(self) -> int:
        """Documents to write and to remove."""
        return len(self.entry_ids) + len(self.learning_ids) + len(self.surplus)


def held_checksums(corpus: str, readers: CorpusReaders) -> dict[str, str]:
    """The checksum of each document that the index serves now."""
    if not readers.exists(corpus):
        return {}
    reader = readers.reader(corpus)
    reader.reload()
    return {facts.document_id: facts.checksum for facts in reader.all_facts()}


def measure_lag(corpus: str, state: FeatureMemory, project: str, readers: CorpusReaders, ledger: Ledger) -> IndexLag:
    """Compare the journal's state with what the index serves, document by document."""
    wanted = {one.document_id: one for one in documents_of(state, project)}
    held = held_checksums(corpus, readers)
    lacking = [one for name, one in wanted.items() if held.get(name) != one.checksum]
    kept_out = _kept_out(corpus, lacking, ledger) if lacking else frozenset()
    missing = {one.document_id: one.checksum for one in lacking if one.document_id not in kept_out}
    surplus = {name: checksum for name, checksum in held.items() if name not in wanted}
    return IndexLag(
        entry_ids=tuple(name for name in missing if name in state.iterations),
        learning_ids=tuple(name for name in missing if name in state.learnings),
        surplus=tuple(sorted(surplus)),
        documents=len(wanted) - len(kept_out),
        indexed=len(held),
        withheld=len(kept_out),
        digest=_digest(missing | surplus),
    )


def _digest(checksums: Mapping[str, str]) -> str:
    told = "\n".join(f"{name} {checksum}" for name, checksum in sorted(checksums.items()))
    return hashlib.sha256(told.encode()).hexdigest()


def _kept_out(corpus: str, documents: list[ChunkedDocument], ledger: Ledger) -> frozenset[str]:
    """The ids of those that the guard holds in quarantine as they stand, or that the negative list names."""
    refused = refused_documents(ChunkBatch(documents=tuple(documents)), corpus, ledger.forgotten)
    page = QuarantinePage(corpora=(corpus,), state="any", limit=MOST_HELD_AT_ONCE)
    held = {(one.document_id, one.checksum) for one in ledger.quarantine.list(page) if one.state != "released"}
    blocked = (
        one.document_id for one in documents if all((one.document_id, chunk.checksum) in held for chunk in one.chunks)
    )
    return frozenset(refused) | frozenset(blocked)
