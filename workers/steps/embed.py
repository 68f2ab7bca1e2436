"""From chunks to vectors, a step of about a second at a time: what is left then is the next event's."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from sluice.contracts.base import BlobRef
from sluice.contracts.document import ChunkBatch
from sluice.contracts.event import Event
from sluice.contracts.ingest import ChunksEmbedded, ChunksPartlyEmbedded
from sluice.contracts.outcome import Done, Next
from sluice.ingest.chunk.token_ids import embedding_texts
from sluice.ingest.embed.cost import Portion, end_of_portion
from sluice.otel import metrics
from sluice.workers.steps.trust.topic_change import mark_topic_changes
from sluice.workers.steps.vector_codec import vectors_from_bytes, vectors_to_bytes

if TYPE_CHECKING:
    from sluice.ledger.ledger import Ledger
    from sluice.workers.runtime.blob_store import BlobStore
    from sluice.workers.wiring.corpora import CorpusReaders
    from sluice.workers.wiring.embedding import EmbeddingService


def load_chunks(reference: BlobRef, blobs: BlobStore) -> ChunkBatch:
    """The chunked documents that an event refers to."""
    return ChunkBatch.model_validate_json(blobs.get(reference))


def embed_next(
    begun: ChunksPartlyEmbedded,
    batch: ChunkBatch,
    event: Event,
    readers: CorpusReaders,
    embedding: EmbeddingService,
    ledger: Ledger,
    blobs: BlobStore,
) -> Done:
    """Embed the next portion of `batch`, the one that `begun` refers to, behind the chunks that have their vectors.

    Once every chunk has one, passages on another topic than their document's former version are marked.

    Emits `ChunksEmbedded` once every chunk has one, else `ChunksPartlyEmbedded` with what the rest may cost reserved.
    Raises Unavailable (or its children) where the model is out of reach.
    """
    end = _end_of_portion(batch, begun.chunk_count, embedding.portion(event.corpus))
    texts = embedding_texts(batch)
    started = time.perf_counter()
    embedded = embedding.embed_by(begun.model_fingerprint, texts[begun.chunk_count : end])
    metrics.EMBEDDING_SECONDS.observe(time.perf_counter() - started)
    metrics.TOKEN_SPEND.labels("embedding").inc(embedded.tokens)
    cache_hits, cost_usd = begun.cache_hits + embedded.cache_hits, begun.cost_usd + embedded.cost_usd
    if end < len(texts):
        partly = ChunksPartlyEmbedded(
            chunks_blob=begun.chunks_blob,
            vectors_blobs=(*begun.vectors_blobs, blobs.put(vectors_to_bytes(embedded.vectors))),
            model_fingerprint=embedded.fingerprint,
            chunk_count=end,
            cache_hits=cache_hits,
            cost_usd=cost_usd,
        )
        reserve = embedding.reserve(texts[end:], event.corpus, ledger.budget_left(event.run_id))
        return Done((Next(partly, reserve=reserve),), spend=embedded.spend)
    dimension = embedded.vectors.shape[1]
    before = [vectors_from_bytes(blobs.get(one), dimension) for one in begun.vectors_blobs]
    vectors = np.concatenate([*before, embedded.vectors])
    marked = mark_topic_changes(batch, vectors, event.corpus, embedded.fingerprint, readers, embedding)
    body = ChunksEmbedded(
        chunks_blob=begun.chunks_blob if marked is batch else blobs.put(marked.model_dump_json().encode()),
        vectors_blob=blobs.put(vectors_to_bytes(vectors)),
        model_fingerprint=embedded.fingerprint,
        dimension=dimension,
        chunk_count=len(texts),
        cache_hits=cache_hits,
        cost_usd=cost_usd,
    )
    return Done((Next(body),), spend=embedded.spend)


def _end_of_portion(batch: ChunkBatch, start: int, most: Portion) -> int:
    """How many chunks of the batch have a vector once the portion from `start` on is embedded."""
    sizes = [Portion(1, chunk.token_estimate) for document in batch.documents for chunk in document.chunks]
    return start + end_of_portion(sizes[start:], most)
