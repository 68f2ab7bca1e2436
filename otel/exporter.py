"""Exports finished spans from the SDK to the local store.

Called in batches from a thread of its own, so that no work waits for it. A batch that cannot be written
is dropped and counted in `sluice_span_store_failures_total`; nothing else happens.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Sequence
from typing import Literal, cast

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from sluice.otel import metrics
from sluice.otel.spans import RUN_ID, SpanLink, SpanStore, StoredSpan

PRUNE_EVERY_SECONDS = 600.0
"""Seconds between removals of old spans by a process: rare beside the hours of their retention."""


class StoreExporter(SpanExporter):
    """Writes spans into a `SpanStore` and keeps it within its retention."""

    def __init__(self, store: SpanStore, retention_hours: float, now: Callable[[], float] = time.time) -> None:
        self._store = store
        self._retention_seconds = retention_hours * 3600
        self._now = now
        self._next_prune_at = 0.0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Store `spans`; on failure count it and return FAILURE, never raise."""
        try:
            self._store.write([stored(span) for span in spans])
            self._prune_now_and_then()
        except (sqlite3.Error, OSError):
            metrics.SPAN_STORE_FAILURES.inc()
            return SpanExportResult.FAILURE
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        """Close the store."""
        try:
            self._store.close()
        except sqlite3.Error:
            metrics.SPAN_STORE_FAILURES.inc()

    def _prune_now_and_then(self) -> None:
        now = self._now()
        if now >= self._next_prune_at:
            self._next_prune_at = now + PRUNE_EVERY_SECONDS
            self._store.prune(before_ns=int((now - self._retention_seconds) * 1e9))


def stored(span: ReadableSpan) -> StoredSpan:
    """Return the SDK's span as the store keeps it."""
    context, attributes, resource = span.context, dict(span.attributes or {}), span.resource.attributes
    run_id = attributes.get(RUN_ID)
    started_ns = span.start_time or 0
    return StoredSpan(
        trace_id=f"{context.trace_id:032x}" if context else "",
        span_id=f"{context.span_id:016x}" if context else "",
        parent_id=f"{span.parent.span_id:016x}" if span.parent else None,
        name=span.name,
        service=str(resource.get("service.name", "")),
        process_id=int(str(resource.get("process.pid", os.getpid()))),
        kind=span.kind.name.lower(),
        status=cast('Literal["unset", "ok", "error"]', span.status.status_code.name.lower()),
        status_message=span.status.description or "",
        started_ns=started_ns,
        ended_ns=span.end_time or started_ns,
        run_id=str(run_id) if run_id is not None else None,
        attributes=attributes,
        events=tuple(
            {"name": event.name, "at_ns": event.timestamp, "attributes": dict(event.attributes or {})}
            for event in span.events
        ),
        links=tuple(SpanLink(f"{link.context.trace_id:032x}", f"{link.context.span_id:016x}") for link in span.links),
    )
