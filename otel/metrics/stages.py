"""Metrics of the machinery: stages, ledger, HTTP, ingestion, searches and crawls, memory, the graph."""

from __future__ import annotations

from sluice.otel.metrics.registry import (
    MICROSECONDS_TO_SECONDS,
    MILLISECONDS_TO_MINUTES,
    MILLISECONDS_TO_SECONDS,
    counter,
    gauge,
    histogram,
)

STAGE_READY = gauge("sluice_stage_ready", "Events that wait for a worker.", "stage")
STAGE_IN_FLIGHT = gauge("sluice_stage_in_flight", "Events that a worker has claimed.", "stage")
STAGE_OLDEST_READY_SECONDS = gauge(
    "sluice_stage_oldest_ready_seconds", "Age of the event that has waited longest; 0 when none waits.", "stage"
)
STAGE_PAUSES = counter("sluice_stage_pauses_total", "Times that a stage's circuit breaker opened.", "stage")
EVENTS_HANDLED = counter(
    "sluice_events_handled_total", "Events handled, by how the handling ended.", "stage", "kind", "outcome"
)
EVENT_SECONDS = histogram(
    "sluice_event_seconds", "Handling one event, from claim to settled.", MILLISECONDS_TO_MINUTES, "stage", "kind"
)
RECONCILER_REPUBLISHED = counter(
    "sluice_reconciler_republished_total", "Events that the reconciler published again, by cause.", "cause"
)
DEAD_LETTERS = counter("sluice_dead_letters_total", "Events parked for an operator.", "stage", "reason")
LEDGER_COMMIT_SECONDS = histogram(
    "sluice_ledger_commit_seconds", "One durable commit of the ledger.", MICROSECONDS_TO_SECONDS
)


HTTP_REQUESTS = counter(
    "sluice_http_requests_total",
    "HTTP requests, by route template, method and status code.",
    "route",
    "method",
    "status",
)
HTTP_REQUEST_SECONDS = histogram(
    "sluice_http_request_seconds",
    "Serving one HTTP request; for a stream, until its first byte.",
    MILLISECONDS_TO_MINUTES,
    "route",
    "method",
    "status",
)
SPAN_STORE_FAILURES = counter(
    "sluice_span_store_failures_total", "Batches of spans that the local store could not take."
)


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


SEARCH_CALLS = counter("sluice_search_calls_total", "Calls of search providers, by outcome.", "provider", "outcome")
SEARCH_COST_USD = counter("sluice_search_cost_usd_total", "US dollars spent on search calls.", "provider")
CRAWL_PAGES = counter(
    "sluice_crawl_pages_total",
    "Pages asked for, by outcome (ok, unchanged, refused by a rule or a budget, missed) and by whether the browser "
    "rendered them.",
    "outcome",
    "rendered",
)
BREAKERS_OPENED = counter(
    "sluice_breakers_opened_total",
    "Times that a search provider, a host or the reranker failed so often that its circuit was opened.",
    "what",
)
EGRESS_REFUSALS = counter(
    "sluice_egress_refusals_total",
    "What pages wanted to reach and the egress proxy refused, by what it was for and by rule.",
    "purpose",
    "rule",
)
CRAWL_REFUSALS = counter(
    "sluice_crawl_refusals_total",
    "Pages not fetched or not kept because a rule or a budget forbids it, by the name of the rule.",
    "rule",
)


MEMORY_ITERATIONS = counter(
    "sluice_memory_iterations_total",
    "Iterations that were recorded, by outcome: Success, Failure, Partial, Timeout or RateLimited.",
    "outcome",
)
MEMORY_LEARNINGS = counter(
    "sluice_memory_learnings_total",
    "Learnings that were handed in, by what became of them: unique, duplicate, conflict, echo or refused.",
    "verdict",
)
MEMORY_RECALL_SECONDS = histogram(
    "sluice_memory_recall_seconds",
    "Time of a recall, by what was searched: hybrid, bm25, or the journal where the index is away.",
    MILLISECONDS_TO_SECONDS,
    "searched",
)
MEMORY_BEHIND = gauge(
    "sluice_memory_behind",
    "Entries of all journals of memory that the index does not hold yet.",
)


GRAPH_DOCUMENTS = counter(
    "sluice_graph_documents_total",
    "Documents that the stage graph looked at, by outcome: read, unchanged, removed or failed.",
    "outcome",
)
GRAPH_EDGES = gauge("sluice_graph_edges", "Edges of all graphs, as their documents state them.")
GRAPH_BEHIND = gauge(
    "sluice_graph_behind",
    "What all graphs lack: documents that are indexed and not read, changes that are not in the published generation, "
    "not in the file of the Cypher engine, or not on the graph server.",
    "what",
)
GRAPH_GENERATIONS = counter(
    "sluice_graph_generations_total",
    "Generations, by outcome: published, failed (the older one stays), or damaged (found so and thrown away).",
    "outcome",
)
GRAPH_PUBLISH_SECONDS = histogram(
    "sluice_graph_publish_seconds",
    "Time of making files of the ledger's rows, by which: generation or cypher.",
    MILLISECONDS_TO_MINUTES,
    "file",
)
GRAPH_WALK_SECONDS = histogram(
    "sluice_graph_walk_seconds",
    "Time of one walk of a search, from what it found to candidates.",
    MICROSECONDS_TO_SECONDS,
)
GRAPH_ABSTAINED = counter(
    "sluice_graph_abstained_total",
    "Searches to which the graph gave nothing, by why: absent (no generation), damaged, unconnected or failed.",
    "reason",
)
GRAPH_QUERY_SECONDS = histogram(
    "sluice_graph_query_seconds",
    "Time of a question to the graph, by kind: cypher, server, nearest, neighbours or linked.",
    MILLISECONDS_TO_SECONDS,
    "kind",
)
