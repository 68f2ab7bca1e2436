"""Gauges of the latest while: rates, a mean age and a cost, made of the counters by the process that shows them.

Each time that metrics are read, the counters' sums are kept with their moment (once in `STEP_SECONDS`, for a day), and
the gauges are of what was added since the moment that lies one window back; within the first window, since the start.
A reader that comes seldom gets the time since its last visit, where that is longer.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily

from sluice.otel.metrics.registry import LABELS

RATE_SECONDS = 900.0
"""Of the rates: as long as the alerts look back."""
DAY_SECONDS = 86_400.0
"""Of the cost and the mean age."""
STEP_SECONDS = 60.0
"""Between two moments whose sums are kept: a day has 1,440 of them, about 2 MB."""

WINDOWED = {
    "sluice_external_search_error_rate": "Share of the calls of a search provider that failed in the last 15 minutes; "
    "0 where none was called.",
    "sluice_crawler_success_rate": "Share of the pages asked for in the last 15 minutes, without those that a rule "
    "refused, that were not missed; 1 where none was asked for.",
    "sluice_external_search_cost_usd": "US dollars that the searches of the last 24 hours cost, by what the providers "
    "answered.",
    "sluice_average_document_age_seconds": "Mean age of the documents that the answers of the last 24 hours cite, by "
    "the gate's profile.",
}
LABELS |= {
    "sluice_external_search_error_rate": ("provider",),
    "sluice_crawler_success_rate": (),
    "sluice_external_search_cost_usd": ("provider",),
    "sluice_average_document_age_seconds": ("profile",),
}


class Key(NamedTuple):
    """Which sum: of what, by which provider, profile or outcome."""

    name: str
    label: str = ""


Sums = dict[Key, float]


class Windows:
    """The gauges of one reader. Safe across its threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: deque[tuple[float, Sums]] = deque()

    def gauges(self, families: Iterable[Metric]) -> Iterator[Metric]:
        """The gauges by the counters as they stand now, which are kept for later."""
        now, sums = self._clock(), read_sums(families)
        with self._lock:
            rates, day = (_added(sums, self._before(now - seconds)) for seconds in (RATE_SECONDS, DAY_SECONDS))
            self._keep(now, sums)
        yield _gauge("sluice_external_search_error_rate", _shares(rates, "failed", "calls", empty=0.0))
        yield _gauge("sluice_external_search_cost_usd", _named(day, "usd"))
        yield _gauge("sluice_crawler_success_rate", _success(rates))
        yield _gauge("sluice_average_document_age_seconds", _shares(day, "age", "cited", empty=None))

    def kept(self) -> tuple[float, ...]:
        """The moments whose sums are kept."""
        with self._lock:
            return tuple(at for at, _ in self._kept)

    def _before(self, moment: float) -> Sums:
        """The latest sums that were kept at `moment` or before; none within the first window."""
        for at, sums in reversed(self._kept):
            if at <= moment:
                return sums
        return {}

    def _keep(self, now: float, sums: Sums) -> None:
        if self._kept and now - self._kept[-1][0] < STEP_SECONDS:
            return
        self._kept.append((now, sums))
        while len(self._kept) > 1 and self._kept[1][0] <= now - DAY_SECONDS:
            self._kept.popleft()


def read_sums(families: Iterable[Metric]) -> Sums:
    """What the gauges are made of, added up over the labels that do not matter to them."""
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
    """`part` through `whole` by label; `empty` where there is nothing of the whole (None: left out)."""
    shares = {
        label: sums.get(Key(part, label), 0.0) / all_ if all_ else empty for label, all_ in _named(sums, whole).items()
    }
    return {label: share for label, share in shares.items() if share is not None}


def _success(sums: Sums) -> dict[str, float]:
    if Key("asked") not in sums:
        return {}
    asked = sums[Key("asked")]
    return {"": 1.0 - sums.get(Key("missed"), 0.0) / asked if asked else 1.0}


def _gauge(name: str, values: dict[str, float]) -> Metric:
    labels = LABELS[name]
    family = GaugeMetricFamily(name, WINDOWED[name], labels=labels)
    for label, value in values.items():
        family.add_metric([label] if labels else [], value)
    return family
