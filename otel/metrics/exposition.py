"""The metrics as others read them: of every process of the instance, in Prometheus' text format."""

from __future__ import annotations

import os
from collections.abc import Callable

from prometheus_client import CollectorRegistry, generate_latest, start_http_server
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from otel.metrics.registry import REGISTRY

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def render_metrics() -> bytes:
    """The figures of every process of this instance, in Prometheus' text format (`CONTENT_TYPE`)."""
    return generate_latest(_readable())


def serve_metrics(port: int, host: str = "127.0.0.1") -> Callable[[], None]:
    """Serve `/metrics` on `host:port` from a daemon thread; returns what stops it.

    Raises:
        OSError: the port cannot be bound.
    """
    server, thread = start_http_server(port, addr=host, registry=_readable())

    def stop() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return stop


def forget_process(process_id: int) -> None:
    """Drop the gauges of a process that has ended; its counters stay in the sums."""
    if _shared_directory():
        mark_process_dead(process_id)  # type: ignore[no-untyped-call]


def metric_names() -> frozenset[str]:
    """Every name that a query may use: counters end in _total, histograms give _bucket, _sum and _count."""
    suffixes = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}
    return frozenset(
        metric.name + suffix for metric in REGISTRY.collect() for suffix in suffixes.get(metric.type, ("",))
    )


def _readable() -> CollectorRegistry:
    if not _shared_directory():
        return REGISTRY
    merged = CollectorRegistry()
    MultiProcessCollector(merged)  # type: ignore[no-untyped-call]
    return merged


def _shared_directory() -> str | None:
    return os.environ.get("PROMETHEUS_MULTIPROC_DIR")
