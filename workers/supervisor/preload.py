"""Imports, once, the modules that the processes of an instance share, before they are forked.

Only import modules here that open no file, connect to nothing and start no thread. ONNX Runtime does none of that once
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
"""Modules that several processes use, and slow ones."""


def preload(settings: Settings) -> None:
    """Import and load shared modules, and freeze them for the garbage collector, which would write to every page."""
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
    """Yield modules that only some settings need. Modules left out here are imported where they are needed."""
    if settings.crawl.enabled:
        yield "sluice.workers.wiring.crawler"
    if settings.search.enabled:
        yield "sluice.ingest.search.search"
    if not settings.embed.uses_endpoint:
        yield "onnxruntime"
