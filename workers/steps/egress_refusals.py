"""What the egress proxy refused a crawl or a search: events of its run, and marks on the span of its hop.

The proxy's own log line, written at the first refusal of each kind, has the run id as well.
"""

from __future__ import annotations

from collections.abc import Iterator

from opentelemetry import trace

from sluice.contracts.ingest import EgressRefused
from sluice.contracts.outcome import Next
from sluice.ingest.egress.crawl_account import EgressReport

MARK = "egress refused"
"""The name of the span's event."""


def refused(report: EgressReport | None) -> tuple[Next, ...]:
    """An event for each target and rule."""
    return tuple(map(Next, _bodies(report)))


def mark_refusals(report: EgressReport | None) -> None:
    """Mark each on the current span: also that of an attempt that fails, and therefore emits nothing."""
    for body in _bodies(report):
        trace.get_current_span().add_event(MARK, body.model_dump())


def _bodies(report: EgressReport | None) -> Iterator[EgressRefused]:
    for refusal, count in report.refusals if report else ():
        yield EgressRefused(
            purpose=refusal.purpose,
            host=refusal.host,
            port=refusal.port,
            rule=refusal.rule,
            detail=refusal.detail,
            count=count,
        )
