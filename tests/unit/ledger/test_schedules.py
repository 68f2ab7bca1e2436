"""Schedules are due in order, move on once for each time, and keep what was changed meanwhile."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from sluice.contracts.errors import Conflict, NotFound
from sluice.ledger import schedules
from sluice.ledger.schema.tables import moment
from tests.support.ledger_story import Story, page


def made(story: Story, name: str, due_in: float | None = 0.0, owner: str = "local", corpus: str = "docs") -> str:
    due_at = None if due_in is None else story.clock() + due_in
    columns: dict[str, Any] = {"name": name, "request": '{"gate":{"query":"why?"}}', "time_zone": "UTC"}
    columns |= {"every_seconds": 3_600.0, "cron": None, "due_at": due_at}
    return story.ledger.schedules.insert(name, owner, corpus, columns).id


def due(story: Story, most: int = 9) -> list[str]:
    return [one.schedule.id for one in story.ledger.schedules.due(most)]


def test_the_longest_overdue_comes_first_and_what_is_paused_never(story: Story) -> None:
    for name, due_in in (("b", -1.0), ("a", -5.0), ("c", 60.0), ("d", None)):
        made(story, name, due_in)
    assert (due(story), due(story, 1)) == (["a", "b"], ["a"])


def test_a_time_moves_on_once(story: Story) -> None:
    made(story, "a")
    [one, again] = [*story.ledger.schedules.due(1), *story.ledger.schedules.due(1)]
    assert one.key == again.key
    next_at = moment(story.clock() + 3_600)
    run_id = story.begins(page(1))[0].run_id
    story.ledger.schedules.ran(one, run_id, next_at)
    story.ledger.schedules.ran(again, run_id, next_at + timedelta(hours=1))
    found = story.ledger.schedules.find("a")
    assert (found.next_at, found.last_run_id, found.every) == (next_at, run_id, timedelta(hours=1))
    assert due(story) == []


def test_what_was_changed_meanwhile_keeps_its_time_and_learns_of_the_run(story: Story) -> None:
    made(story, "a")
    [one] = story.ledger.schedules.due(1)
    changed = story.ledger.schedules.change("a", {"due_at": story.clock() + 60})
    run_id = story.begins(page(1))[0].run_id
    story.ledger.schedules.ran(one, run_id, moment(story.clock() + 3_600))
    story.ledger.schedules.stop(one, "its key was revoked")
    found = story.ledger.schedules.find("a")
    assert (found.next_at, found.last_run_id, found.stopped_because) == (changed.next_at, run_id, None)


def test_it_is_not_due_while_its_last_run_is_under_way(story: Story) -> None:
    made(story, "a")
    run_id = story.begins(page(1))[0].run_id
    story.ledger.schedules.change("a", {"last_run_id": run_id})
    assert due(story) == []
    story.ledger.cancel(run_id)
    assert due(story) == ["a"]


def test_what_was_stopped_says_why_and_is_not_due(story: Story) -> None:
    made(story, "a")
    [one] = story.ledger.schedules.due(1)
    story.ledger.schedules.stop(one, "its key was revoked")
    assert (due(story), story.ledger.schedules.find("a").stopped_because) == ([], "its key was revoked")


def test_lists_are_by_owner_and_corpus_in_parts(story: Story) -> None:
    for name, owner, corpus in (("a", "key_1", "docs"), ("b", "key_2", "docs"), ("c", "key_1", "other")):
        made(story, name, owner=owner, corpus=corpus)

    def listed(limit: int = 9, after: str | None = None, owner: str | None = None, corpora: Any = None) -> list[str]:
        return [one.id for one in story.ledger.schedules.some(limit, after, owner=owner, corpora=corpora)]

    assert (listed(), listed(1), listed(9, "a")) == (["a", "b", "c"], ["a"], ["b", "c"])
    assert (listed(owner="key_1"), listed(corpora=["docs"])) == (["a", "c"], ["a", "b"])
    assert listed(owner="key_1", corpora=["docs"]) == ["a"]


def test_a_key_has_no_more_than_its_share_and_what_is_gone_is_named(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedules, "MOST_OF_OWNER", 1)
    made(story, "a")
    with pytest.raises(Conflict):
        made(story, "b")
    made(story, "c", owner="key_1")
    story.ledger.schedules.delete("a")
    for call in (story.ledger.schedules.find, story.ledger.schedules.delete):
        with pytest.raises(NotFound):
            call("a")
    with pytest.raises(NotFound):
        story.ledger.schedules.change("a", {"name": "x"})
