"""The phases of a rollout as checks: the exit criteria of each phase (seed document 000, section 6).

    0  two weeks of runs by day, with their hit rate and cost, each with its trace
    1  the answers' success at least 5 points above the baseline's, runs less than 10 % slower
    2  the median age of cited text within its profile's target, and at most 2 % of judged sentences unsupported
    3  the learned gate's F1 at least 3 points above the heuristic's on every set it was held out from
    4  on each of 30 days a successful task's cost under its cap and no budget exceeded, p95 within 1.2 x the baseline's

A check without data does not pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from typing import Literal, NamedTuple

from sluice.contracts.base import Value
from sluice.evaluation.run_totals import RunTotals

BASELINE_DAYS = 14
LEAST_LIFT = 0.05
MOST_SLOWER = 1.10
MOST_UNSUPPORTED = 0.02
LEAST_F1_LIFT = 0.03
CAPPED_DAYS = 30
MOST_P95 = 1.2


class Check(Value):
    """One exit criterion: the measured value and the required one."""

    name: str
    outcome: Literal["passed", "failed", "no data"]
    measured: str
    needed: str


class PhaseReport(Value):
    """The checks of one phase."""

    phase: int
    checks: tuple[Check, ...]

    @property
    def is_over(self) -> bool:
        """Return whether every criterion is met."""
        return all(check.outcome == "passed" for check in self.checks)


class Day(NamedTuple):
    """The runs of one UTC day, and the number of those with citations that did not go outside."""

    totals: RunTotals
    hits: int = 0


def check_baseline(days: Mapping[date, Day], today: date, untraced: int) -> PhaseReport:
    """Check phase 0 over the 14 days before `today`, in which `untraced` runs have no trace."""
    with_runs = [day for day in _last(days, today, BASELINE_DAYS) if day.totals.runs]
    runs = sum(day.totals.runs for day in with_runs)
    hits = sum(day.hits for day in with_runs)
    usd = sum(day.totals.usd.total for day in with_runs)
    return _report(
        0,
        _check("days with runs", len(with_runs), f"{BASELINE_DAYS}", len(with_runs) >= BASELINE_DAYS),
        _check("hit rate", hits / runs if runs else None, "a figure", True),
        _check("USD per run", usd / runs if runs else None, "a figure", True),
        _check("runs without a trace", untraced if runs else None, "0", untraced == 0),
    )


def check_lift(baseline: RunTotals, now: RunTotals) -> PhaseReport:
    """Check phase 1. Success is that of benchmarks if both sides report them, else satisfaction of all runs."""
    name = "benchmark" if "benchmark" in baseline.signals and "benchmark" in now.signals else "satisfaction"
    was, is_now = (
        (totals.signals["benchmark"] if name == "benchmark" else totals.satisfaction).mean for totals in (baseline, now)
    )
    lift = None if was is None or is_now is None else is_now - was
    slower = _ratio(now.milliseconds.mean, baseline.milliseconds.mean)
    return _report(
        1,
        _at_least(f"lift of {name}", lift, LEAST_LIFT),
        _check("latency, times the baseline's", slower, f"below {MOST_SLOWER}", (slower or 0) < MOST_SLOWER),
    )


def check_freshness(
    median_age_days: Mapping[str, float | None],
    target_days: Mapping[str, float],
    unsupported: float | None,
    hallucinated: float | None = None,
) -> PhaseReport:
    """Check phase 2, for each profile with a target. Where people have judged answers, their share counts instead of
    the measured one."""
    ages = (
        _at_most(f"median age of cited text, {profile}, days", median_age_days.get(profile), target)
        for profile, target in sorted(target_days.items())
    )
    if hallucinated is not None:
        return _report(2, *ages, _at_most("hallucinated share of the manual log", hallucinated, MOST_UNSUPPORTED))
    return _report(2, *ages, _at_most("unsupported share of judged responses", unsupported, MOST_UNSUPPORTED))


def check_learned_gate(f1_lift: Mapping[str, float], reranker_slower: float | None) -> PhaseReport:
    """Check phase 3. `reranker_slower` is the latency of searches with the reranker, as a multiple of that without."""
    name = "F1 over the heuristic's"
    lifts = [_at_least(f"{name}, {source}", lift, LEAST_F1_LIFT) for source, lift in sorted(f1_lift.items())]
    slower = _at_most("latency with the reranker, times that without", reranker_slower, MOST_SLOWER)
    return _report(3, *(lifts or [_at_least(name, None, LEAST_F1_LIFT)]), slower)


def check_costs(
    days: Mapping[date, Day], today: date, cap_usd: float, baseline_p95_ms: float | None, days_over_budget: int
) -> PhaseReport:
    """Check phase 4 over the 30 days before `today`."""
    last = _last(days, today, CAPPED_DAYS)
    known = [cost for day in last if (cost := cost_per_success(day.totals)) is not None]
    together = RunTotals()
    for day in last:
        together.merge(day.totals)
    under = sum(cost <= cap_usd for cost in known)
    capped = f"days at {cap_usd:g} USD or less per successful task"
    return _report(
        4,
        _check(capped, under if known else None, f"{CAPPED_DAYS}", under >= CAPPED_DAYS),
        _at_most("p95, times the baseline's", _ratio(together.latency.quantile(0.95), baseline_p95_ms), MOST_P95),
        _check("days over budget", days_over_budget, "0", days_over_budget == 0),
    )


MOST_WORSE = 0.05
"""Satisfaction points that a deploy may lose against the baseline."""


class DeployReport(Value):
    """The checks of deploys, in order of time: each measure of each deploy."""

    checks: tuple[Check, ...]

    @property
    def regressions(self) -> tuple[str, ...]:
        """Return the measures that failed in every deploy."""
        outcomes: dict[str, list[str]] = {}
        for check in self.checks:
            outcomes.setdefault(check.name.partition(" of ")[0], []).append(check.outcome)
        return tuple(name for name, found in outcomes.items() if set(found) == {"failed"})


def check_deploys(baseline: RunTotals, deploys: Mapping[str, RunTotals]) -> DeployReport:
    """Check the p95 and the satisfaction of each deploy against the baseline's. One bad deploy may be chance."""
    checks = []
    for name, totals in deploys.items():
        slower = _ratio(totals.latency.quantile(0.95), baseline.latency.quantile(0.95))
        checks.append(_at_most(f"p95 of {name}, times the baseline's", slower, MOST_P95))
        was, is_now = baseline.satisfaction.mean, totals.satisfaction.mean
        lift = None if was is None or is_now is None else is_now - was
        checks.append(_check(f"satisfaction of {name}", lift, f"at least -{MOST_WORSE:g}", (lift or 0) >= -MOST_WORSE))
    return DeployReport(checks=tuple(checks))


def cost_per_success(totals: RunTotals) -> float | None:
    """Return the USD of the judged runs divided by the sum of their satisfaction; None without success."""
    return totals.judged_usd.total / totals.satisfaction.total if totals.satisfaction.total else None


def _last(days: Mapping[date, Day], today: date, count: int) -> list[Day]:
    """Return the existing ones of the `count` days before `today`, latest first."""
    found = (days.get(today - timedelta(days=back)) for back in range(1, count + 1))
    return [day for day in found if day is not None]


def _ratio(above: float | None, below: float | None) -> float | None:
    return None if above is None or not below else above / below


def _report(phase: int, *checks: Check) -> PhaseReport:
    return PhaseReport(phase=phase, checks=checks)


def _at_least(name: str, measured: float | None, least: float) -> Check:
    return _check(name, measured, f"at least {least:g}", (measured or 0.0) >= least)


def _at_most(name: str, measured: float | None, most: float) -> Check:
    return _check(name, measured, f"at most {most:g}", (measured or 0.0) <= most)


def _check(name: str, measured: float | None, needed: str, is_met: bool) -> Check:
    """Return a check that is passed or failed with a measurement, and without data otherwise."""
    if measured is None:
        return Check(name=name, outcome="no data", measured="-", needed=needed)
    return Check(name=name, outcome="passed" if is_met else "failed", measured=f"{measured:.4g}", needed=needed)
