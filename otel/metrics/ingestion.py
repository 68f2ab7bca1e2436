"""Metrics of embedding and of publishing the index."""

from __future__ import annotations

from sluice.otel.metrics.registry import MILLISECONDS_TO_MINUTES, counter, gauge, histogram

EMBEDDING_CACHE = counter(
    "sluice_embedding_cache_total", "Texts looked up in the embedding cache, by result (hit or miss).", "result"
)
EMBEDDING_SECONDS = histogram(
    "sluice_embedding_seconds",
    "Embedding the texts of one message that the cache did not have.",
    MILLISECONDS_TO_MINUTES,
)
INDEX_PUBLISH_SECONDS = histogram(
    "sluice_index_publish_seconds",
    "Publishing one generation, from its first write to the swapped pointer.",
    MILLISECONDS_TO_MINUTES,
)
INDEX_GENERATION_CHUNKS = gauge("sluice_index_generation_chunks", "Chunks in the current generation.", "corpus")
CRAWL_INGEST_SECONDS = histogram(
    "sluice_crawl_ingest_latency_seconds",
    "From the fetch of a crawled page until a published generation holds its chunks, so that queries find them.",
    MILLISECONDS_TO_MINUTES,
)
