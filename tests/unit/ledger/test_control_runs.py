"""A change of what steers the gate is recorded in a run of its own, finished, and among the operators' actions."""

from __future__ import annotations

import pytest

from sluice.contracts.event import Body
from sluice.contracts.learning.events import CONTROL_CORPUS, FlagChanged
from sluice.ledger.audit import ControlChange, actions_on, record_control
from sluice.ledger.runs import CreatedRun
from tests.support.ledger_story import Story


def search_off(key: str | None = None) -> ControlChange:
    body = FlagChanged(
        name="search", action="off", was_enabled=True, enabled=False, decided_by="stored", operator="ann", note="costs"
    )
    return ControlChange((body,), "flag_off", "flag:search", "ann", "costs", key)


def recorded(story: Story, change: ControlChange) -> CreatedRun:
    with story.ledger.database.writing() as connection:
        return record_control(connection, change, story.ledger.clock())


def bodies_of(story: Story, run_id: str) -> list[Body]:
    return [event.body for _, event in story.ledger.events_after(run_id)]


def test_a_control_run_is_finished_at_once_with_its_events(story: Story) -> None:
    made = recorded(story, search_off())
    view = story.ledger.run(made.run_id)
    assert (made.status, view.status, view.kind, view.corpus) == ("finished", "finished", "control", CONTROL_CORPUS)
    assert [event.kind for event in made.events] == ["FlagChanged", "RunFinished"]
    assert bodies_of(story, made.run_id) == [event.body for event in made.events]
    assert (view.query, view.open_events) == ("flag_off flag:search: costs", 0)


def test_it_is_audited_and_listed_by_its_kind(story: Story) -> None:
    story.asks("something else")
    made = recorded(story, search_off())
    [listed] = story.ledger.runs(kind="control")
    assert (listed.run_id, listed.owner) == (made.run_id, "sluice")
    with story.ledger.database.reading() as connection:
        [action] = actions_on(connection, "flag:search")
    assert (action.operator, action.action, action.note) == ("ann", "flag_off", "costs")


def test_under_one_key_only_the_first_change_is_recorded(story: Story) -> None:
    first, again = (recorded(story, search_off("stage 2 of v7")) for _ in range(2))
    assert (first.created, again.created, again.run_id, again.events) == (True, False, first.run_id, ())
    assert recorded(story, search_off()).created
    assert recorded(story, search_off()).created
    with story.ledger.database.reading() as connection:
        assert len(actions_on(connection, "flag:search")) == 3


def test_it_is_undone_with_the_change_that_it_tells_of(story: Story) -> None:
    def killed_behind_it() -> None:
        with story.ledger.database.writing() as connection:
            record_control(connection, search_off(), story.ledger.clock())
            raise RuntimeError("killed")

    with pytest.raises(RuntimeError, match="killed"):
        killed_behind_it()
    assert story.ledger.runs(kind="control") == []
