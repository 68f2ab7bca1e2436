"""The checks of the phases: what passes, what fails, and that no data is no pass."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

from sluice.contracts.learning.run_outcome import RunOutcome
from sluice.contracts.plan import Plan
from sluice.evaluation.phases import Day, check_baseline, check_costs, check_freshness, check_learned_gate, check_lift
from sluice.evaluation.run_totals import RunTotals

TODAY = date(2026, 3, 31)


def totals(runs: int, *, milliseconds: float = 100.0, usd: float = 0.01, satisfied: float = 0.8) -> RunTotals:
    """So many judged runs, of which a share was satisfied."""
    found = RunTotals()
    for number in range(runs):
        found.add(
            RunOutcome(
                run_id=f"run_{number}",
                corpus="default",
                profile="default",
                plan=Plan.RETRIEVE,
                config_hash="0" * 64,
                decided_at=datetime(2026, 3, 1, tzinfo=UTC),
                usd=usd,
                milliseconds=milliseconds,
                signals={"task_satisfaction": float(number < satisfied * runs)},
            )
        )
    return found


def days(count: int, **runs: float) -> dict[date, Day]:
    return {TODAY - timedelta(days=back): Day(totals(10, **runs), hits=6) for back in range(1, count + 1)}


def test_two_weeks_of_traced_runs_are_a_baseline() -> None:
    assert check_baseline(days(14), TODAY, untraced=0).is_over
    assert not check_baseline(days(13), TODAY, untraced=0).is_over
    assert not check_baseline(days(14), TODAY, untraced=1).is_over
    assert [check.outcome for check in check_baseline({}, TODAY, untraced=0).checks][1:] == ["no data"] * 3


def test_five_points_more_success_at_the_same_speed_are_a_lift() -> None:
    assert check_lift(totals(100, satisfied=0.7), totals(100, satisfied=0.76)).is_over
    assert not check_lift(totals(100, satisfied=0.7), totals(100, satisfied=0.73)).is_over
    assert not check_lift(totals(100, satisfied=0.7), totals(100, satisfied=0.8, milliseconds=120.0)).is_over
    assert not check_lift(RunTotals(), totals(100)).is_over


def test_fresh_citations_and_grounded_responses_end_the_second_phase() -> None:
    targets = {"marketing": 7.0, "code": 30.0}
    assert check_freshness({"marketing": 5.0, "code": 29.0}, targets, unsupported=0.01).is_over
    assert not check_freshness({"marketing": 8.0, "code": 29.0}, targets, unsupported=0.01).is_over
    assert not check_freshness({"marketing": 5.0, "code": 29.0}, targets, unsupported=0.03).is_over
    told = check_freshness({"marketing": 5.0}, targets, unsupported=None)
    assert {check.outcome for check in told.checks} == {"passed", "no data"}


def test_the_learned_gate_has_to_win_on_every_set() -> None:
    assert check_learned_gate({"a": 0.04, "b": 0.03}, 1.05).is_over
    assert not check_learned_gate({"a": 0.20, "b": 0.02}, 1.05).is_over
    assert not check_learned_gate({"a": 0.04}, 1.2).is_over
    assert not check_learned_gate({}, 1.0).is_over


def test_thirty_days_under_the_cap_end_the_last_phase() -> None:
    def over(found: dict[date, Day], cap_usd: float = 0.02, days_over: int = 0, p95: float | None = 100.0) -> bool:
        return check_costs(found, TODAY, cap_usd, p95, days_over).is_over

    assert over(days(30))
    assert not over(days(29))
    assert not over(days(30), cap_usd=0.01)
    assert not over(days(30), days_over=1)
    assert not over(days(30, milliseconds=130.0))
    assert not over(days(30), p95=None)
