"""The figures of some runs, with their intervals: what their totals say."""

from __future__ import annotations

from pydantic import Field

from sluice.contracts.base import Value
from sluice.evaluation.intervals import Interval, ratio_interval, wilson_interval
from sluice.evaluation.run_totals import RunTotals


class Summary(Value):
    """How some runs did. A figure is None where no run tells it; intervals are of 95 %.

    `coverage` is the share of the runs that were judged. `usd_per_success` is the cost of the judged runs through the
    sum of their satisfaction. `precision_at_k` is the mean share of the k cited passages that were used, `token_spend`
    the mean of the tokens per run, `crawl_success_rate` the share of the pages asked for that were read.
    """

    runs: int = 0
    judged: int = 0
    coverage: float = 0.0
    satisfaction: Interval | None = None
    signals: dict[str, Interval] = Field(default_factory=dict)
    freshness_gain_seconds: Interval | None = None
    cited_age_seconds: float | None = None
    usd: Interval | None = None
    total_usd: float = 0.0
    usd_per_success: Interval | None = None
    mean_milliseconds: Interval | None = None
    p50_milliseconds: float | None = None
    p95_milliseconds: float | None = None
    external_calls: Interval | None = None
    precision_at_k: Interval | None = None
    token_spend: float | None = None
    crawl_success_rate: Interval | None = None
    failed: int = 0


def summarise(totals: RunTotals) -> Summary:
    """The figures of the totals."""
    satisfaction, judged_usd = totals.satisfaction, totals.judged_usd
    signals = {name: moments.share_interval() for name, moments in sorted(totals.signals.items())}
    return Summary(
        runs=totals.runs,
        judged=satisfaction.count,
        coverage=satisfaction.count / totals.runs if totals.runs else 0.0,
        satisfaction=satisfaction.share_interval(),
        signals={name: interval for name, interval in signals.items() if interval},
        freshness_gain_seconds=totals.freshness_gain_seconds.mean_interval(),
        cited_age_seconds=totals.cited_age_seconds.mean,
        usd=totals.usd.mean_interval(),
        total_usd=totals.usd.total,
        usd_per_success=ratio_interval(
            judged_usd.total,
            judged_usd.squares,
            satisfaction.total,
            satisfaction.squares,
            totals.usd_of_success,
            satisfaction.count,
        ),
        mean_milliseconds=totals.milliseconds.mean_interval(),
        p50_milliseconds=totals.latency.quantile(0.5),
        p95_milliseconds=totals.latency.quantile(0.95),
        external_calls=totals.external_calls.mean_interval(),
        precision_at_k=totals.precision.share_interval(),
        token_spend=totals.tokens.mean,
        crawl_success_rate=_crawl_success(totals),
        failed=totals.statuses["failed"],
    )


def _crawl_success(totals: RunTotals) -> Interval | None:
    return wilson_interval(min(totals.pages_read, totals.pages_asked), totals.pages_asked)
