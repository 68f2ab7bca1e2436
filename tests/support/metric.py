"""What a metric counts at the moment."""

from __future__ import annotations

from prometheus_client.metrics import MetricWrapperBase


def value_of(metric: MetricWrapperBase, **labels: str) -> float:
    """The value of the counter or gauge with these labels; 0 where nothing was counted."""
    samples = [sample for family in metric.collect() for sample in family.samples]
    return sum(sample.value for sample in samples if sample.labels == labels and not sample.name.endswith("_created"))
