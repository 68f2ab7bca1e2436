"""The metrics as others read them: of every process of the instance, in Prometheus' text format."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from prometheus_client import CollectorRegistry, Metric, generate_latest, start_http_server
from prometheus_client.exposition import choose_encoder
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from sluice.otel.metrics.exemplars import add_exemplars, exemplar_file, read_exemplars
from sluice.otel.metrics.registry import LABELS, REGISTRY
from sluice.otel.metrics.windows import WINDOWED, Windows

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_windows = Windows()


def render_metrics() -> bytes:
    """The figures of every process of this instance, in Prometheus' text format (`CONTENT_TYPE`)."""
    return generate_latest(_readable())


def negotiate_metrics(accept: str) -> tuple[bytes, str]:
    """The figures in the format that an Accept header wants, and its content type: OpenMetrics has the exemplars."""
    encode, content_type = choose_encoder(accept)
    return encode(_readable()), content_type


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
    if shared := _shared_directory():
        mark_process_dead(process_id)  # type: ignore[no-untyped-call]
        exemplar_file(Path(shared), process_id).unlink(missing_ok=True)


def metric_names() -> frozenset[str]:
    """Every name that a query may use: counters end in _total, histograms give _bucket, _sum and _count."""
    suffixes = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}
    declared = (metric.name + suffix for metric in REGISTRY.collect() for suffix in suffixes.get(metric.type, ("",)))
    return frozenset((*declared, *WINDOWED))


def label_names(name: str) -> tuple[str, ...]:
    """The labels of the samples of this name.

    Raises:
        KeyError: no metric gives such samples.
    """
    if name in LABELS:
        return LABELS[name]
    family, _, kind = name.rpartition("_")
    return (*LABELS[family], "le") if kind == "bucket" else LABELS[family]


class _Exposed:
    """The metrics of all processes and the gauges that follow from them; each is read once."""

    def collect(self) -> Iterator[Metric]:
        families = list(self._counted())
        shared = _shared_directory()
        exemplars = read_exemplars(Path(shared)) if shared else {}
        for family in families:
            if exemplars:
                add_exemplars(family, exemplars)
            yield family
        yield from _windows.gauges(families)

    @staticmethod
    def _counted() -> Iterable[Metric]:
        if not _shared_directory():
            return REGISTRY.collect()
        return MultiProcessCollector(None).collect()  # type: ignore[no-untyped-call, no-any-return]


def _readable() -> CollectorRegistry:
    exposed = CollectorRegistry()
    exposed.register(_Exposed())
    return exposed


def _shared_directory() -> str | None:
    return os.environ.get("PROMETHEUS_MULTIPROC_DIR")
