"""txtai: FAISS, BM25 terms and texts in SQLite, fused by convex weights, as `Embeddings(hybrid=True, content=True)`.

It has no way to pass a vector with a text: they come from the transform that it asks, here a table. Nor can one arm be
asked alone: `vector` and `bm25` give the other one the weight 0, and take as long as both.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np

from bench.peers.disk import Disk
from bench.peers.engine import Chunks, Hit, Vectors
from bench.peers.serve import main

Rows = list[tuple[int, str, None]]


class TxtaiEngine:
    """Lives in memory and in a temporary SQLite file until it is saved whole, which `finish` does."""

    durability = "none: in memory until saved whole"
    after_add = "saved whole"
    strategies = ("hybrid", "vector", "bm25")

    def __init__(self, folder: Path) -> None:
        from txtai import Embeddings

        self._folder = folder
        self._saves = 0
        self._vectors: dict[str, Vectors] = {}

        def transform(texts: list[str]) -> Vectors:
            return np.stack([self._vectors[text] for text in texts])

        self._embeddings: Any = Embeddings(method="external", transform=transform, hybrid=True, content=True)

    def prepare(self, chunks: Chunks) -> Rows:
        self._vectors.update(zip(chunks.texts, chunks.vectors, strict=True))
        return [(number, text, None) for number, text in zip(chunks.numbers, chunks.texts, strict=True)]

    def ingest(self, prepared: Rows) -> None:
        self._embeddings.index(prepared)

    def add(self, prepared: Rows) -> None:
        self._embeddings.upsert(prepared)

    def finish(self) -> None:
        self._saves += 1
        saved = self._folder / str(self._saves)
        self._embeddings.save(str(saved))
        Disk(saved).sync()
        shutil.rmtree(self._folder / str(self._saves - 1), ignore_errors=True)

    def search(self, text: str, vector: Vectors, strategy: str, limit: int) -> list[Hit]:
        self._vectors[text] = vector
        weights = {"hybrid": 0.5, "vector": 1.0, "bm25": 0.0}[strategy]
        return [(int(hit["id"]), hit["text"]) for hit in self._embeddings.search(text, limit, weights=weights)]

    def close(self) -> None:
        self._embeddings.close()


if __name__ == "__main__":
    main(TxtaiEngine)
