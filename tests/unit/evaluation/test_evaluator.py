"""The windows of the evaluator: when they close, what they hold, and that a restart does not show in them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from sluice.contracts.learning.run_outcome import RunOutcome
from sluice.contracts.plan import Plan
from sluice.evaluation.evaluator import Evaluator, Window, Windowing, summarise_windows

DAY = 86_400.0
BEGIN = datetime(2026, 3, 1, tzinfo=UTC)


def run(
    minutes: float, satisfaction: float | None = None, *, late: float = 1.0, plan: Plan = Plan.SEARCH, **fields: object
) -> RunOutcome:
    """A run decided so many minutes after the beginning, judged `late` minutes later where it is judged."""
    decided_at = BEGIN + timedelta(minutes=minutes)
    known: dict[str, object] = {
        "run_id": f"run_{minutes}",
        "corpus": "docs",
        "profile": "default",
        "plan": plan,
        "config_hash": "0" * 64,
        "decided_at": decided_at,
        "status": "finished",
        "usd": 0.01,
        "milliseconds": 100.0,
    }
    if satisfaction is not None:
        known["signals"] = {"task_satisfaction": satisfaction}
        known["judged_at"] = decided_at + timedelta(minutes=late)
    return RunOutcome.model_validate(known | fields)


def figures(window: Window) -> tuple[object, ...]:
    return window.began_at, window.ends_at, window.runs, window.judged, summarise_windows([window])


def closed(evaluator: Evaluator) -> list[Window]:
    return [window for window in evaluator.windows("default") if window.is_closed]


def test_a_window_closes_with_its_last_judged_run() -> None:
    evaluator = Evaluator(Windowing(runs=3))
    evaluator.fold(run(minute, 1.0 if minute % 2 else None) for minute in range(7))
    first, left = evaluator.windows("default")
    assert (first.is_closed, first.runs, first.judged) == (True, 6, 3)
    assert (left.is_closed, left.runs) == (False, 1)


def test_a_window_closes_at_its_time_though_few_of_its_runs_were_judged() -> None:
    evaluator = Evaluator(Windowing(runs=100, seconds=DAY))
    evaluator.fold([run(0, 1.0), run(1), run(24 * 60 + 1, 0.0)])
    assert [window.runs for window in closed(evaluator)] == [2]


def test_a_window_without_further_runs_closes_when_its_time_has_come() -> None:
    evaluator = Evaluator(Windowing(seconds=DAY))
    evaluator.fold([run(0, 1.0)])
    evaluator.close_until(BEGIN.timestamp() + DAY - 1)
    assert closed(evaluator) == []
    evaluator.close_until(BEGIN.timestamp() + DAY)
    assert len(closed(evaluator)) == len(evaluator.windows("default")) == 1


def test_feedback_after_the_grace_does_not_count_but_the_run_does() -> None:
    evaluator = Evaluator(Windowing(grace_seconds=3_600))
    evaluator.fold([run(0, 1.0, late=61), run(1, 0.0, late=59)])
    summary = summarise_windows(evaluator.windows("default"))
    assert (summary.runs, summary.judged, summary.coverage) == (2, 1, 0.5)
    assert summary.satisfaction is not None
    assert summary.satisfaction.estimate == 0.0


def test_the_figures_of_a_plan_are_those_of_its_runs() -> None:
    evaluator = Evaluator(Windowing(runs=1_000))
    evaluator.fold(run(minute, 1.0, plan=Plan.SEARCH) for minute in range(10))
    evaluator.fold(run(minute, 0.0, plan=Plan.RETRIEVE) for minute in range(10, 14))
    searched = summarise_windows(evaluator.windows("default"), Plan.SEARCH).satisfaction
    assert searched is not None
    assert (searched.estimate, searched.count) == (1.0, 10)


def months(seed: int) -> Iterator[RunOutcome]:
    generator = random.Random(seed)
    minutes = 0.0
    while minutes < 60 * 24 * 20:
        minutes += generator.expovariate(1 / 11)
        satisfaction = generator.choice([None, 0.0, 0.5, 1.0])
        yield run(minutes, satisfaction, late=generator.uniform(0, 90), usd=generator.random())


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_an_evaluator_that_begins_anew_at_a_mark_has_the_same_windows(seed: int) -> None:
    windowing = Windowing(runs=20, kept=1_000)
    first, second = Evaluator(windowing), Evaluator(windowing)
    outcomes = list(months(seed))
    first.fold(outcomes)
    later = BEGIN.timestamp() + 7 * DAY
    second.fold(outcome for outcome in outcomes if outcome.decided_at.timestamp() >= later)
    expected = [figures(window) for window in closed(first) if window.began_at >= later]
    assert len(expected) > 30
    assert [figures(window) for window in closed(second)] == expected


def test_no_more_windows_are_kept_than_were_asked_for() -> None:
    evaluator = Evaluator(Windowing(runs=1, kept=4))
    evaluator.fold(run(minute, 1.0) for minute in range(100))
    assert len(closed(evaluator)) == 4
    assert evaluator.folded == 100


def test_cost_per_successful_task_is_a_ratio_of_sums_over_the_judged_runs() -> None:
    evaluator = Evaluator()
    evaluator.fold([run(0, 1.0, usd=0.1), run(1, 0.0, usd=0.4), run(2, 0.5, usd=0.1), run(3, usd=9.0)])
    cost = summarise_windows(evaluator.windows("default")).usd_per_success
    assert cost is not None
    assert cost.estimate == pytest.approx(0.6 / 1.5)
    assert cost.low < cost.estimate < cost.high


def test_every_figure_of_a_run_is_in_the_summary() -> None:
    told = run(
        0,
        1.0,
        used=1,
        cited=4,
        tokens=700,
        external_calls=3,
        pages_asked=2,
        pages_read=1,
        cited_age_seconds=60.0,
        cited_age_without_crawl_seconds=3_660.0,
    )
    evaluator = Evaluator()
    evaluator.fold([told, told.model_copy(update={"run_id": "run_b"})])
    summary = summarise_windows(evaluator.windows("default"))
    assert summary.precision_at_k is not None
    assert summary.precision_at_k.estimate == 0.25
    assert summary.token_spend == 700
    assert summary.external_calls is not None
    assert summary.external_calls.estimate == 3
    assert summary.crawl_success_rate is not None
    assert summary.crawl_success_rate.estimate == 0.5
    assert summary.freshness_gain_seconds is not None
    assert summary.freshness_gain_seconds.estimate == 3_600
    assert summary.p95_milliseconds == pytest.approx(100, rel=0.01)
