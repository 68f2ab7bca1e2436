"""sqlite-vec and FTS5 in one SQLite file, fused by reciprocal rank in SQL as sqlite-vec's author shows.

Vectors are compared one by one, exactly. A question is the words it has, any of them, stemmed.
"""

from __future__ import annotations

import re
from pathlib import Path

from bench.peers.engine import CANDIDATES, Chunks, Hit, Vectors
from bench.peers.serve import main

Rows = tuple[list[tuple[int, str]], list[tuple[int, str]], list[tuple[int, bytes]]]
"""For each of the three tables."""

_SCHEMA = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
CREATE TABLE chunks (id INTEGER PRIMARY KEY, text TEXT NOT NULL);
CREATE VIRTUAL TABLE terms USING fts5(text, content='chunks', content_rowid='id', tokenize='porter unicode61');
CREATE VIRTUAL TABLE vectors USING vec0(embedding float[384] distance_metric=cosine);
"""
_INSERTS = (
    "INSERT INTO chunks (id, text) VALUES (?, ?)",
    "INSERT INTO terms (rowid, text) VALUES (?, ?)",
    "INSERT INTO vectors (rowid, embedding) VALUES (?, ?)",
)
_DENSE = (
    "SELECT rowid, row_number() OVER (ORDER BY distance) AS place FROM vectors WHERE embedding MATCH :vector AND k = :k"
)
_LEXICAL = """
SELECT rowid, row_number() OVER () AS place
FROM (SELECT rowid FROM terms WHERE text MATCH :words ORDER BY rank LIMIT :k)
"""
_SEARCHES = {
    "hybrid": f"""
        WITH dense AS ({_DENSE}), lexical AS ({_LEXICAL})
        SELECT chunks.id, chunks.text
        FROM lexical FULL OUTER JOIN dense ON dense.rowid = lexical.rowid
        JOIN chunks ON chunks.id = coalesce(lexical.rowid, dense.rowid)
        ORDER BY coalesce(1.0 / (60 + lexical.place), 0.0) + coalesce(1.0 / (60 + dense.place), 0.0) DESC
        LIMIT :limit""",
    "vector": f"""
        WITH dense AS ({_DENSE})
        SELECT id, text FROM dense JOIN chunks ON id = dense.rowid ORDER BY place LIMIT :limit""",
    "bm25": f"""
        WITH lexical AS ({_LEXICAL})
        SELECT id, text FROM lexical JOIN chunks ON id = lexical.rowid ORDER BY place LIMIT :limit""",
}


class SqliteEngine:
    """Every commit is in the write-ahead log and synced (`synchronous=FULL`)."""

    durability = "WAL synced at each commit (synchronous=FULL)"
    after_add = ""
    strategies = ("hybrid", "vector", "bm25")

    def __init__(self, folder: Path) -> None:
        import apsw
        import sqlite_vec

        self._connection = apsw.Connection(str(folder / "chunks.sqlite"))
        self._connection.enable_load_extension(True)
        self._connection.load_extension(sqlite_vec.loadable_path())
        for _ in self._connection.execute(_SCHEMA):
            pass

    def prepare(self, chunks: Chunks) -> Rows:
        blobs = [vector.tobytes() for vector in chunks.vectors]
        texts = list(zip(chunks.numbers, chunks.texts, strict=True))
        return texts, texts, list(zip(chunks.numbers, blobs, strict=True))

    def ingest(self, prepared: Rows) -> None:
        self.add(prepared)

    def add(self, prepared: Rows) -> None:
        with self._connection:
            for insert, rows in zip(_INSERTS, prepared, strict=True):
                self._connection.executemany(insert, rows)

    def finish(self) -> None:
        return

    def search(self, text: str, vector: Vectors, strategy: str, limit: int) -> list[Hit]:
        words = " OR ".join(f'"{word}"' for word in re.findall(r"\w+", text))
        bindings = {"vector": vector.tobytes(), "words": words, "k": CANDIDATES, "limit": limit}
        return list(self._connection.execute(_SEARCHES[strategy], bindings))

    def close(self) -> None:
        self._connection.close()


if __name__ == "__main__":
    main(SqliteEngine)
