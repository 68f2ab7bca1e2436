"""Telemetry of one process: `start` once when it begins, `shutdown` when it ends.

A forked child calls `start` itself (Celery: in `worker_process_init`), else its spans carry its
parent's name, and `shutdown` before it exits (in `worker_process_shutdown`), else its last spans are
lost. Spans always go to the instance's local store; with an OTLP endpoint also there. Both happen in
background threads with short time limits: a collector that is down costs spans, never work.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from sluice.otel import context, logs
from sluice.otel.settings import TelemetrySettings
from sluice.otel.spans import SpanStore

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

STORE_DELAY_MS = 200
"""Longest wait of a finished span for its batch: short, so that `sluice trace` shows a run that just ended."""
OTLP_DELAY_MS = 1_000
OTLP_TIMEOUT_SECONDS = 3.0
"""One attempt to deliver a batch to the collector, its retries included."""
RETENTION_HOURS = 72.0
"""Retention of spans in the local store: a long weekend. For months of them, send them to a collector."""
FLUSH_TIMEOUT_MS = 3_000
"""Longest wait of `flush` and `shutdown` for the last spans."""
QUEUE_SPANS = 8_192
"""Spans waiting for export; beyond it the oldest are dropped. About 8 MB."""


_providers: dict[int, TracerProvider] = {}
"""The provider of each process, by its id: a forked child inherits its parent's entry, and makes its own."""


def start(service: str, settings: TelemetrySettings, *, data_dir: Path, instance: str) -> None:
    """Begin logs and traces of this process as `service`. A second call in the same process does nothing.

    It survives faults that can be repaired later: a store that cannot be written is counted, a collector that does not
    answer is logged.
    """
    if os.getpid() in _providers:
        return
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.sdk.trace.sampling import ALWAYS_ON

    from sluice.otel.exporter import StoreExporter

    logs.configure(service, settings)
    # ALWAYS_ON: the local store must have the run even when the calling agent does not sample its own trace.
    provider = TracerProvider(sampler=ALWAYS_ON, resource=_resource(service, instance))
    store = StoreExporter(SpanStore.in_dir(data_dir), RETENTION_HOURS)
    provider.add_span_processor(
        BatchSpanProcessor(store, max_queue_size=QUEUE_SPANS, schedule_delay_millis=STORE_DELAY_MS)
    )
    if settings.otlp_endpoint:
        provider.add_span_processor(_otlp_processor(settings.otlp_endpoint))
    context.use_provider(provider)
    _providers[os.getpid()] = provider


def flush() -> None:
    """Wait, briefly, until the spans ended so far are in the store and at the collector."""
    if provider := _providers.get(os.getpid()):
        provider.force_flush(FLUSH_TIMEOUT_MS)


def shutdown() -> None:
    """Flush and stop this process's telemetry; harmless when it was never started."""
    if provider := _providers.pop(os.getpid(), None):
        context.use_provider(None)
        provider.force_flush(FLUSH_TIMEOUT_MS)
        provider.shutdown()


@cache
def detected_resource() -> Resource:
    """Return the environment's attributes of this installation (OTEL_RESOURCE_ATTRIBUTES), the same after a fork."""
    from opentelemetry.sdk.resources import Resource

    return Resource.create()


def _resource(service: str, instance: str) -> Resource:
    from opentelemetry.sdk.resources import Resource

    own = Resource(
        {
            "service.name": service,
            "service.namespace": instance,
            "service.instance.id": f"{os.uname().nodename}:{os.getpid()}",
            "process.pid": os.getpid(),
        }
    )
    return detected_resource().merge(own)


def _otlp_processor(endpoint: str) -> BatchSpanProcessor:
    # Imported here: a fifth of this package's import time, and most installations have no collector.
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    exporter = OTLPSpanExporter(endpoint=f"{endpoint.rstrip('/')}/v1/traces", timeout=OTLP_TIMEOUT_SECONDS)
    return BatchSpanProcessor(exporter, max_queue_size=QUEUE_SPANS, schedule_delay_millis=OTLP_DELAY_MS)
