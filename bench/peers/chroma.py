"""Chroma: vectors in HNSW, documents beside them. Its full text is a filter and ranks nothing: vectors only."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

from bench.peers.engine import Chunks, Hit, Vectors
from bench.peers.serve import main

Batch = tuple[list[str], list[str], Vectors]


class ChromaEngine:
    """A write is in SQLite, synced as strace shows; the graph is saved at times, and caught up from there."""

    durability = "in SQLite, synced at each commit"
    after_add = ""
    strategies = ("vector",)

    def __init__(self, folder: Path) -> None:
        import chromadb
        from chromadb.config import Settings

        self._client: Any = chromadb.PersistentClient(str(folder), Settings(anonymized_telemetry=False))
        self._chunks = self._client.create_collection(
            "chunks", configuration={"hnsw": {"space": "cosine", "num_threads": 1}}, embedding_function=None
        )

    def prepare(self, chunks: Chunks) -> list[Batch]:
        size = self._client.get_max_batch_size()
        rows = zip(map(str, chunks.numbers), chunks.texts, strict=True)
        batches = []
        for start in range(0, len(chunks.texts), size):
            numbers, texts = zip(*islice(rows, size), strict=True)
            batches.append((list(numbers), list(texts), chunks.vectors[start : start + size]))
        return batches

    def ingest(self, prepared: list[Batch]) -> None:
        self.add(prepared)

    def add(self, prepared: list[Batch]) -> None:
        for numbers, texts, vectors in prepared:
            self._chunks.add(ids=numbers, documents=texts, embeddings=vectors)

    def finish(self) -> None:
        return

    def search(self, text: str, vector: Vectors, strategy: str, limit: int) -> list[Hit]:
        found = self._chunks.query(query_embeddings=[vector], n_results=limit, include=["documents"])
        return [(int(number), text) for number, text in zip(found["ids"][0], found["documents"][0], strict=True)]

    def close(self) -> None:
        self._client = None


if __name__ == "__main__":
    main(ChromaEngine)
