"""Sluice as a contestant: journal, publish, and a search in a reader of its own, all by the public classes."""

from __future__ import annotations

from pathlib import Path

from bench.index.documents import FINGERPRINT, Batch, batches, number_of
from bench.peers.engine import Chunks, Hit, Vectors
from bench.peers.serve import main
from sluice.contracts.retrieval import Query, Strategy
from sluice.index.local.reader import IndexReader
from sluice.index.local.writer import IndexWriter
from sluice.index.settings import QuerySettings

CORPUS = "bench"


class SluiceEngine:
    """What `append` returns from is synced in the journal; a published generation is synced file by file."""

    durability = "journal synced, a published generation too"
    after_add = "published"
    strategies = ("hybrid", "vector", "bm25")

    def __init__(self, folder: Path) -> None:
        self._writer = IndexWriter(folder, CORPUS)
        self._reader = IndexReader(folder, CORPUS, QuerySettings())

    def prepare(self, chunks: Chunks) -> list[Batch]:
        """Built documents, as the chunker hands them on."""
        return list(batches(chunks.first, chunks.texts, chunks.vectors))

    def ingest(self, prepared: list[Batch]) -> None:
        """Append batch by batch, publish once, and have the reader serve it."""
        self.add(prepared)
        self._writer.publish()
        self._reader.reload()

    def add(self, prepared: list[Batch]) -> None:
        """Append; the reader follows the journal."""
        for batch, vectors in prepared:
            self._writer.append(batch, vectors, FINGERPRINT)

    def finish(self) -> None:
        """Publish what was appended."""
        self._writer.publish()

    def search(self, text: str, vector: Vectors, strategy: str, limit: int) -> list[Hit]:
        """Results carry the text, the document's facts and every score."""
        query = Query(query=text, corpus=CORPUS, top_k=limit, strategy=Strategy(strategy))
        found = self._reader.search(query, None if query.strategy is Strategy.BM25 else vector)
        return [(number_of(chunk.chunk_id), chunk.text) for chunk in found.chunks]

    def close(self) -> None:
        """Close both."""
        self._reader.close()
        self._writer.close()


if __name__ == "__main__":
    main(SluiceEngine)
