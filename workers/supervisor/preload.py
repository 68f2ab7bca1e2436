"""Imports, once, what the processes of an instance share, before they are forked.

Only what opens no file, connects to nothing and starts no thread may be imported here. ONNX Runtime does all of that
when it is imported, so it is left to the processes that embed.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import sys

_M_ARENA_MAX = -8
MOST_ARENAS = 2
"""Heaps of one process (mallopt(3)): glibc gives every thread one of its own, and what a thread freed stays in it."""

SHARED = (
    "workers.processes.worker",
    "workers.processes.reconciler_process",
    "workers.wiring.crawler",
    "workers.wiring.limits",
    "workers.wiring.searcher",
    "celery.concurrency.prefork",
    "celery.concurrency.solo",
    "celery.concurrency.thread",
    "celery.worker.consumer",
    "index.local.reader",
    "index.local.retrieval_port",
    "index.local.writer",
    "ingest.embed.embed",
    "trafilatura",
    "uvicorn.logging",
    "uvicorn.lifespan.on",
    "uvicorn.protocols.http.httptools_impl",
)
"""Modules of more than one process, and those that take long."""


def preload() -> None:
    """Import what is shared, and tell the collector that it stays: it would write to every page of it."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, MOST_ARENAS)
    gc.disable()
    for module in SHARED:
        importlib.import_module(module)
    gc.enable()
    gc.collect()
    gc.freeze()
