"""The figures of the retrieval RFC, by its own keys, at the head of a report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated

from prometheus_client.parser import text_string_to_metric_families
from pydantic import ConfigDict, Field

from sluice.contracts.base import Moment, Value, is_empty
from sluice.contracts.retrieval import Strategy
from sluice.evaluation.retrieval.ask import Answered

_LOOKUPS = "sluice_embedding_cache_total"


class RfcMetrics(Value):
    """What the RFC's `reports/retrieval-metrics.json` has. None: not known; `list_unknown` says why.

    `recall_at_10` and `mrr` (at 10) are of `strategy`; so are the mean trust of each question's first ten passages, and
    the number of passages that were found and left out as they are blocked.
    """

    model_config = ConfigDict(populate_by_name=True, serialize_by_alias=True)

    timestamp: Moment | None = None
    strategy: Strategy | None = None
    recall_at_10: Annotated[float | None, Field(alias="recallAt10")] = None
    mrr: float | None = None
    groundedness: float | None = None
    faithfulness: float | None = None
    judged: Annotated[dict[str, int], Field(exclude_if=is_empty)] = Field(default_factory=dict)
    """How many answers each of these two is of."""
    method: Annotated[dict[str, str], Field(exclude_if=is_empty)] = Field(default_factory=dict)
    """By what each was found: the `ragas` package, or support by sentences."""
    avg_trust_score: Annotated[float | None, Field(alias="avgTrustScore")] = None
    poisoned_blocked: Annotated[int | None, Field(alias="poisonedBlocked")] = None
    cache_hit_rate: Annotated[float | None, Field(alias="cacheHitRate")] = None


def headline_strategy(strategies: Iterable[Strategy]) -> Strategy:
    """The strategy that the figures are of: `hybrid`, as it is what answers are made by; else the first."""
    found = list(strategies)
    return Strategy.HYBRID if Strategy.HYBRID in found else found[0]


def mean_trust(answers: Sequence[Answered]) -> float | None:
    """The mean trust of the first passages of the answers; None where no trust was told."""
    values = [answer.trust for answer in answers if answer.trust is not None]
    return sum(values) / len(values) if values else None


def cache_hit_rate(exposition: str) -> float | None:
    """The share of texts that the embedding cache had, from Prometheus' text format; None where none was looked up."""
    counts = {
        sample.labels["result"]: sample.value
        for family in text_string_to_metric_families(exposition)
        for sample in family.samples
        if sample.name == _LOOKUPS
    }
    looked_up = sum(counts.values())
    return counts.get("hit", 0.0) / looked_up if looked_up else None


def list_unknown(metrics: RfcMetrics) -> list[str]:
    """For each figure that is not known, why."""
    reasons = {
        "groundedness": "FEATURE_RAGAS_EVAL is off, or no answers were given: --responses or --generate",
        "faithfulness": "it needs answers, a judge (judge.model) and `sluice eval install-ragas`",
        "avg_trust_score": "the server tells no trust scores, or nothing was found",
        "cache_hit_rate": "the server's /metrics needs an operator's key of all corpora, or nothing was embedded yet",
    }
    names = {name: field.alias or name for name, field in RfcMetrics.model_fields.items()}
    return [f"{names[name]} is null: {why}" for name, why in reasons.items() if getattr(metrics, name) is None]
