"""Metrics of what agents remember."""

from __future__ import annotations

from sluice.otel.metrics.registry import MILLISECONDS_TO_SECONDS, counter, gauge, histogram

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
