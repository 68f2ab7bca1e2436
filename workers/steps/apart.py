"""Parts an event of several documents into an event for each, so that one of them cannot take the others with it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sluice.contracts.document import Document, DocumentBatch
from sluice.contracts.event import Event
from sluice.contracts.ingest import (
    ChunksEmbedded,
    ChunksPartlyEmbedded,
    DocumentChunked,
    DocumentsSubmitted,
    SearchCompleted,
)
from sluice.contracts.outcome import Done, Next
from sluice.ingest.chunk.chunk import embedding_texts, select_chunks
from sluice.workers.steps.chunk import documents_of_snippets
from sluice.workers.steps.embed import ChunkEmbedder, load_chunks, vectors_from_bytes, vectors_to_bytes
from sluice.workers.wiring.inject import assemble

if TYPE_CHECKING:
    from sluice.workers.context import Context
    from sluice.workers.runtime.blob_store import BlobStore


def apart(event: Event, context: Context) -> Done | None:
    """Return an event of the same stage for each document of `event`; None if it has less than two."""
    body, blobs = event.body, context.blobs
    match body:
        case DocumentsSubmitted():
            batch = DocumentBatch.model_validate_json(blobs.get(body.documents))
            parts = [_submitted(one, blobs) for one in batch.documents]
        case SearchCompleted(keep_snippets=True):
            parts = [_submitted(one, blobs) for one in documents_of_snippets(body, event.run_id)]
        case DocumentChunked() | ChunksPartlyEmbedded() | ChunksEmbedded():
            parts = list(_chunked(body, event, assemble(ChunkEmbedder, context)))
        case _:
            return None
    return Done(tuple(parts)) if len(parts) > 1 else None


def _submitted(document: Document, blobs: BlobStore) -> Next:
    batch = DocumentBatch(documents=(document,))
    return Next(DocumentsSubmitted.of(batch, blobs.put(batch.model_dump_json().encode())))


def _chunked(
    body: DocumentChunked | ChunksPartlyEmbedded | ChunksEmbedded, event: Event, embedder: ChunkEmbedder
) -> Iterator[Next]:
    done, blobs = 0, embedder.blobs
    batch = load_chunks(body.chunks_blob, blobs)
    for document in batch.documents:
        chunks = {id(chunk) for chunk in document.chunks}
        part = select_chunks(batch, lambda chunk, chunks=chunks: id(chunk) in chunks)  # type: ignore[misc]
        blob, texts = blobs.put(part.model_dump_json().encode()), embedding_texts(part)
        match body:
            case DocumentChunked():
                yield embedder.following(DocumentChunked.of(part, blob), texts, event)
            case ChunksPartlyEmbedded(model_fingerprint=model):
                anew = ChunksPartlyEmbedded(chunks_blob=blob, model_fingerprint=model, subject=part.subject)
                yield embedder.following(anew, texts, event)
            case ChunksEmbedded():
                rows = vectors_from_bytes(blobs.get(body.vectors_blob), body.dimension)[done : done + len(chunks)]
                vectors = blobs.put(vectors_to_bytes(rows))
                own = {"chunks_blob": blob, "vectors_blob": vectors, "chunk_count": len(chunks)}
                own |= {"subject": part.subject, "cache_hits": 0, "cost_usd": 0.0}
                yield Next(body.model_copy(update=own))
                done += len(chunks)
