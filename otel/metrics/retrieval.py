"""Metrics of queries, of what they cite, and of the snapshots that they read."""

from __future__ import annotations

from sluice.otel.metrics.registry import (
    MICROSECONDS_TO_SECONDS,
    MILLISECONDS_TO_SECONDS,
    MINUTES_TO_YEARS,
    SHARES,
    counter,
    gauge,
    histogram,
)

FUSION_SECONDS = histogram(
    "sluice_retrieval_fusion_latency_seconds",
    "One search of a generation: both arms, their fusion, filters and budget; without embedding the query.",
    MICROSECONDS_TO_SECONDS,
)
QUERY_SECONDS = histogram(
    "sluice_query_seconds", "One query in a query worker, by strategy.", MILLISECONDS_TO_SECONDS, "strategy"
)
RETRIEVAL_GATES = counter(
    "sluice_retrieval_gates_total",
    "Retrievals by the outcome of each gate over them: source trust, poisoning.",
    "gate",
    "outcome",
)
SOURCE_TRUST = histogram("sluice_source_trust", "Mean trust of what a retrieval serves, from 0 to 1.", SHARES)
GUARD_DROPPED = counter("sluice_guard_dropped_total", "Passages that were found, and not served as they are blocked.")
REPLY_SECONDS = histogram(
    "sluice_reply_seconds", "From a direct query's dispatch to its reply, queue included.", MILLISECONDS_TO_SECONDS
)
DOCUMENT_AGE_SECONDS = histogram(
    "sluice_document_age_seconds",
    "Age of the documents cited in answers, by the gate's profile.",
    MINUTES_TO_YEARS,
    "profile",
)
STALE_CITATIONS = counter(
    "sluice_stale_citations_total",
    "Citations of answers whose passages were found changed or gone since, by which of the two.",
    "what",
)
CITED_AGE_SECONDS = histogram(
    "sluice_cited_document_age_seconds",
    "Time since the documents that answers cite were read or seen to be as they were, by the gate's profile.",
    MINUTES_TO_YEARS,
    "profile",
)
CITED_AGE_TARGET_SECONDS = gauge(
    "sluice_cited_document_age_target_seconds", "What the median of that age is to stay below, by profile.", "profile"
)
CORPUS_CHANGES_UNEXPLAINED = counter(
    "sluice_corpus_changes_unexplained_total",
    "Times that a corpus was found to hold something else although nothing was written to its journal.",
    "corpus",
)
SNAPSHOT_FALLBACKS = counter(
    "sluice_snapshot_fallbacks_total", "Times that a generation failed its verification and an older one was served."
)
SNAPSHOT_PUSHES = counter(
    "sluice_snapshot_pushes_total",
    "Published snapshots on their way to the object store: ok or failed.",
    "outcome",
)
SNAPSHOT_PUSHED_BYTES = counter("sluice_snapshot_pushed_bytes_total", "Bytes of snapshots sent to the object store.")
RERANKS = counter(
    "sluice_reranks_total",
    "Searches whose best candidates were to be reranked, by how it went: ok, failed, left_alone or no_budget.",
    "outcome",
)
