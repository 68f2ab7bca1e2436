"""What the index costs: search, publish, open. Run `python -m bench.index [CHUNKS]`.

The corpus is synthetic (random words of a Zipf-like vocabulary, random unit vectors of 384 dimensions),
so the figures speak of speed and never of quality. CPU time stands beside wall time, as a busy
machine shows in the second only.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import numpy as np

from contracts.document import Chunk, ChunkBatch, ChunkedDocument, Provenance, sha256_text
from contracts.retrieval import Filters, Query, Strategy
from index.reader import IndexReader
from index.records import Vectors
from index.settings import IndexSettings, QuerySettings
from index.writer import IndexWriter

DIMENSION = 384
CHUNKS_PER_DOCUMENT = 2
random = np.random.default_rng(5)
vocabulary = [f"term{number}" for number in range(20_000)]


def words(count: int) -> str:
    return " ".join(vocabulary[rank] for rank in np.minimum(random.zipf(1.3, count), 20_000) - 1)


def unit_vectors(count: int) -> Vectors:
    vectors = random.standard_normal((count, DIMENSION), dtype=np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def document(number: int) -> ChunkedDocument:
    name = f"doc-{number}"
    texts = [words(120) for _ in range(CHUNKS_PER_DOCUMENT)]
    chunks = tuple(
        Chunk(
            chunk_id=f"chunk_{sha256_text(name + text)[:32]}",
            document_id=name,
            ordinal=ordinal,
            text=text,
            start_line=1,
            end_line=9,
            token_estimate=160,
            checksum=sha256_text(text),
        )
        for ordinal, text in enumerate(texts)
    )
    provenance = Provenance(source="file", fetched_at=datetime.now(UTC))
    return ChunkedDocument(
        document_id=name,
        checksum=sha256_text("".join(texts)),
        file_path=f"docs/{number % 10}/{number}.md",
        title=words(4),
        provenance=provenance,
        chunks=chunks,
    )


def append(writer: IndexWriter, start: int, count: int) -> None:
    documents = tuple(document(number) for number in range(start, start + count))
    writer.append(ChunkBatch(documents=documents), unit_vectors(count * CHUNKS_PER_DOCUMENT), "bench")


def report(name: str, work: Callable[[int], object], times: int) -> None:
    walls, cpus = [], []
    for turn in range(times):
        wall, cpu = time.perf_counter(), time.thread_time()
        work(turn)
        walls.append((time.perf_counter() - wall) * 1e3)
        cpus.append((time.thread_time() - cpu) * 1e3)
    print(f"{name:34} wall p50 {statistics.median(walls):8.2f} ms   cpu p50 {statistics.median(cpus):8.2f} ms")


def main(chunk_count: int) -> None:
    document_count = chunk_count // CHUNKS_PER_DOCUMENT
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        with IndexWriter(root, "bench", IndexSettings()) as writer:
            for start in range(0, document_count, 64):
                append(writer, start, min(64, document_count - start))
            report(f"first publish of {chunk_count} chunks", lambda turn: writer.publish(), 1)

            for turn in range(12):
                append(writer, document_count + 64 * turn, 64)
                report("publish of 64 new documents", lambda turn: writer.publish(), 1)
        report("open a generation, verified", lambda turn: IndexReader(root, "bench", QuerySettings()).reload(), 5)
        search(IndexReader(root, "bench", QuerySettings()))


def search(reader: IndexReader) -> None:
    questions = [words(8) for _ in range(300)]
    vectors = unit_vectors(300)
    filters = Filters(path_prefix="docs/3/")
    for strategy in Strategy:
        queries = [_query(question, strategy) for question in questions]
        report(f"search {strategy}", partial(_ask, reader, queries, vectors), 300)
    filtered = _query(questions[0], Strategy.HYBRID).model_copy(update={"filters": filters})
    report("search hybrid, filtered to 10 %", lambda turn: reader.search(filtered, vectors[turn]), 100)
    long_question = _query(words(1_300)[:8_000], Strategy.HYBRID)
    report("search hybrid, 8,000 characters", lambda turn: reader.search(long_question, vectors[turn]), 20)


def _ask(reader: IndexReader, queries: list[Query], vectors: Vectors, turn: int) -> object:
    return reader.search(queries[turn], vectors[turn])


def _query(text: str, strategy: Strategy) -> Query:
    return Query(query=text, strategy=strategy, corpus="bench")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
