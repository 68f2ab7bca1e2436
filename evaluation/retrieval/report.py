"""The report of an evaluation, one JSON file: the retrieval RFC's keys and figures; subject, every value, misses.

`compare` tells what changed between two reports of the same questions, how significant that is, and what dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from prometheus_client.parser import text_string_to_metric_families
from pydantic import ConfigDict, Field, model_validator

from sluice.contracts.base import CorpusName, Moment, Sha256, Value, is_empty
from sluice.contracts.errors import Conflict
from sluice.contracts.retrieval import Strategy
from sluice.evaluation.report import read_report
from sluice.evaluation.retrieval.ask import TOP_K, Answered, Miss, Submitted
from sluice.evaluation.retrieval.cases import Case, fingerprint
from sluice.evaluation.retrieval.measures import (
    HEADLINES,
    MEASURES,
    Floats,
    bootstrap_interval,
    compute_measures,
    randomisation_p,
)

_LOOKUPS = "sluice_embedding_cache_total"


class RfcMetrics(Value):
    """The contents of the RFC's `reports/retrieval-metrics.json`. None: unknown, for the reasons in `list_unknown`.

    `recall_at_10` and `mrr` (at 10) are of `strategy`; so are the mean trust of each question's first ten passages, and
    the number of passages left out because they are blocked.
    """

    model_config = ConfigDict(populate_by_name=True, serialize_by_alias=True)

    timestamp: Moment | None = None
    strategy: Strategy | None = None
    recall_at_10: Annotated[float | None, Field(alias="recallAt10")] = None
    mrr: float | None = None
    groundedness: float | None = None
    faithfulness: float | None = None
    judged: Annotated[dict[str, int], Field(exclude_if=is_empty)] = Field(default_factory=dict)
    """Number of answers behind each of these two."""
    method: Annotated[dict[str, str], Field(exclude_if=is_empty)] = Field(default_factory=dict)
    """Method of each: the `ragas` package, or support by sentences."""
    avg_trust_score: Annotated[float | None, Field(alias="avgTrustScore")] = None
    poisoned_blocked: Annotated[int | None, Field(alias="poisonedBlocked")] = None
    cache_hit_rate: Annotated[float | None, Field(alias="cacheHitRate")] = None


def headline_strategy(strategies: Iterable[Strategy]) -> Strategy:
    """Return the strategy of the headline figures: `hybrid`, as answers are made by it; else the first."""
    found = list(strategies)
    return Strategy.HYBRID if Strategy.HYBRID in found else found[0]


def cache_hit_rate(exposition: str) -> float | None:
    """Return the embedding cache's hit rate, from Prometheus' text format; None if no text was looked up."""
    counts = {
        sample.labels["result"]: sample.value
        for family in text_string_to_metric_families(exposition)
        for sample in family.samples
        if sample.name == _LOOKUPS
    }
    looked_up = sum(counts.values())
    return counts.get("hit", 0.0) / looked_up if looked_up else None


def list_unknown(metrics: RfcMetrics) -> list[str]:
    """Return the reason for each unknown figure."""
    reasons = {
        "groundedness": "FEATURE_RAGAS_EVAL is off, or no answers were given: --responses or --generate",
        "faithfulness": "it needs answers, a judge (judge.model) and `sluice eval install-ragas`",
        "avg_trust_score": "the server tells no trust scores, or nothing was found",
        "cache_hit_rate": "the server's /metrics needs an operator's key of all corpora, or nothing was embedded yet",
    }
    names = {name: field.alias or name for name, field in RfcMetrics.model_fields.items()}
    return [f"{names[name]} is null: {why}" for name, why in reasons.items() if getattr(metrics, name) is None]


DIGITS = 6
"""Decimal places of a value: far below the resolution of any number of questions."""


class Mean(Value):
    """A mean over the questions, and the ends of its 95 % bootstrap interval."""

    mean: float
    low: float
    high: float


class Durations(Value):
    """Milliseconds that half, and 95 of 100, of the queries took at most."""

    p50_ms: float
    p95_ms: float


class StrategyReport(Value):
    """One strategy. `values` has each question's value of each measure, by the question's id.

    `index_time` is the time that the index reports, `round_trip_time` the client's wait, in a queue with its other
    parallel queries. `truncated_count` questions found fewer than 100 documents within the chunk limit.
    """

    fusion: str
    means: dict[str, Mean]
    values: dict[str, dict[str, float]]
    index_time: Durations
    round_trip_time: Durations
    truncated_count: int
    misses: tuple[Miss, ...]

    @model_validator(mode="after")
    def _measured_throughout(self) -> StrategyReport:
        if not self.means or self.means.keys() != self.values.keys():
            raise ValueError("means and values must be of the same measures")
        return self


class Subject(Value):
    """The subject of the evaluation: the path of the questions, and the server that answered them."""

    source: str
    corpus: CorpusName
    sluice_version: str
    server_version: str
    at_once: int


class Report(RfcMetrics):
    """The complete result of one evaluation. `generations` has several entries if the corpus changed meanwhile."""

    format: Literal[1] = 1
    made_at: Moment
    subject: Subject
    generations: tuple[str, ...]
    cases_sha256: Sha256
    case_count: Annotated[int, Field(ge=1)]
    unjudged_count: int = 0
    relevant_count: int
    top_k: int = TOP_K
    fed: Submitted | None = None
    strategies: dict[Strategy, StrategyReport]


def make_report(
    subject: Subject, cases: Sequence[Case], answers: Sequence[Answered], made_at: datetime, **facts: object
) -> Report:
    """Return the report on the answers to the cases. `facts`: the fields `unjudged_count`, `fed`, `cache_hit_rate`."""
    by_strategy: dict[Strategy, list[Answered]] = {}
    for asked in answers:
        by_strategy.setdefault(asked.strategy, []).append(asked)
    parts = {strategy: _strategy_report(cases, asked) for strategy, asked in by_strategy.items()}
    headline = headline_strategy(parts)
    trusts = [asked.trust for asked in by_strategy[headline] if asked.trust is not None]
    fields = {
        "timestamp": made_at,
        "strategy": headline,
        "recall_at_10": parts[headline].means["recall@10"].mean,
        "mrr": parts[headline].means["MRR@10"].mean,
        "avg_trust_score": sum(trusts) / len(trusts) if trusts else None,
        "poisoned_blocked": sum(asked.guard_dropped for asked in by_strategy[headline]),
        "made_at": made_at,
        "subject": subject,
        "generations": tuple(dict.fromkeys(asked.generation for asked in answers if asked.generation)),
        "cases_sha256": fingerprint(cases),
        "case_count": len(cases),
        "relevant_count": sum(len(case.answers) for case in cases),
        "strategies": parts,
        **facts,
    }
    return Report.model_validate(fields)


def summarise_means(values: Mapping[str, Mapping[str, float]]) -> dict[str, Mean]:
    """Return the mean of each measure with its interval, from its values by question."""
    columns = np.array([list(by_case.values()) for by_case in values.values()], dtype=np.float64).T
    low, high = bootstrap_interval(columns)
    rows = zip(values, columns.mean(axis=0), low, high, strict=True)
    return {
        measure: Mean(mean=_rounded(mean), low=_rounded(lowest), high=_rounded(highest))
        for measure, mean, lowest, highest in rows
    }


def read_retrieval_report(path: Path) -> Report:
    """Return a report that `sluice eval retrieval` wrote. Raises as `read_report`."""
    return read_report(path, Report, "sluice eval")


def _strategy_report(cases: Sequence[Case], answers: Sequence[Answered]) -> StrategyReport:
    values = compute_measures(cases, {asked.case.id: asked.names for asked in answers})
    return StrategyReport(
        fusion=answers[0].fusion,
        means=summarise_means(values),
        values={name: {case: _rounded(value) for case, value in values[name].items()} for name in MEASURES},
        index_time=_durations([asked.index_ms for asked in answers]),
        round_trip_time=_durations([asked.round_trip_ms for asked in answers]),
        truncated_count=sum(asked.is_truncated for asked in answers),
        misses=tuple(asked.miss for asked in answers if asked.miss),
    )


def _durations(milliseconds: Sequence[float]) -> Durations:
    p50, p95 = np.percentile(milliseconds, (50, 95))
    return Durations(p50_ms=round(float(p50), 3), p95_ms=round(float(p95), 3))


def _rounded(value: float) -> float:
    return round(float(value), DIGITS)


MAX_DROP = 0.05
"""The relative drop of a headline measure that fails a comparison: users do not notice a difference below 5 %, by the
rule of thumb of Spärck Jones (Automatic indexing, Journal of Documentation 30(4), 1974)."""
TIE = 1e-6
"""Values that differ by no more are equal: a report keeps six digits."""


class Change(Value):
    """One measure of one strategy in both reports. Wins are questions that are better after.

    `difference` is after - before, `relative` the same as a share of before (None where that is 0). `p` is of a
    two-sided paired randomisation test: the probability of a difference as large by chance alone.
    """

    strategy: Strategy
    measure: str
    before: float
    after: float
    difference: float
    relative: float | None
    p: float
    wins: int
    losses: int
    ties: int
    is_drop: bool


class Comparison(Value):
    """All changes, and the strategies that only one of the reports has."""

    case_count: int
    max_drop: float
    changes: tuple[Change, ...]
    only_in_one: tuple[Strategy, ...]

    @property
    def drops(self) -> tuple[Change, ...]:
        """Return the headline measures that fell by more than the allowed drop."""
        return tuple(change for change in self.changes if change.is_drop)


def compare(before: Report, after: Report, max_drop: float = MAX_DROP) -> Comparison:
    """Return the changes from one report to another of the same questions and judgments.

    Raises `Conflict` if the questions or judgments differ, or no strategy or measure is in both.
    """
    if before.cases_sha256 != after.cases_sha256:
        raise Conflict(
            f"the reports are of different questions or judgments ({before.case_count} of {before.subject.source}, "
            f"{after.case_count} of {after.subject.source}); evaluate both sides on the same ones"
        )
    common = [strategy for strategy in before.strategies if strategy in after.strategies]
    if not common:
        raise Conflict("the reports have no strategy in common; evaluate both sides with the same --strategy")
    return Comparison(
        case_count=before.case_count,
        max_drop=max_drop,
        changes=tuple(
            change
            for strategy in common
            for change in _changes(strategy, before.strategies[strategy], after.strategies[strategy], max_drop)
        ),
        only_in_one=tuple(sorted({*before.strategies} ^ {*after.strategies})),
    )


def _changes(strategy: Strategy, before: StrategyReport, after: StrategyReport, max_drop: float) -> list[Change]:
    measures = [name for name in MEASURES if name in before.values and name in after.values]
    if not measures:
        raise Conflict(f"the reports have no measure of {strategy} in common; evaluate both sides with this version")
    differences = np.column_stack([_differences(before.values[name], after.values[name]) for name in measures])
    chances = randomisation_p(differences)
    means = ((before.means[name].mean, after.means[name].mean) for name in measures)
    return [
        Change(
            strategy=strategy,
            measure=measure,
            before=was,
            after=is_now,
            difference=is_now - was,
            relative=(relative := (is_now - was) / was if was else None),
            p=float(p),
            wins=int((column > 0).sum()),
            losses=int((column < 0).sum()),
            ties=int((column == 0).sum()),
            is_drop=measure in HEADLINES and relative is not None and relative < -max_drop - TIE,
        )
        for measure, (was, is_now), column, p in zip(measures, means, differences.T, chances, strict=True)
    ]


def _differences(before: Mapping[str, float], after: Mapping[str, float]) -> Floats:
    """Return after - before of each question, shape (questions,)."""
    if before.keys() != after.keys():
        raise Conflict("the reports have values of different questions: one of them is not as it was written")
    found = np.array([after[case] - value for case, value in before.items()], dtype=np.float64)
    return np.where(np.abs(found) <= TIE, 0.0, found)
