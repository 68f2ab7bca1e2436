"""How a metric is declared: the registry that holds all, and the buckets of histograms, in seconds or as shares."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from sluice.otel.metrics.exemplars import current_exemplar, use_shared_exemplars
from sluice.otel.metrics_files import use_allocated_files

use_allocated_files()
use_shared_exemplars()

REGISTRY = CollectorRegistry()
LABELS: dict[str, tuple[str, ...]] = {}
"""The labels of every metric that is declared, by its name."""

MICROSECONDS_TO_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)
MILLISECONDS_TO_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
MILLISECONDS_TO_MINUTES = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0)
MINUTES_TO_YEARS = (60.0, 600.0, 3_600.0, 21_600.0, 86_400.0, 604_800.0, 2_592_000.0, 7_776_000.0, 31_536_000.0)
SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


class TracedHistogram(Histogram):
    """A histogram whose buckets know the trace of their latest observation."""

    def observe(self, amount: float, exemplar: dict[str, str] | None = None) -> None:
        """Count an observation, of the current trace where no other is named."""
        super().observe(amount, exemplar or current_exemplar())


def counter(name: str, sentence: str, *labels: str) -> Counter:
    """Something that only grows; its name ends in `_total`."""
    LABELS[name] = labels
    return Counter(name, sentence, labels, registry=REGISTRY)


def gauge(name: str, sentence: str, *labels: str) -> Gauge:
    """A figure that one process measures for all: the newest value of a living process counts."""
    LABELS[name] = labels
    return Gauge(name, sentence, labels, registry=REGISTRY, multiprocess_mode="livemostrecent")


def histogram(name: str, sentence: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
    """How figures are distributed, counted in `buckets`."""
    LABELS[name] = labels
    return TracedHistogram(name, sentence, labels, registry=REGISTRY, buckets=buckets)
