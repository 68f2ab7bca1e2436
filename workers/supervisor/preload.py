"""Imports, once, what the processes of an instance share, before they are forked.

Only what opens no file, connects to nothing and starts no thread may be imported here. ONNX Runtime keeps to that once
its telemetry is off.
"""

from __future__ import annotations

import gc
import importlib
from collections.abc import Iterator

from sluice.ingest.embed.tokens import shared_tokenizer
from sluice.otel.environment import disable_library_telemetry
from sluice.otel.start import detected_resource
from sluice.workers.processes.procfs import limit_heaps, return_free_memory
from sluice.workers.settings import Settings

SHARED = (
    "sluice.workers.processes.worker",
    "sluice.workers.processes.reconciler",
    "celery.app.amqp",
    "celery.app.control",
    "celery.app.events",
    "celery.app.log",
    "celery.app.routes",
    "celery.apps.worker",
    "celery.backends.base",
    "celery.concurrency.prefork",
    "celery.concurrency.solo",
    "celery.concurrency.thread",
    "celery.events.receiver",
    "celery.worker.autoscale",
    "celery.worker.components",
    "celery.worker.consumer",
    "celery.worker.consumer.delayed_delivery",
    "celery.worker.strategy",
    "sluice.index.local.reader",
    "sluice.index.local.writer",
    "sluice.ingest.embed.embed",
    "kombu.pidbox",
    "sluice.memory.memory",
    "opentelemetry.sdk.trace.export",
    "sluice.otel.exporter",
    "trafilatura",
    "uvicorn.logging",
    "uvicorn.lifespan.on",
    "uvicorn.protocols.http.httptools_impl",
)
"""Modules of more than one process, and those that take long."""


def preload(settings: Settings) -> None:
    """Import and load what is shared, and tell the collector that it stays: it would write to every page of it."""
    limit_heaps()
    disable_library_telemetry()
    gc.disable()
    for module in (*SHARED, *_wanted(settings)):
        importlib.import_module(module)
    shared_tokenizer()
    detected_resource()
    gc.enable()
    gc.collect()
    return_free_memory()
    gc.freeze()


def _wanted(settings: Settings) -> Iterator[str]:
    """Modules that are needed by some settings alone. What is left out here is imported where it is needed."""
    if settings.crawl.enabled:
        yield "sluice.workers.wiring.crawler"
    if settings.search.enabled:
        yield "sluice.ingest.search.search"
    if not settings.embed.uses_endpoint:
        yield "onnxruntime"
