"""The metrics and fields that the designs of Sluice name, by our spelling, and whether a running instance shows them.

docs/metrics.md tells what each means; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families
from rich.table import Table

from sluice.contracts.api import RunView
from sluice.contracts.event import Event
from sluice.contracts.gate import RagDirectivesEvaluated
from sluice.otel.metrics.exposition import WINDOWED
from sluice.otel.metrics.registry import LABELS, REGISTRY


class Named(NamedTuple):
    """A metric: its design's name, the name of its samples, and a label that they have."""

    design: str
    sample: str
    label: str | None = None


NAMED = (
    Named("GateDecisionTotal{plan_type}", "sluice_gate_decision_total", "plan_type"),
    Named("GateModelVersion", "sluice_gate_decision_total", "gate_model_version"),
    Named("RetrievalFusionLatency", "sluice_retrieval_fusion_latency_seconds_count"),
    Named("CrawlIngestLatency", "sluice_crawl_ingest_latency_seconds_count"),
    Named("ExternalSearchCostUSD", "sluice_external_search_cost_usd", "provider"),
    Named("ExternalSearchErrorRate", "sluice_external_search_error_rate", "provider"),
    Named("CrawlerSuccessRate", "sluice_crawler_success_rate"),
    Named("crawl_success_rate", "sluice_crawler_success_rate"),
    Named("AverageDocumentAge", "sluice_average_document_age_seconds", "profile"),
    Named("precision@k", "sluice_precision_at_k_count"),
    Named("token_spend", "sluice_token_spend_total", "spent_on"),
)
MUST_COUNT = frozenset(named.sample for named in NAMED if named.sample.endswith(("_count", "_total")))
"""Those of which one run with feedback makes more than 0."""


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


def read_samples(exposition: str) -> dict[str, list[tuple[Mapping[str, str], float]]]:
    """Labels and values by the samples' name, of Prometheus' text format."""
    samples: dict[str, list[tuple[Mapping[str, str], float]]] = {}
    for family in text_string_to_metric_families(exposition):
        for sample in family.samples:
            samples.setdefault(sample.name, []).append((sample.labels, sample.value))
    return samples


def missing_metrics(exposition: str) -> Iterator[str]:
    """The named metrics that are not shown, or counted nothing, in sentences."""
    samples = read_samples(exposition)
    for named in NAMED:
        found = samples.get(named.sample, [])
        if not found:
            yield f"{named.design}: /metrics has no {named.sample}"
        elif named.label and not any(labels.get(named.label) for labels, _ in found):
            yield f"{named.design}: {named.sample} has no label {named.label}"
        elif named.sample in MUST_COUNT and not sum(value for _, value in found):
            yield f"{named.design}: {named.sample} has counted nothing"


def missing_directives(run: RunView, events: Sequence[Event]) -> Iterator[str]:
    """What an agent should see of the directives and does not, in sentences."""
    told = [event.body for event in events if isinstance(event.body, RagDirectivesEvaluated)]
    if len(told) != 1:
        yield f"the run's stream has {len(told)} events rag_directives_evaluated, not one"
    elif run.decision is None or told[0].justification != run.decision.justification:
        yield "the decision's justification is not that of rag_directives_evaluated"


def table_of(exposition: str) -> Table:
    """Each name, ours, and what was scraped: of several series their number and their sum."""
    samples = read_samples(exposition)
    table = Table(title="metrics by their designs' names")
    for heading in ("design", "ours", "scraped"):
        table.add_column(heading, overflow="fold")
    for named in NAMED:
        table.add_row(named.design, named.sample, _told(samples.get(named.sample, [])))
    return table


def _told(found: Sequence[tuple[Mapping[str, str], float]]) -> str:
    if len(found) != 1:
        return f"{sum(value for _, value in found):g} in {len(found)} series" if found else "-"
    labels, value = found[0]
    told = ", ".join(f"{name}={text}" for name, text in labels.items())
    return f"{value:g} ({told})" if told else f"{value:g}"
