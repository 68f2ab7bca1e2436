"""Exposes the metrics to readers: those of every process of the instance, in Prometheus' text format."""

from __future__ import annotations

import os
import threading
import time
import tomllib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple
from wsgiref.types import StartResponse, WSGIEnvironment

from prometheus_client import CollectorRegistry, Metric, make_wsgi_app, start_http_server
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from sluice.otel.metrics.registry import LABELS, REGISTRY, add_exemplars, exemplar_file, read_exemplars


def negotiate_metrics(accept: str = "") -> tuple[bytes, str]:
    """Return the figures of every process of this instance in the format of an Accept header, and its content type.

    Without a header this is Prometheus' text format; OpenMetrics has the exemplars.
    """
    encode, content_type = choose_encoder(accept)
    return encode(_readable()), content_type


def serve_metrics(
    address: str | None, lives: Callable[[], bool] = lambda: True, is_ready: Callable[[], bool] = lambda: True
) -> Callable[[], None]:
    """Serve `/metrics` on `address` (host and port, as 127.0.0.1:9464) from a daemon thread; return its stop function.

    `/livez` and `/readyz` answer 200 while `lives` and `is_ready` return true, else 503. Without an address nothing is
    served. Raises `OSError` if the port cannot be bound.
    """
    if address is None:
        return lambda: None
    host, _, port = address.rpartition(":")
    server, thread = start_http_server(int(port), addr=host)
    expose, probes = make_wsgi_app(_readable()), {"/livez": lives, "/readyz": is_ready}

    def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        probe = probes.get(environ["PATH_INFO"])
        if probe is None:
            exposed: Iterable[bytes] = expose(environ, start_response)
            return exposed
        start_response("200 OK" if probe() else "503 Service Unavailable", [("Content-Type", "text/plain")])
        return []

    server.set_app(answer)

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


@cache
def sentences() -> dict[str, str]:
    """Return the help text of each metric, by its declared name. Loaded on exposition only: counting needs none."""
    return tomllib.loads(Path(__file__).with_name("sentences.toml").read_text("utf-8"))


class _Exposed:
    """The metrics of all processes, and the gauges computed from them, each read once per exposition."""

    def collect(self) -> Iterator[Metric]:
        families, said = list(self._counted()), sentences()
        shared = _shared_directory()
        exemplars = read_exemplars(Path(shared)) if shared else {}
        for family in families:
            family.documentation = said.get(family.name) or said.get(f"{family.name}_total", "")
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


RATE_SECONDS = 900.0
"""Window of the rates: as long as the alerts look back."""
DAY_SECONDS = 86_400.0
"""Window of the cost and the mean age."""
STEP_SECONDS = 60.0
"""Time between two kept moments: a day has 1,440 of them, about 2 MB."""

WINDOWED: dict[str, tuple[str, ...]] = {
    "sluice_external_search_error_rate": ("provider",),
    "sluice_crawler_success_rate": (),
    "sluice_external_search_cost_usd": ("provider",),
    "sluice_average_document_age_seconds": ("profile",),
}
"""Gauges computed from counters on exposition, with their labels."""
LABELS |= WINDOWED


class Key(NamedTuple):
    """Key of a sum: its name, and a provider or profile."""

    name: str
    label: str = ""


Sums = dict[Key, float]


class Windows:
    """The windowed gauges of one process that exposes metrics. Safe across its threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self.kept: deque[tuple[float, Sums]] = deque()
        """The kept sums, each with its moment."""

    def gauges(self, families: Iterable[Metric]) -> Iterator[Metric]:
        """Yield the gauges for the present counters, and keep the counters for later."""
        now, sums = self._clock(), read_sums(families)
        with self._lock:
            rates, day = (_added(sums, self._before(now - seconds)) for seconds in (RATE_SECONDS, DAY_SECONDS))
            self._keep(now, sums)
        yield _gauge("sluice_external_search_error_rate", _shares(rates, "failed", "calls", empty=0.0))
        yield _gauge("sluice_external_search_cost_usd", _named(day, "usd"))
        missed = _shares(rates, "missed", "asked", empty=0.0)
        yield _gauge("sluice_crawler_success_rate", {label: 1.0 - share for label, share in missed.items()})
        yield _gauge("sluice_average_document_age_seconds", _shares(day, "age", "cited", empty=None))

    def _before(self, moment: float) -> Sums:
        """Return the latest sums that were kept at `moment` or before; empty within the first window."""
        for at, sums in reversed(self.kept):
            if at <= moment:
                return sums
        return {}

    def _keep(self, now: float, sums: Sums) -> None:
        if self.kept and now - self.kept[-1][0] < STEP_SECONDS:
            return
        self.kept.append((now, sums))
        while len(self.kept) > 1 and self.kept[1][0] <= now - DAY_SECONDS:
            self.kept.popleft()


def read_sums(families: Iterable[Metric]) -> Sums:
    """Return the sums from which the gauges are computed, added up over all other labels."""
    sums: Sums = {}
    for family in families:
        for sample in family.samples:
            for key in _keys(sample.name, sample.labels):
                sums[key] = sums.get(key, 0.0) + sample.value
    return sums


def _keys(name: str, labels: dict[str, str]) -> tuple[Key, ...]:
    match name:
        case "sluice_search_calls_total":
            calls = Key("calls", labels["provider"])
            return (calls,) if labels["outcome"] == "ok" else (calls, Key("failed", labels["provider"]))
        case "sluice_search_cost_usd_total":
            return (Key("usd", labels["provider"]),)
        case "sluice_crawl_pages_total" if labels["outcome"] != "refused":
            return (Key("missed"), Key("asked")) if labels["outcome"] == "missed" else (Key("asked"),)
        case "sluice_document_age_seconds_sum":
            return (Key("age", labels["profile"]),)
        case "sluice_document_age_seconds_count":
            return (Key("cited", labels["profile"]),)
        case _:
            return ()


def _added(sums: Sums, before: Sums) -> Sums:
    return {key: max(0.0, value - before.get(key, 0.0)) for key, value in sums.items()}


def _named(sums: Sums, name: str) -> dict[str, float]:
    return {key.label: value for key, value in sums.items() if key.name == name}


def _shares(sums: Sums, part: str, whole: str, *, empty: float | None) -> dict[str, float]:
    """Return `part` divided by `whole` by label; `empty` where the whole is 0 (None: left out)."""
    shares = {
        label: sums.get(Key(part, label), 0.0) / all_ if all_ else empty for label, all_ in _named(sums, whole).items()
    }
    return {label: share for label, share in shares.items() if share is not None}


def _gauge(name: str, values: dict[str, float]) -> Metric:
    labels = WINDOWED[name]
    family = GaugeMetricFamily(name, sentences()[name], labels=labels)
    for label, value in values.items():
        family.add_metric([label] if labels else [], value)
    return family


_windows = Windows()
