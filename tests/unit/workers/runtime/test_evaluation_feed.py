"""The evaluator is fed from the ledger: each run once, when its feedback has had its time, after a restart as before."""

from __future__ import annotations

import pytest

from sluice.contracts.event import Done
from sluice.evaluation.evaluator import Evaluator, Windowing, summarise_windows
from sluice.evaluation.run_totals import Summary
from sluice.workers.processes.watches.gate import EvaluationFeed
from tests.support.ledger_story import Story
from tests.support.outcome_story import answers, asks_and_decides, cites, says

WINDOWING = Windowing(runs=4, seconds=86_400, grace_seconds=600, kept=5)


def asks(story: Story, outcome: str | None = "success") -> str:
    decision = asks_and_decides(story)
    answers(story, decision[-1], cites({"https://example.org/a": 60.0}))
    if outcome:
        story.handles(says(story, decision[0].run_id, outcome=outcome), Done())
    return decision[0].run_id


def seen(evaluator: Evaluator) -> list[tuple[float, float, bool, Summary]]:
    windows = evaluator.windows("default")
    return [(window.began_at, window.ends_at, window.is_closed, summarise_windows([window])) for window in windows]


def feed(story: Story) -> EvaluationFeed:
    return EvaluationFeed(story.ledger.outcomes, WINDOWING, story.clock)


def test_a_run_is_folded_once_and_not_before_its_grace_is_over(story: Story) -> None:
    fed = feed(story)
    asks(story)
    assert fed.refresh()
    assert fed.evaluator.folded == 0
    story.clock.passes(601)
    for _ in range(3):
        assert fed.refresh()
    assert fed.evaluator.folded == 1


def test_feedback_within_the_grace_is_in(story: Story) -> None:
    fed = feed(story)
    run_id = asks(story, outcome=None)
    fed.refresh()
    story.clock.passes(300)
    story.handles(says(story, run_id, outcome="failure"), Done())
    story.clock.passes(301)
    fed.refresh()
    assert [summary.judged for *_, summary in seen(fed.evaluator)] == [1]


def test_a_feed_that_begins_anew_has_the_same_windows(story: Story) -> None:
    fed = feed(story)
    for number in range(40):
        asks(story, ("success", "failure", None)[number % 3])
        story.clock.passes(7_000)
        fed.refresh()
    anew = feed(story)
    anew.refresh()
    assert anew.evaluator.folded <= fed.evaluator.folded
    assert len(seen(anew.evaluator)) >= 3
    assert seen(fed.evaluator) == seen(anew.evaluator)


def test_a_long_past_is_read_in_slices(story: Story) -> None:
    for _ in range(5):
        asks(story)
    story.clock.passes(601)
    fed = feed(story)
    assert not fed.refresh(most=2)
    assert fed.evaluator.folded == 2
    assert fed.behind_seconds > 0
    assert not fed.refresh(most=2)
    assert fed.refresh(most=2)
    assert fed.evaluator.folded == 5
    assert fed.behind_seconds == pytest.approx(0)
