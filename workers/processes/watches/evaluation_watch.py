"""The evaluator of an instance's reconciler: refreshed now and then, and shown as metrics.

Each process has its own, built anew from the ledger when it starts.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

from sluice.contracts.plan import Plan
from sluice.evaluation.evaluator import merge_groups
from sluice.evaluation.run_totals import Summary, summarise
from sluice.otel import metrics
from sluice.workers.runtime.evaluation_feed import EvaluationFeed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client import Gauge

    from sluice.evaluation.evaluator import Group, Windowing
    from sluice.evaluation.intervals import Interval
    from sluice.ledger.ledger import Ledger

LOOK_SECONDS = 2.0
"""How often it is looked whether a refresh is due; while the past is still being read, one always is."""
REFRESH_SECONDS = 30.0
LATEST = 2
"""Windows that the metrics tell of: the one that is open, and the one before."""


class EvaluationWatch:
    """Refreshes one evaluator, and sets the metrics by it."""

    def __init__(self, ledger: Ledger, windowing: Windowing, profiles: Iterable[str]) -> None:
        """`profiles` are those of the gate: they have their metrics before a run was decided by them."""
        self._feed = EvaluationFeed(ledger.outcomes, windowing, ledger.clock)
        self._profiles = tuple(profiles)
        self._clock = ledger.clock
        self._due_at = 0.0
        self._show()

    def look(self) -> None:
        """Read what has come of age since the last look, where it is time.

        Raises:
            Unavailable: the ledger does not answer; the next look goes on.
        """
        if self._clock() < self._due_at:
            return
        is_up_to_date = self._feed.refresh()
        self._due_at = self._clock() + REFRESH_SECONDS if is_up_to_date else 0.0
        self._show()

    def _show(self) -> None:
        metrics.EVALUATION_BEHIND_SECONDS.set(self._feed.behind_seconds)
        evaluator = self._feed.evaluator
        for profile in sorted({*self._profiles, *evaluator.profiles()}):
            latest = tuple(evaluator.all_windows(profile))[-LATEST:]
            for plan in Plan:
                _set(profile, plan, summarise(merge_groups(latest, partial(_is_of, plan))))


def _is_of(plan: Plan, group: Group) -> bool:
    return group.plan is plan


def _set(profile: str, plan: Plan, summary: Summary) -> None:
    where = (profile, plan.value)
    metrics.EVALUATION_RUNS.labels(*where).set(summary.runs)
    metrics.EVALUATION_JUDGED.labels(*where).set(summary.judged)
    metrics.EVALUATION_JUDGED_SHARE.labels(*where).set(summary.coverage)
    _set_interval(metrics.EVALUATION_SATISFACTION, where, summary.satisfaction)
    _set_interval(metrics.EVALUATION_USD_PER_SUCCESS, where, summary.usd_per_success)
    _set_interval(metrics.EVALUATION_FRESHNESS_GAIN_SECONDS, where, summary.freshness_gain_seconds)
    _set_interval(metrics.EVALUATION_PRECISION_AT_K, where, summary.precision_at_k)
    _set_interval(metrics.EVALUATION_CRAWL_SUCCESS_RATE, where, summary.crawl_success_rate)
    calls = summary.external_calls
    metrics.EVALUATION_EXTERNAL_CALLS.labels(*where).set(calls.estimate if calls else math.nan)
    metrics.EVALUATION_TOKEN_SPEND.labels(*where).set(_known(summary.token_spend))
    metrics.EVALUATION_LATENCY_SECONDS.labels(*where, "0.5").set(_known(summary.p50_milliseconds) / 1e3)
    metrics.EVALUATION_LATENCY_SECONDS.labels(*where, "0.95").set(_known(summary.p95_milliseconds) / 1e3)


def _set_interval(gauge: Gauge, where: tuple[str, ...], interval: Interval | None) -> None:
    for bound in ("estimate", "low", "high"):
        gauge.labels(*where, bound).set(math.nan if interval is None else getattr(interval, bound))


def _known(value: float | None) -> float:
    return math.nan if value is None else value
