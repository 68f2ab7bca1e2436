"""Parts an event of several documents into an event for each, so that one of them cannot take the others with it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sluice.contracts.document import Document, DocumentBatch
from sluice.contracts.event import Body, Event
from sluice.contracts.ingest import (
    ChunksEmbedded,
    ChunksPartlyEmbedded,
    DocumentChunked,
    DocumentsSubmitted,
    SearchCompleted,
)
from sluice.contracts.outcome import Done, Next
from sluice.ingest.chunk.token_ids import embedding_texts, select_chunks
from sluice.workers.steps.chunk import documents_of_snippets
from sluice.workers.steps.embed import load_chunks, vectors_from_bytes, vectors_to_bytes

if TYPE_CHECKING:
    from sluice.workers.context import Context
    from sluice.workers.runtime.blob_store import BlobStore


def apart(event: Event, context: Context) -> Done | None:
    """Return an event of the same stage for each document of `event`; None if it has less than two."""
    body, blobs = event.body, context.blobs
    match body:
        case DocumentsSubmitted():
            parts = [_submitted(one, blobs) for one in _batch(body, blobs).documents]
        case SearchCompleted(keep_snippets=True):
            parts = [_submitted(one, blobs) for one in documents_of_snippets(body, event.run_id)]
        case DocumentChunked() | ChunksPartlyEmbedded() | ChunksEmbedded():
            parts = list(_chunked(body, event, context))
        case _:
            return None
    return Done(tuple(parts)) if len(parts) > 1 else None


def _submitted(document: Document, blobs: BlobStore) -> Next:
    batch = DocumentBatch(documents=(document,))
    return Next(DocumentsSubmitted.of(batch, blobs.put(batch.model_dump_json().encode())))


def _batch(body: DocumentsSubmitted, blobs: BlobStore) -> DocumentBatch:
    return DocumentBatch.model_validate_json(blobs.get(body.documents))


def _chunked(
    body: DocumentChunked | ChunksPartlyEmbedded | ChunksEmbedded, event: Event, context: Context
) -> Iterator[Next]:
    blobs, done = context.blobs, 0
    batch = load_chunks(body.chunks_blob, blobs)
    for document in batch.documents:
        chunks = {id(chunk) for chunk in document.chunks}
        part = select_chunks(batch, lambda chunk, chunks=chunks: id(chunk) in chunks)  # type: ignore[misc]
        blob = blobs.put(part.model_dump_json().encode())
        following: Body
        if isinstance(body, ChunksEmbedded):
            rows = vectors_from_bytes(blobs.get(body.vectors_blob), body.dimension)[done : done + len(chunks)]
            vectors = blobs.put(vectors_to_bytes(rows))
            kept = {"chunks_blob": blob, "vectors_blob": vectors, "chunk_count": len(chunks), "subject": part.subject}
            following = body.model_copy(update={**kept, "cache_hits": 0, "cost_usd": 0.0})
            yield Next(following)
            done += len(chunks)
            continue
        if isinstance(body, DocumentChunked):
            following = DocumentChunked.of(part, blob)
        else:
            following = ChunksPartlyEmbedded(
                chunks_blob=blob, model_fingerprint=body.model_fingerprint, subject=part.subject
            )
        left = context.ledger.budget_left(event.run_id)
        model = None if isinstance(body, DocumentChunked) else body.model_fingerprint
        reserve = context.embedding.reserve(embedding_texts(part), event.corpus, left, model)
        yield Next(following, reserve=reserve)
