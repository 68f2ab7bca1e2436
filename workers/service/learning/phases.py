"""The facts that the checks of a phase need, from the ledger."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from statistics import median

from sluice.contracts.errors import Corrupted
from sluice.contracts.learning.events import ResponseJudged
from sluice.contracts.learning.run_outcome import RunOutcome
from sluice.contracts.plan import Plan
from sluice.evaluation import manual_log, phases
from sluice.evaluation.learned_gate import METADATA, find_model, share_models
from sluice.evaluation.retrieval.report import read_retrieval_report
from sluice.evaluation.run_totals import RunTotals, total_by
from sluice.workers.context import Context
from sluice.workers.service.learning.evaluation import decided_runs

HELD_OUT = "five folds, own"
"""Name of this measure in the metadata of a model."""
RECENT_DAYS = 30
"""Days that a phase looks back if its criteria name none."""
_AGES_KEPT = 100_000
"""Most ages kept of each profile: the median of more runs is that of these."""


def baseline(context: Context, now: datetime) -> phases.PhaseReport:
    """Check phase 0, the baseline."""
    since = now - timedelta(days=phases.BASELINE_DAYS + 1)
    untraced = context.ledger.outcomes.untraced_between(since.timestamp(), now.timestamp())
    return phases.check_baseline(_by_day(decided_runs(context.ledger, since, now)), now.date(), untraced)


def lift(context: Context, now: datetime, baseline_until: datetime) -> phases.PhaseReport:
    """Check phase 1: the runs before a moment against those of the last 30 days after it."""
    later = max(baseline_until, now - timedelta(days=RECENT_DAYS))
    before = _totals(decided_runs(context.ledger, datetime.fromtimestamp(0, UTC), baseline_until))
    return phases.check_lift(before, _totals(decided_runs(context.ledger, later, now)))


def compare_deploys(
    context: Context, baseline_until: datetime, deploys: tuple[datetime, datetime], now: datetime
) -> phases.DeployReport:
    """Check the runs of two deploys, each until the next one, against those before `baseline_until`."""
    baseline = _totals(decided_runs(context.ledger, datetime.fromtimestamp(0, UTC), baseline_until))
    spans = zip(deploys, (deploys[1], now), strict=True)
    found = {f"{begin:%Y-%m-%d %H:%M}": _totals(decided_runs(context.ledger, begin, end)) for begin, end in spans}
    return phases.check_deploys(baseline, found)


def freshness(context: Context, now: datetime, log: Path | None = None) -> phases.PhaseReport:
    """Check phase 2 over the last 30 days; unsupported is 1 minus the mean groundedness of the judged responses.

    With the log of answers that people judged, their hallucinated share counts.
    """
    ages: dict[str, list[float]] = {}
    grounded: list[float] = []
    for run in decided_runs(context.ledger, now - timedelta(days=RECENT_DAYS), now):
        of_profile = ages.setdefault(run.profile, [])
        if run.cited_age_seconds is not None and len(of_profile) < _AGES_KEPT:
            of_profile.append(run.cited_age_seconds / 86_400)
        if run.judged_at is not None:
            judged = context.ledger.events_of_kind(run.run_id, ResponseJudged.kind)
            found = (event.body_as(ResponseJudged).groundedness for event in judged)
            grounded += (value for value in found if value is not None)
    medians = {profile: median(days) if days else None for profile, days in ages.items()}
    unsupported = 1 - sum(grounded) / len(grounded) if grounded else None
    by_hand = manual_log.summarise(manual_log.read(log)).share if log else None
    hallucinated = by_hand.estimate if by_hand else None
    return phases.check_freshness(medians, context.settings.freshness.target_age_days, unsupported, hallucinated)


def f1_lifts(context: Context, version: str) -> dict[str, float]:
    """Return a trained model's F1 minus that of the profile, on questions held out of each collection.

    Raises `NotFound` if there is no such model, and `Corrupted` if its metadata cannot be read.
    """
    share_models(context.settings.data_dir, context.object_store)
    path = find_model(version, context.settings.data_dir) / METADATA
    try:
        measures = json.loads(path.read_text(encoding="utf-8"))["measures"]
        return {one["source"]: float(one["difference"][0]) for one in measures if one["way"] == HELD_OUT}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Corrupted(f"the metadata of model {version} cannot be read: {error!r}") from error


def learned_gate(f1_lift: dict[str, float], plain: Path | None, reranked: Path | None) -> phases.PhaseReport:
    """Check phase 3 by a model's metrics and reports of `sluice eval retrieval` without and with the reranker.

    Raises:
        InvalidInput: a report cannot be read.
    """
    slower = None
    if plain and reranked:
        slower = _slowest_ms(reranked) / _slowest_ms(plain)
    return phases.check_learned_gate(f1_lift, slower)


def costs(context: Context, now: datetime, cap_usd: float, baseline_until: datetime) -> phases.PhaseReport:
    """Check phase 4 over the last 30 days; the baseline's p95 is of the runs before a moment."""
    since = now - timedelta(days=phases.CAPPED_DAYS + 1)
    most_usd = context.settings.budget.day_usd
    return phases.check_costs(
        _by_day(decided_runs(context.ledger, since, now)),
        now.date(),
        cap_usd,
        _totals(decided_runs(context.ledger, datetime.fromtimestamp(0, UTC), baseline_until)).latency.quantile(0.95),
        0 if most_usd is None else context.ledger.days_over(most_usd, since),
    )


def _slowest_ms(report: Path) -> float:
    """Return the median round trip of the report's slowest strategy, in milliseconds."""
    return max(part.round_trip_time.p50_ms for part in read_retrieval_report(report).strategies.values())


def _by_day(runs: Iterable[RunOutcome]) -> dict[date, phases.Day]:
    days: dict[date, phases.Day] = {}
    for run in runs:
        day = days.get(run.decided_at.date()) or phases.Day(RunTotals())
        day.totals.add(run)
        is_hit = run.plan is Plan.RETRIEVE and run.cited > 0
        days[run.decided_at.date()] = day._replace(hits=day.hits + is_hit)
    return days


def _totals(runs: Iterable[RunOutcome]) -> RunTotals:
    return total_by(runs, lambda _: None).get(None) or RunTotals()
