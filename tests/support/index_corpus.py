"""A small corpus to write and search: documents made of words, vectors made of their ids."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from sluice.contracts.document import Chunk, ChunkBatch, ChunkedDocument, Provenance, Scalar, sha256_text
from sluice.index.journal.records import Vectors

DIMENSION = 16
NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Maker:
    """Makes documents, their vectors and batches, the same ones for the same arguments."""

    dimension = DIMENSION
    now = NOW
    model = "test-model@1"

    def document(
        self,
        document_id: str,
        *texts: str,
        url: str | None = None,
        path: str | None = None,
        title: str | None = None,
        language: str | None = None,
        age: timedelta = timedelta(),
        source: str = "file",
        author: str | None = None,
        metadata: dict[str, Scalar] | None = None,
    ) -> ChunkedDocument:
        chunks = tuple(
            Chunk(
                chunk_id="chunk_" + sha256_text(f"{document_id}|{text}")[:24],
                document_id=document_id,
                ordinal=ordinal,
                text=text,
                start_line=ordinal * 10 + 1,
                end_line=ordinal * 10 + 9,
                language=language,
                token_estimate=max(1, len(text.split())),
                checksum=sha256_text(text),
            )
            for ordinal, text in enumerate(texts)
        )
        provenance = Provenance.model_validate({"source": source, "fetched_at": NOW - age, "author": author})
        return ChunkedDocument(
            document_id=document_id,
            checksum=sha256_text("\n".join(texts)),
            url=url,
            file_path=path,
            title=title,
            metadata=metadata or {},
            provenance=provenance,
            chunks=chunks,
        )

    def vector(self, text: str) -> Vectors:
        seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
        vector = np.random.default_rng(seed).standard_normal(DIMENSION).astype(np.float32)
        return vector / np.float32(np.linalg.norm(vector))

    def vectors(self, documents: Iterable[ChunkedDocument]) -> Vectors:
        rows = [self.vector(chunk.text) for document in documents for chunk in document.chunks]
        return np.array(rows, dtype=np.float32).reshape(len(rows), DIMENSION)

    def batch(self, documents: Sequence[ChunkedDocument]) -> tuple[ChunkBatch, Vectors, str]:
        return ChunkBatch(documents=tuple(documents)), self.vectors(documents), self.model

    def many(self, count: int, start: int = 0) -> list[ChunkedDocument]:
        return [
            self.document(f"doc-{i}", f"alpha common number{i}", f"beta shared item{i}")
            for i in range(start, start + count)
        ]


@pytest.fixture
def memory_path() -> Iterator[Path]:
    """A folder in memory where there is one, for tests of many publishes that are not about the disk."""
    shared_memory = "/dev/shm"
    with tempfile.TemporaryDirectory(dir=shared_memory if os.access(shared_memory, os.W_OK) else None) as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def make() -> Maker:
    return Maker()
