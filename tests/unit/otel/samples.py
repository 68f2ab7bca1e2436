"""A span to test with."""

from __future__ import annotations

from sluice.otel.spans import SpanLink, StoredSpan

SPAN = StoredSpan(
    trace_id="a" * 32,
    span_id="1" * 16,
    parent_id=None,
    name="gate",
    service="worker.gate",
    process_id=7,
    kind="consumer",
    status="ok",
    status_message="",
    started_ns=1_000,
    ended_ns=2_000,
    run_id="run_1",
    attributes={"plan": "search", "score": 0.5},
    events=({"name": "exception", "at_ns": 5, "attributes": {}},),
    links=(SpanLink("b" * 32, "2" * 16),),
)
