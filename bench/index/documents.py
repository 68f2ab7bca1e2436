"""Texts and vectors as the index takes them: documents of four chunks, in batches as events bring them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from sluice.contracts.document import Chunk, ChunkBatch, ChunkedDocument, Provenance, sha256_text
from sluice.index.journal.records import Vectors

CHUNKS_PER_DOCUMENT = 4
DOCUMENTS_PER_BATCH = 64
CHUNKS_PER_BATCH = CHUNKS_PER_DOCUMENT * DOCUMENTS_PER_BATCH
FINGERPRINT = "bench"
FETCHED_AT = datetime(2026, 1, 1, tzinfo=UTC)

Batch = tuple[ChunkBatch, Vectors]


def batches(first: int, texts: Sequence[str], vectors: Vectors) -> Iterator[Batch]:
    """The texts as documents; text i is chunk `first + i`, which its id ends with."""
    for start in range(0, len(texts), CHUNKS_PER_BATCH):
        rows = slice(start, min(start + CHUNKS_PER_BATCH, len(texts)))
        numbers = range(first + rows.start, first + rows.stop)
        yield _batch(numbers, texts[rows]), vectors[rows]


def document(name: str, chunks: Sequence[tuple[str, str]], fetched_at: datetime = FETCHED_AT) -> ChunkedDocument:
    """A document of chunks given as (id, text)."""
    return ChunkedDocument(
        document_id=name,
        checksum=sha256_text("\n".join(text for _, text in chunks)),
        file_path=f"{name}.md",
        title=name,
        provenance=Provenance(source="file", fetched_at=fetched_at),
        chunks=tuple(
            Chunk(
                chunk_id=chunk_id,
                document_id=name,
                ordinal=ordinal,
                text=text,
                start_line=1,
                end_line=1,
                token_estimate=len(text) // 4,
                checksum=sha256_text(text),
            )
            for ordinal, (chunk_id, text) in enumerate(chunks)
        ),
    )


def number_of(chunk_id: str) -> int:
    """The number that a chunk's id ends with."""
    return int(chunk_id.rsplit("-", 1)[1])


def _batch(numbers: range, texts: Sequence[str]) -> ChunkBatch:
    chunks = [(f"chunk-{number:08d}", text) for number, text in zip(numbers, texts, strict=True)]
    starts = range(0, len(chunks), CHUNKS_PER_DOCUMENT)
    return ChunkBatch(
        documents=tuple(
            document(f"document-{numbers[start]:08d}", chunks[start : start + CHUNKS_PER_DOCUMENT]) for start in starts
        )
    )
