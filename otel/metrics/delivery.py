"""Metrics of stages, of the ledger, of the HTTP interface and of telemetry itself."""

from __future__ import annotations

from sluice.otel.metrics.registry import MICROSECONDS_TO_SECONDS, MILLISECONDS_TO_MINUTES, counter, gauge, histogram

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
