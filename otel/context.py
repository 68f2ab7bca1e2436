"""Trace context across hops: from a ledger row into a span, and from a span into the next row.

The only vocabulary between processes is the W3C `traceparent` text. `span` continues one, names the run
and the event on the span and in every log line written inside it, and records errors. Until
`otel.start.start` has been called spans cost nothing and go nowhere, but ids still pass through.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Literal

from opentelemetry import context as current_context
from opentelemetry import trace
from opentelemetry.trace import Link, NoOpTracerProvider, Span, SpanKind, Status, StatusCode, TracerProvider
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.types import AttributeValue
from structlog.contextvars import bound_contextvars

from sluice.otel.logs import redact, redact_text
from sluice.otel.spans import EVENT_ID, RUN_ID

RUN_TRACEPARENT = "run-traceparent"
"""Key of an event's baggage: the span that began its run, to which a hop in another trace links, as a replay is."""

Kind = Literal["internal", "server", "client", "producer", "consumer"]
_PROPAGATOR = TraceContextTextMapPropagator()
_RUN_KEY = current_context.create_key("sluice-run-id")
_provider: TracerProvider = NoOpTracerProvider()


def use_provider(provider: TracerProvider | None) -> None:
    """Make `provider` the one with which `span` records; None for none. Only `otel.start` calls it."""
    global _provider
    _provider = provider or NoOpTracerProvider()


@contextmanager
def span(
    name: str,
    *,
    traceparent: str | None = None,
    run_id: str | None = None,
    event_id: str | None = None,
    kind: Kind = "internal",
    attributes: Mapping[str, AttributeValue | None] | None = None,
    links: Sequence[str | None] = (),
) -> Iterator[Span]:
    """Yield a span around the block, current inside it.

    With a `traceparent` it continues that trace (a malformed one begins a new trace); without one it is
    a child of the current span, or begins a trace. `run_id` is inherited by spans within. `links` are the
    traceparents of related spans in other traces; those in the span's own are left out. An exception that leaves the
    block is recorded and marks the span failed. Attributes that are None are left out, secrets are masked.
    """
    parent = _context_of(traceparent) if traceparent else current_context.get_current()
    own_trace = trace.get_current_span(parent).get_span_context().trace_id
    run_id = run_id or current_run()
    facts = redact({key: value for key, value in (attributes or {}).items() if value is not None})
    facts |= {key: value for key, value in ((RUN_ID, run_id), (EVENT_ID, event_id)) if value}
    started = _provider.get_tracer("sluice").start_span(
        name,
        parent,
        SpanKind[kind.upper()],
        facts,
        [link for link in map(_link, links) if link and link.context.trace_id != own_trace],
    )
    token = current_context.attach(trace.set_span_in_context(started, current_context.set_value(_RUN_KEY, run_id)))
    try:
        with bound_contextvars(**_log_fields(started, run_id, event_id)):
            yield started
    except BaseException as error:
        _record(started, error)
        raise
    finally:
        current_context.detach(token)
        started.end()


def messaging(operation: Literal["send", "process"], stage: str | None) -> dict[str, AttributeValue | None]:
    """Return the attributes that OpenTelemetry's conventions (messaging) ask of a span about messages."""
    return {
        "messaging.system": "sluice",
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
        "messaging.destination.name": stage,
    }


def current_run() -> str | None:
    """Return the id of the run that the current span belongs to; None outside any run."""
    run_id = current_context.get_value(_RUN_KEY)
    return str(run_id) if run_id else None


def mark_failed(failed: Span, why: str) -> None:
    """Mark the span's work as failed although no exception left it (a retry, a dead letter)."""
    failed.set_status(Status(StatusCode.ERROR, redact_text(why)))


def current_traceparent() -> str | None:
    """Return the W3C traceparent of the current span, for a ledger row or a request; None outside any span."""
    carrier: dict[str, str] = {}
    _PROPAGATOR.inject(carrier)
    return carrier.get("traceparent")


def _context_of(traceparent: str) -> current_context.Context:
    return _PROPAGATOR.extract({"traceparent": traceparent}, current_context.Context())


def _link(traceparent: str | None) -> Link | None:
    context = trace.get_current_span(_context_of(traceparent)).get_span_context() if traceparent else None
    return Link(context) if context and context.is_valid else None


def _log_fields(started: Span, run_id: str | None, event_id: str | None) -> dict[str, str]:
    context = started.get_span_context()
    fields = {"run_id": run_id, "event_id": event_id}
    if context.is_valid:
        fields |= {"trace_id": f"{context.trace_id:032x}", "span_id": f"{context.span_id:016x}"}
    return {key: value for key, value in fields.items() if value}


def _record(failed: Span, error: BaseException) -> None:
    """Record the exception as the OpenTelemetry conventions name it, with its secrets masked."""
    kind = f"{type(error).__module__}.{type(error).__qualname__}".removeprefix("builtins.")
    failed.add_event(
        "exception",
        {
            "exception.type": kind,
            "exception.message": redact_text(str(error)),
            "exception.stacktrace": redact_text("".join(traceback.format_exception(error))),
        },
    )
    mark_failed(failed, f"{type(error).__name__}: {error}")
