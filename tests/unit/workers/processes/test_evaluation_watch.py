"""The reconciler shows the evaluator's latest windows as metrics, with every label set from the start."""

from __future__ import annotations

import math

import pytest

from sluice.contracts.event import Done
from sluice.contracts.plan import Plan
from sluice.otel import metrics
from sluice.workers.processes.watches.gate import REFRESH_SECONDS, EvaluationWatch
from tests.support.ledger_story import Story
from tests.support.metric import value_of
from tests.support.outcome_story import answers, asks_and_decides, cites, says

PAGE = "https://example.org/a"


def asks(story: Story, outcome: str | None) -> None:
    decision = asks_and_decides(story)
    story.clock.passes(0.2)
    answers(story, decision[-1], cites({PAGE: 60.0}))
    if outcome:
        story.handles(says(story, decision[0].run_id, outcome=outcome, chunk_ids_used=[f"{PAGE}-1"]), Done())


def watch(story: Story) -> EvaluationWatch:
    return EvaluationWatch(story.ledger, ("default", "code"))


def test_every_profile_and_plan_has_its_metrics_before_the_first_run(story: Story) -> None:
    watch(story)
    for plan in Plan:
        where = {"profile": "code", "plan": plan.value}
        assert value_of(metrics.EVALUATION_RUNS, **where) == 0
        assert value_of(metrics.EVALUATION_JUDGED_SHARE, **where) == 0
        assert math.isnan(value_of(metrics.EVALUATION_SATISFACTION, **where, bound="high"))


def test_the_figures_of_the_runs_are_shown_once_their_feedback_has_had_its_time(story: Story) -> None:
    watching = watch(story)
    for outcome in ("success", "success", "failure", None):
        asks(story, outcome)
    where = {"profile": "default", "plan": "retrieve"}
    watching.look()
    assert value_of(metrics.EVALUATION_RUNS, **where) == 0
    story.clock.passes(3_601)
    watching.look()
    assert value_of(metrics.EVALUATION_RUNS, **where) == 4
    assert value_of(metrics.EVALUATION_JUDGED, **where) == 3
    assert value_of(metrics.EVALUATION_JUDGED_SHARE, **where) == 0.75
    low, estimate, high = (
        value_of(metrics.EVALUATION_SATISFACTION, **where, bound=bound) for bound in ("low", "estimate", "high")
    )
    assert low < estimate < high
    assert estimate == pytest.approx(2 / 3)
    assert value_of(metrics.EVALUATION_PRECISION_AT_K, **where, bound="estimate") == 1.0
    assert value_of(metrics.EVALUATION_TOKEN_SPEND, **where) == 100
    assert value_of(metrics.EVALUATION_LATENCY_SECONDS, **where, quantile="0.95") == pytest.approx(0.2, rel=0.01)
    assert value_of(metrics.EVALUATION_BEHIND_SECONDS) == 0


def test_a_refresh_waits_for_its_time_once_all_is_read(story: Story) -> None:
    watching = watch(story)
    watching.look()
    asks(story, "success")
    story.clock.passes(REFRESH_SECONDS - 1)
    watching.look()
    story.clock.passes(3_601)
    watching.look()
    assert value_of(metrics.EVALUATION_RUNS, profile="default", plan="retrieve") == 1
