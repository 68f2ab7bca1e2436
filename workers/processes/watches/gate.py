"""Watches over the gate's controls: its budget, its flags, its evaluation and the rollout of a learned model.

`RolloutWatch` advances or stops the canary of a learned model, by the verdict on its stage. One process of an
instance does so: the one that holds a lease in the ledger. A step is one transaction, which applies only to the
state that was read; a process that is killed has taken it whole or not at all, and the next look finds the current
rollout. The other watches only set metrics; each process's evaluator is built anew from the ledger when it starts.
"""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial

import structlog
from prometheus_client import Gauge

from sluice.contracts.budget import Spend
from sluice.contracts.errors import Conflict
from sluice.contracts.learning.control import Cause, Rollout
from sluice.contracts.learning.run_outcome import RunOutcome
from sluice.contracts.plan import Plan
from sluice.evaluation.evaluator import Evaluator, Windowing, summarise_windows
from sluice.evaluation.run_totals import Interval, RunTotals, Summary, summarise, total_by
from sluice.gate.learned.rollout import advance, note_verdict, stop
from sluice.gate.settings import BudgetSettings
from sluice.ledger.audit import SLUICE
from sluice.ledger.learning.outcomes import Outcomes, Place
from sluice.ledger.ledger import Ledger
from sluice.otel import metrics
from sluice.workers.context import Context
from sluice.workers.runtime.flags import NAMES, FlagReader
from sluice.workers.service.learning.control import JudgedStage, change_rollout, judge_rollout
from sluice.workers.service.learning.evaluation import decided_runs

log = structlog.get_logger(__name__)

BUDGET_LOOK_SECONDS = 5.0
"""Seconds between two looks, which read one row of the ledger."""


def measure_budget(budget: BudgetSettings, used_today: Callable[[], Spend]) -> None:
    """Set the gauges from the settings and from the amounts that this UTC day has spent or reserved."""
    used = used_today()
    for scope, limit in (("run", budget.run_usd), ("day", budget.day_usd)):
        metrics.BUDGET_LIMIT_USD.labels(scope).set(math.inf if limit is None else limit)
    metrics.BUDGET_USED_USD.labels("day").set(used.usd)
    for unit, amount in used:
        most: float | None = getattr(budget, f"day_{unit}")
        share = 0.0 if most is None else amount / most if most else 1.0
        metrics.BUDGET_USED_RATIO.labels("day", unit).set(share)


FLAGS_LOOK_SECONDS = 5.0
"""Seconds between two looks, which read a small table."""


class FlagWatch:
    """The flags as one process last saw them."""

    def __init__(self, flags: FlagReader) -> None:
        self._flags = flags
        self._seen: dict[str, bool] = {}
        for name in NAMES:
            for to in ("on", "off"):
                metrics.FLAG_CHANGES.labels(name, to)

    def look(self) -> None:
        """Count the flags that have changed since the last look; the first look counts none."""
        for state in self._flags.states():
            if self._seen.get(state.name, state.enabled) != state.enabled:
                to = "on" if state.enabled else "off"
                metrics.FLAG_CHANGES.labels(state.name, to).inc()
                log.info("flag_changed", flag=state.name, to=to, decided_by=state.decided_by)
            self._seen[state.name] = state.enabled


SHARES_LOOK_SECONDS = 60.0
SHARES_DAYS = 14
"""Days whose runs count at most, so that a share that stays for long is measured by how it does now."""


class ShareWatch:
    """Compares the runs that have a flag by its share with those that do not, since it was given."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._shown: set[str] = set()

    def look(self) -> None:
        """Set the figures of both arms of every flag that a share of the runs has; those of others become NaN."""
        shared = {state.name: state for state in self._context.flags.states() if state.share is not None}
        for name in self._shown - set(shared):
            _show_arms(name, {})
        for name, state in shared.items():
            earliest = datetime.fromtimestamp(self._context.ledger.clock(), UTC) - timedelta(days=SHARES_DAYS)
            runs = decided_runs(self._context.ledger, max(state.changed_at or earliest, earliest))
            _show_arms(name, total_by(runs, partial(_arm_of, name)))
        self._shown = set(shared)


def _arm_of(name: str, run: RunOutcome) -> str:
    return "without" if name in run.flags.split(",") else "with"


def _show_arms(name: str, totals_of: Mapping[str, RunTotals]) -> None:
    for arm in ("with", "without"):
        found = summarise(totals_of.get(arm, RunTotals()))
        figures = {
            "runs": float(found.runs),
            "judged": float(found.judged),
            "satisfaction": found.satisfaction.estimate if found.satisfaction else math.nan,
            "precision_at_k": found.precision_at_k.estimate if found.precision_at_k else math.nan,
            "p95_seconds": _known(found.p95_milliseconds) / 1e3,
        }
        for figure, value in figures.items():
            metrics.FLAG_SHARE.labels(name, arm, figure).set(value)


EVALUATION_LOOK_SECONDS = 2.0
"""Seconds between two checks whether a refresh is due; while the past is still being read, one always is."""
REFRESH_SECONDS = 30.0
LATEST = 2
"""Windows that the metrics cover: the open one, and the one before."""


class EvaluationWatch:
    """Refreshes one evaluator, and sets the metrics from it."""

    def __init__(self, ledger: Ledger, profiles: Iterable[str], windowing: Windowing | None = None) -> None:
        """`profiles` are the gate's: they have metrics before any run was decided by them."""
        self._feed = EvaluationFeed(ledger.outcomes, windowing or Windowing(), ledger.clock)
        self._profiles = tuple(profiles)
        self._clock = ledger.clock
        self._due_at = 0.0
        self._show()

    def look(self) -> None:
        """Read the runs that became old enough since the last look, if a refresh is due."""
        if self._clock() < self._due_at:
            return
        is_up_to_date = self._feed.refresh()
        self._due_at = self._clock() + REFRESH_SECONDS if is_up_to_date else 0.0
        self._show()

    def _show(self) -> None:
        metrics.EVALUATION_BEHIND_SECONDS.set(self._feed.behind_seconds)
        evaluator = self._feed.evaluator
        for profile in sorted({*self._profiles, *evaluator.profiles()}):
            latest = evaluator.windows(profile)[-LATEST:]
            for plan in Plan:
                _set(profile, plan, summarise_windows(latest, plan))


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


ROLLOUT_LOOK_SECONDS = 60.0
"""Seconds between two looks of all processes together. The test is valid at every look, however often."""
ROLLOUT_LEASE = "rollout_watch"
ROLLOUT_REST = 20.0
"""After a long look, at a canary with many runs, the watch rests for so many times as long."""


class RolloutWatch:
    """The watch of one process."""

    def __init__(self, context: Context, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._context, self._monotonic = context, monotonic
        self._rests_until = 0.0
        self._holder = secrets.token_hex(8)
        self._shown: set[tuple[str, str]] = set()
        """Labels of the gauge that were set."""

    def look(self) -> None:
        """Judge the stage of the active canary, if any, and carry out the verdict."""
        ledger = self._context.ledger
        active = ledger.rollouts.active()
        measure_rollout(active, self._shown)
        began = self._monotonic()
        if began < self._rests_until or active is None or active.status != "canary":
            return
        if not ledger.lease(ROLLOUT_LEASE, self._holder, ROLLOUT_LOOK_SECONDS / 2):
            return
        rollout = ledger.rollouts.find(active.model_version)
        if rollout is None or rollout.status != "canary":
            return
        try:
            self._follow(rollout, judge_rollout(self._context, rollout))
        except Conflict:  # an operator was faster
            log.info("rollout_changed_meanwhile", model_version=rollout.model_version)
        self._rests_until = self._monotonic() + ROLLOUT_REST * (self._monotonic() - began)

    def _follow(self, rollout: Rollout, judged: JudgedStage) -> None:
        verdict = judged.verdict
        cause = Cause(
            at=datetime.fromtimestamp(self._context.ledger.clock(), UTC),
            operator=SLUICE,
            why=verdict.why,
            verdict=verdict.kind,
            canary_runs=verdict.canary_runs,
            control_runs=verdict.control_runs,
        )
        match verdict.kind:
            case "promote":
                becomes = advance(rollout, cause)
            case "stop":
                becomes = stop(rollout, cause)
            case "inconclusive" if rollout.history[-1].verdict != "inconclusive" and judged.is_worth_telling:
                becomes = note_verdict(rollout, cause)
            case _:
                return
        change_rollout(self._context, becomes, rollout, verdict.kind)
        metrics.GATE_ROLLOUT_VERDICTS.labels(verdict.kind).inc()
        measure_rollout(becomes, self._shown)
        log.warning("rollout_changed", model_version=rollout.model_version, verdict=verdict.kind, why=verdict.why)


def measure_rollout(rollout: Rollout | None, shown: set[tuple[str, str]]) -> None:
    """Set the gauge for the active model to its share; labels in `shown` that no longer apply go to 0."""
    now = {(rollout.model_version, rollout.status)} if rollout is not None and rollout.is_active else set()
    for labels in shown - now:
        metrics.GATE_MODEL_VERSION.labels(*labels).set(0)
    for labels in now:
        metrics.GATE_MODEL_VERSION.labels(*labels).set(rollout.share if rollout else 0)
    shown |= now


RUNS_AT_ONCE = 5_000
"""Runs of one refresh: a fifth of a second. After a start, the past takes as many refreshes as it needs."""


class EvaluationFeed:
    """An evaluator and its position in the runs. It begins far enough back to fill every window that is kept."""

    def __init__(self, outcomes: Outcomes, windowing: Windowing, clock: Callable[[], float] = time.time) -> None:
        self.evaluator = Evaluator(windowing)
        self._outcomes, self._clock = outcomes, clock
        kept = windowing.kept * windowing.seconds
        self._place = Place(max(0.0, math.floor(clock() / windowing.seconds) * windowing.seconds - kept))

    @property
    def behind_seconds(self) -> float:
        """Seconds of the past that are still to be read."""
        return max(0.0, self._horizon - self._place.moment)

    @property
    def _horizon(self) -> float:
        return self._clock() - self.evaluator.windowing.grace_seconds

    def refresh(self, most: int = RUNS_AT_ONCE) -> bool:
        """Fold at most `most` runs; return whether all runs decided before the grace period are folded.

        Raises:
            Unavailable: the ledger does not answer; runs read before are folded.
        """
        horizon = self._horizon
        runs, self._place = self._outcomes.page(self._place, horizon, most)
        self.evaluator.fold(runs)
        if len(runs) == most:
            return False
        self._place = max(self._place, Place(horizon))
        self.evaluator.close_until(horizon)
        return True
