"""Every metric of Sluice, declared once: its name with its unit, its labels and one sentence.

Several processes make one instance. When `PROMETHEUS_MULTIPROC_DIR` names a directory before this module
is imported (see `otel.metrics_dir`), each process keeps its figures in files there and `render_metrics`
adds them all up; without it the figures are this process's own. Label values come from small fixed sets:
stages, kinds, plans, outcomes, routes; never a URL, a query or an id. What went well has the outcome `ok`
(pages, search calls) or `Done` (events): the dashboards and alerts count everything else as failed, except pages that
are `unchanged`, or `refused` by a rule.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest, start_http_server
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from otel.metrics_files import use_allocated_files

use_allocated_files()

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

REGISTRY = CollectorRegistry()

_MICROSECONDS_TO_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)
_MILLISECONDS_TO_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_MILLISECONDS_TO_MINUTES = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0)
_MINUTES_TO_YEARS = (60.0, 600.0, 3_600.0, 21_600.0, 86_400.0, 604_800.0, 2_592_000.0, 7_776_000.0, 31_536_000.0)
_SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


def _counter(name: str, sentence: str, *labels: str) -> Counter:
    return Counter(name, sentence, labels, registry=REGISTRY)


def _gauge(name: str, sentence: str, *labels: str) -> Gauge:
    """A gauge that one process measures for all: the newest value of a living process counts."""
    return Gauge(name, sentence, labels, registry=REGISTRY, multiprocess_mode="livemostrecent")


def _histogram(name: str, sentence: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
    return Histogram(name, sentence, labels, registry=REGISTRY, buckets=buckets)


# -- gate ---------------------------------------------------------------------------------------------
GATE_DECISIONS = _counter(
    "sluice_gate_decisions_total",
    "Decisions by the plan carried out, the profile, and the plan that the score alone chose.",
    "plan",
    "profile",
    "scored_plan",
)
GATE_VETOES = _counter(
    "sluice_gate_vetoes_total", "Times that a rule or ceiling lowered a plan, by the veto's name.", "name"
)
RUN_SECONDS = _histogram(
    "sluice_run_seconds", "From a run's acceptance to its end, by how it ended.", _MILLISECONDS_TO_MINUTES, "status"
)
FEEDBACK = _counter("sluice_feedback_total", "Feedback on answers, by outcome.", "outcome")
ANSWER_PRECISION = _histogram(
    "sluice_answer_precision", "Share of an answer's chunks that the agent says it used, from 0 to 1.", _SHARES
)

# -- queries ------------------------------------------------------------------------------------------
FUSION_SECONDS = _histogram(
    "sluice_retrieval_fusion_seconds",
    "One search of a generation: both arms, their fusion, filters and budget; without embedding the query.",
    _MICROSECONDS_TO_SECONDS,
)
QUERY_SECONDS = _histogram(
    "sluice_query_seconds", "One query in a query worker, by strategy.", _MILLISECONDS_TO_SECONDS, "strategy"
)
RETRIEVAL_GATES = _counter(
    "sluice_retrieval_gates_total",
    "Retrievals by the outcome of each gate over them: source trust, poisoning.",
    "gate",
    "outcome",
)
SOURCE_TRUST = _histogram("sluice_source_trust", "Mean trust of what a retrieval serves, from 0 to 1.", _SHARES)
GUARD_DROPPED = _counter("sluice_guard_dropped_total", "Passages that were found, and not served as they are blocked.")
REPLY_SECONDS = _histogram(
    "sluice_reply_seconds", "From a direct query's dispatch to its reply, queue included.", _MILLISECONDS_TO_SECONDS
)
DOCUMENT_AGE_SECONDS = _histogram(
    "sluice_document_age_seconds", "Age of the documents cited in answers.", _MINUTES_TO_YEARS
)
STALE_CITATIONS = _counter(
    "sluice_stale_citations_total",
    "Citations of answers whose passages were found changed or gone since, by which of the two.",
    "what",
)
CITED_AGE_SECONDS = _histogram(
    "sluice_cited_document_age_seconds",
    "Time since the documents that answers cite were read or seen to be as they were, by the gate's profile.",
    _MINUTES_TO_YEARS,
    "profile",
)
CITED_AGE_TARGET_SECONDS = _gauge(
    "sluice_cited_document_age_target_seconds", "What the median of that age is to stay below, by profile.", "profile"
)
CORPUS_CHANGES_UNEXPLAINED = _counter(
    "sluice_corpus_changes_unexplained_total",
    "Times that a corpus was found to hold something else although nothing was written to its journal.",
    "corpus",
)
SNAPSHOT_FALLBACKS = _counter(
    "sluice_snapshot_fallbacks_total", "Times that a generation failed its verification and an older one was served."
)
SNAPSHOT_PUSHES = _counter(
    "sluice_snapshot_pushes_total",
    "Published snapshots on their way to the object store: ok or failed.",
    "outcome",
)
SNAPSHOT_PUSHED_BYTES = _counter("sluice_snapshot_pushed_bytes_total", "Bytes of snapshots sent to the object store.")
RERANKS = _counter(
    "sluice_reranks_total",
    "Searches whose best candidates were to be reranked, by how it went: ok, failed, left_alone or no_budget.",
    "outcome",
)

# -- search and crawl ---------------------------------------------------------------------------------
SEARCH_CALLS = _counter("sluice_search_calls_total", "Calls of search providers, by outcome.", "provider", "outcome")
SEARCH_COST_USD = _counter("sluice_search_cost_usd_total", "US dollars spent on search calls.", "provider")
CRAWL_PAGES = _counter(
    "sluice_crawl_pages_total",
    "Pages asked for, by outcome (ok, unchanged, refused by a rule or a budget, missed) and by whether the browser "
    "rendered them.",
    "outcome",
    "rendered",
)
BREAKERS_OPENED = _counter(
    "sluice_breakers_opened_total",
    "Times that a search provider, a host or the reranker failed so often that its circuit was opened.",
    "what",
)
EGRESS_REFUSALS = _counter(
    "sluice_egress_refusals_total",
    "What pages wanted to reach and the egress proxy refused, by what it was for and by rule.",
    "purpose",
    "rule",
)
CRAWL_REFUSALS = _counter(
    "sluice_crawl_refusals_total",
    "Pages not fetched or not kept because a rule or a budget forbids it, by the name of the rule.",
    "rule",
)

# -- ingestion and index ------------------------------------------------------------------------------
EMBEDDING_CACHE = _counter(
    "sluice_embedding_cache_total", "Texts looked up in the embedding cache, by result (hit or miss).", "result"
)
EMBEDDING_SECONDS = _histogram(
    "sluice_embedding_seconds",
    "Embedding the texts of one message that the cache did not have.",
    _MILLISECONDS_TO_MINUTES,
)
EMBEDDED_TOKENS = _counter("sluice_embedded_tokens_total", "Tokens sent through an embedding model.")
INDEX_PUBLISH_SECONDS = _histogram(
    "sluice_index_publish_seconds",
    "Publishing one generation, from its first write to the swapped pointer.",
    _MILLISECONDS_TO_MINUTES,
)
INDEX_GENERATION_CHUNKS = _gauge("sluice_index_generation_chunks", "Chunks in the current generation.", "corpus")

# -- trust --------------------------------------------------------------------------------------------
PRIVATE_FOUND = _counter(
    "sluice_private_found_total", "Private data and secrets found in chunks that were ingested, by kind.", "kind"
)
MASKED = _counter(
    "sluice_masked_total", "Private data and secrets masked in what queries gave, by kind; never the value.", "kind"
)
QUARANTINED = _counter(
    "sluice_quarantined_chunks_total", "Chunks that the guard blocked when they were ingested, by rule.", "rule"
)
QUARANTINE_HELD = _gauge("sluice_quarantine_held", "Chunks in quarantine that wait for an operator.")

# -- delivery -----------------------------------------------------------------------------------------
STAGE_READY = _gauge("sluice_stage_ready", "Events that wait for a worker.", "stage")
STAGE_IN_FLIGHT = _gauge("sluice_stage_in_flight", "Events that a worker has claimed.", "stage")
STAGE_OLDEST_READY_SECONDS = _gauge(
    "sluice_stage_oldest_ready_seconds", "Age of the event that has waited longest; 0 when none waits.", "stage"
)
STAGE_PAUSES = _counter("sluice_stage_pauses_total", "Times that a stage's circuit breaker opened.", "stage")
EVENTS_HANDLED = _counter(
    "sluice_events_handled_total", "Events handled, by how the handling ended.", "stage", "kind", "outcome"
)
EVENT_SECONDS = _histogram(
    "sluice_event_seconds", "Handling one event, from claim to settled.", _MILLISECONDS_TO_MINUTES, "stage", "kind"
)
RECONCILER_REPUBLISHED = _counter(
    "sluice_reconciler_republished_total", "Events that the reconciler published again, by cause.", "cause"
)
DEAD_LETTERS = _counter("sluice_dead_letters_total", "Events parked for an operator.", "stage", "reason")
LEDGER_COMMIT_SECONDS = _histogram(
    "sluice_ledger_commit_seconds", "One durable commit of the ledger.", _MICROSECONDS_TO_SECONDS
)

# -- edges and telemetry itself -----------------------------------------------------------------------
HTTP_REQUESTS = _counter(
    "sluice_http_requests_total",
    "HTTP requests, by route template, method and status code.",
    "route",
    "method",
    "status",
)
HTTP_REQUEST_SECONDS = _histogram(
    "sluice_http_request_seconds",
    "Serving one HTTP request; for a stream, until its first byte.",
    _MILLISECONDS_TO_MINUTES,
    "route",
    "method",
    "status",
)
SPAN_STORE_FAILURES = _counter(
    "sluice_span_store_failures_total", "Batches of spans that the local store could not take."
)


def render_metrics() -> bytes:
    """The figures of every process of this instance, in Prometheus' text format (`CONTENT_TYPE`)."""
    return generate_latest(_readable())


def serve_metrics(port: int, host: str = "127.0.0.1") -> Callable[[], None]:
    """Serve `/metrics` on `host:port` from a daemon thread; returns what stops it.

    Raises:
        OSError: the port cannot be bound.
    """
    server, thread = start_http_server(port, addr=host, registry=_readable())

    def stop() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return stop


def forget_process(process_id: int) -> None:
    """Drop the gauges of a process that has ended; its counters stay in the sums."""
    if _shared_directory():
        mark_process_dead(process_id)  # type: ignore[no-untyped-call]


def metric_names() -> frozenset[str]:
    """Every name that a query may use: counters end in _total, histograms give _bucket, _sum and _count."""
    suffixes = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}
    return frozenset(
        metric.name + suffix for metric in REGISTRY.collect() for suffix in suffixes.get(metric.type, ("",))
    )


def _readable() -> CollectorRegistry:
    if not _shared_directory():
        return REGISTRY
    merged = CollectorRegistry()
    MultiProcessCollector(merged)  # type: ignore[no-untyped-call]
    return merged


def _shared_directory() -> str | None:
    return os.environ.get("PROMETHEUS_MULTIPROC_DIR")
