"""The audit as a list: by operator, action and subject, in parts; and the decisions of each hour."""

from __future__ import annotations

import pytest

from sluice.contracts.errors import InvalidInput
from sluice.contracts.operations.actions import ActionPage
from sluice.contracts.plan import Plan
from sluice.ledger.schema.tables import outcomes
from tests.support.ledger_story import NOON, Story


def subjects(story: Story, **wanted: object) -> list[str]:
    return [one.subject for one in story.ledger.console.actions(ActionPage.model_validate(wanted))]


def test_actions_are_listed_the_latest_first_and_filtered(story: Story) -> None:
    console = story.ledger.console
    console.record("key_a", "release", ["one", "two"], "both")
    story.clock.passes(1)
    console.record("key_b", "purge", ["one"])
    assert subjects(story) == ["one", "two", "one"]
    assert subjects(story, operator="key_a") == ["two", "one"]
    assert subjects(story, action="purge") == ["one"]
    assert subjects(story, subject="one", operator="key_a") == ["one"]
    assert subjects(story, subject="none") == []
    [latest, *_] = console.actions(ActionPage())
    assert (latest.at.timestamp(), latest.operator, latest.action, latest.note) == (NOON + 1, "key_b", "purge", "")


def test_parts_follow_one_another_whatever_is_added(story: Story) -> None:
    for number in range(5):
        story.ledger.console.record("key_a", "act", [f"{number}"])
    first = story.ledger.console.actions(ActionPage(limit=2))
    story.ledger.console.record("key_a", "act", ["later"])
    assert [one.subject for one in first] == ["4", "3"]
    assert subjects(story, limit=9, cursor=first[-1].position) == ["2", "1", "0"]


@pytest.mark.parametrize("cursor", ["x", "-1", "1.5", "9" * 30, ""])
def test_what_is_no_position_is_refused(story: Story, cursor: str) -> None:
    with pytest.raises(InvalidInput):
        story.ledger.console.actions(ActionPage(cursor=cursor))


def test_decisions_are_counted_by_plan_and_hour(story: Story) -> None:
    row = {"corpus": "docs", "profile": "default", "config_hash": "", "propensity": 1.0, "changed_at": NOON}
    with story.ledger.database.writing() as connection:
        for number, (plan, after) in enumerate((("skip", 10), ("skip", 20), ("search", 30), ("skip", 3_610))):
            connection.insert(outcomes, {"run_id": f"run_{number}", "plan": plan, "decided_at": NOON + after, **row})
    hour = int(NOON // 3_600)
    counted = {(Plan.SKIP, hour): 2, (Plan.SEARCH, hour): 1, (Plan.SKIP, hour + 1): 1}
    assert story.ledger.outcomes.plans_by_hour(NOON) == counted
    assert story.ledger.outcomes.plans_by_hour(NOON + 3_600) == {(Plan.SKIP, hour + 1): 1}
