"""LanceDB: one table, a vector index with refine, its own full-text index, fused by its RRF reranker.

Rows that are not indexed yet are searched too, one by one, so what was added is found at once.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.peers.disk import Disk
from bench.peers.engine import Chunks, Hit, Vectors
from bench.peers.serve import main

DIMENSION = 384
REFINE_FACTOR = 10
"""Ten times the wanted rows are compared again by their whole vectors, as its manual recommends for recall."""


class LanceEngine:
    """A commit writes data and manifest files and syncs none (strace shows no such call); `finish` does."""

    durability = "files written, not synced"
    after_add = "files synced"
    strategies = ("hybrid", "vector", "bm25")

    def __init__(self, folder: Path) -> None:
        import lancedb
        import pyarrow as pa
        from lancedb.rerankers import RRFReranker

        self._schema = pa.schema(
            [("id", pa.int64()), ("text", pa.string()), ("vector", pa.list_(pa.float32(), DIMENSION))]
        )
        self._table: Any = lancedb.connect(folder).create_table("chunks", schema=self._schema)
        self._reranker = RRFReranker()
        self._disk = Disk(folder)

    def prepare(self, chunks: Chunks) -> Any:
        import pyarrow as pa

        vectors = pa.FixedSizeListArray.from_arrays(pa.array(chunks.vectors.ravel()), DIMENSION)
        return pa.table([pa.array(chunks.numbers), pa.array(chunks.texts), vectors], schema=self._schema)

    def ingest(self, prepared: Any) -> None:
        from lancedb.index import FTS, IvfPq

        self._table.add(prepared)
        self._table.create_index("vector", config=IvfPq(distance_type="cosine"))
        self._table.create_index("text", config=FTS())

    def add(self, prepared: Any) -> None:
        self._table.add(prepared)

    def finish(self) -> None:
        self._disk.sync()

    def search(self, text: str, vector: Vectors, strategy: str, limit: int) -> list[Hit]:
        found = self._query(text, vector, strategy).select(["id", "text"]).limit(limit).to_list()
        return [(row["id"], row["text"]) for row in found]

    def close(self) -> None:
        self._table = None

    def _query(self, text: str, vector: Vectors, strategy: str) -> Any:
        match strategy:
            case "hybrid":
                query = self._table.search(query_type="hybrid").vector(vector).text(text).rerank(self._reranker)
                return query.refine_factor(REFINE_FACTOR)
            case "vector":
                return self._table.search(vector).distance_type("cosine").refine_factor(REFINE_FACTOR)
            case _:
                return self._table.search(text, query_type="fts")


if __name__ == "__main__":
    main(LanceEngine)
