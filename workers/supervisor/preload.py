"""Imports, once, what the processes of an instance share, before they are forked.

Only what opens no file, connects to nothing and starts no thread may be imported here. ONNX Runtime does all of that
when it is imported, so it is left to the processes that embed.
"""

from __future__ import annotations

import gc
import importlib

from ingest.embed.tokens import shared_tokenizer
from workers.processes.heap import limit_heaps, return_free_memory

SHARED = (
    "workers.processes.worker",
    "workers.processes.reconciler_process",
    "workers.wiring.crawler",
    "workers.wiring.limits",
    "workers.wiring.searcher",
    "celery.app.control",
    "celery.app.events",
    "celery.app.log",
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
    "index.local.reader",
    "index.local.retrieval_port",
    "index.local.writer",
    "ingest.embed.embed",
    "kombu.pidbox",
    "memory.memory",
    "opentelemetry.sdk.trace.export",
    "otel.exporter",
    "trafilatura",
    "uvicorn.logging",
    "uvicorn.lifespan.on",
    "uvicorn.protocols.http.httptools_impl",
    "workers.broker.cancellation",
)
"""Modules of more than one process, and those that take long."""


def preload() -> None:
    """Import and load what is shared, and tell the collector that it stays: it would write to every page of it."""
    limit_heaps()
    gc.disable()
    for module in SHARED:
        importlib.import_module(module)
    shared_tokenizer()
    gc.enable()
    gc.collect()
    return_free_memory()
    gc.freeze()
