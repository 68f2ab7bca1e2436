"""A flag is changed together with its event, its audit and the purge that follows from it, or not at all."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import select

from sluice.contracts.budget import Ceiling, Ceilings, Spend
from sluice.contracts.errors import Conflict
from sluice.contracts.event import Done, Event, Next
from sluice.contracts.ingest import SearchDirected
from sluice.contracts.learning.control import FlagAction, FlagName, FlagState
from sluice.contracts.learning.events import PendingPurged
from sluice.ledger.learning.flags import FlagChange, StoredFlag
from sluice.ledger.ledger import Claim, Ledger
from sluice.ledger.schema.tables import metadata
from sluice.ledger.transaction import Transaction
from sluice.workers.runtime.flags import resolve
from tests.support.ledger_story import NOON, Story, page


def change(story: Story, name: FlagName, action: FlagAction, note: str = "why") -> FlagChange:
    return story.ledger.flags.change(name, action, "ann", note, lambda stored: resolve(name, stored, {}, {}))


def search(query: str) -> SearchDirected:
    return SearchDirected(query=query, crawl_pages=0)


def test_a_flag_is_stored_audited_and_told_in_a_control_run(story: Story) -> None:
    changed = change(story, "rerank", "off", "too slow")
    assert changed.run is not None
    assert (changed.state.enabled, changed.state.decided_by, changed.state.operator) == (False, "stored", "ann")
    assert story.ledger.flags.all()["rerank"].enabled is False
    assert [event.kind for event in changed.run.events] == ["FlagChanged", "RunFinished"]
    [action] = story.ledger.flags.history("rerank")
    assert (action.operator, action.action, action.note) == ("ann", "flag_off", "too slow")


def test_a_change_that_changes_nothing_records_nothing(story: Story) -> None:
    change(story, "rerank", "off", "first")
    again = change(story, "rerank", "off", "second")
    assert (again.run, again.state.note) == (None, "first")
    assert change(story, "hybrid", "reset").run is None
    assert set(story.ledger.flags.all()) == {"rerank"}
    assert len(story.ledger.runs(kind="control")) == 1


def test_a_killed_flag_is_not_switched_on_before_it_is_reset(story: Story) -> None:
    change(story, "search", "off")
    assert change(story, "search", "kill").state.decided_by == "kill_switch"
    with pytest.raises(Conflict, match="sluice flags search --reset"):
        change(story, "search", "on")
    assert change(story, "search", "reset").state.decided_by == "default"
    assert story.ledger.flags.all() == {}
    assert change(story, "search", "off").state.decided_by == "stored"


def test_switching_search_off_cancels_what_waits_and_names_it_in_one_event(story: Story) -> None:
    many = story.begins(search("a"), search("b"), search("c"))
    [one] = story.begins(search("d"))
    [other] = story.begins(page())
    changed = change(story, "search", "off")
    assert changed.run is not None
    told = changed.run.events[1].body
    assert isinstance(told, PendingPurged)
    assert told.event_ids == tuple(event.id for event in (*many, one))
    assert (told.count, changed.purged, told.run_ids) == (4, 4, (many[0].run_id, one.run_id))
    for event, subject in ((many[0], "3 searches"), (one, "1 search")):
        view = story.ledger.run(event.run_id)
        assert (view.status, view.open_events) == ("failed", 0)
        [gap] = view.missing
        assert (gap.reason, gap.subject, gap.lifted_by) == ("flag_search", subject, "sluice flags search --on")
    assert story.statuses(other) == "ready"


def test_what_is_claimed_is_left_to_its_worker(story: Story) -> None:
    claimed, ready = story.begins(search("a"), search("b"))
    claim = story.claims(claimed)
    assert change(story, "search", "off").purged == 1
    assert (story.statuses(claimed), story.statuses(ready)) == ("claimed", "cancelled")
    assert story.ledger.run(claimed.run_id).status == "open"
    story.ledger.settle(claim, Done())
    assert story.ledger.run(claimed.run_id).status == "failed"


def test_a_gate_run_that_loses_its_directives_is_answered(story: Story) -> None:
    asked = story.asks("what is new?")
    story.handles(asked, Done((Next(page()),)))
    changed = change(story, "crawl", "kill")
    assert [event.kind for event in changed.emitted] == ["GapFound", "AnswerDirected"]
    assert story.ledger.run(asked.run_id).status == "answering"


def test_a_flag_flipped_back_resurrects_nothing_and_a_second_purge_finds_what_came_meanwhile(story: Story) -> None:
    [first] = story.begins(search("a"))
    change(story, "search", "off")
    change(story, "search", "on")
    assert (story.statuses(first), story.finds_nothing("search")) == ("cancelled", "nothing_ready")
    change(story, "search", "off")
    [later] = story.begins(search("b"))
    again = change(story, "search", "off")
    assert again.run is not None
    assert ([event.kind for event in again.run.events], again.purged) == (["PendingPurged", "RunFinished"], 1)
    assert story.statuses(later) == "cancelled"
    assert change(story, "search", "off").run is None


def test_purging_gives_back_what_was_reserved(story: Story) -> None:
    ceilings = Ceilings(run=Ceiling(pages=3), day=Ceiling(pages=9))
    [event] = story.begins(Next(page(), reserve=Spend(pages=2)), ceilings=ceilings)
    left = story.ledger.budget_left(event.run_id)
    assert (left.run.pages, left.day.pages) == (1, 7)
    change(story, "crawl", "off")
    left = story.ledger.budget_left(event.run_id)
    assert (left.run.pages, left.day.pages) == (3, 9)


def test_a_flag_that_another_source_holds_on_purges_nothing(story: Story) -> None:
    [event] = story.begins(search("a"))

    def held_on(stored: StoredFlag | None) -> FlagState:
        return resolve("search", stored, {"search": True}, {})

    changed = story.ledger.flags.change("search", "off", "ann", "", held_on)
    assert (changed.state.enabled, changed.state.decided_by, changed.purged) == (True, "environment", 0)
    assert story.statuses(event) == "ready"


def test_a_thousand_directives_of_two_hundred_runs_are_purged_at_once(story: Story) -> None:
    events: list[Event] = []
    for number in range(200):
        events += story.begins(*[search(f"{number} {turn}") for turn in range(5)])
    assert change(story, "search", "kill").purged == 1_000
    assert {story.statuses(event) for event in events[::97]} == {"cancelled"}


def test_purging_while_workers_claim_and_settle_loses_nothing_and_counts_nothing_twice(story: Story) -> None:
    ceilings = Ceilings(run=Ceiling(pages=9), day=Ceiling(pages=999))
    events: list[Event] = []
    for _ in range(20):
        events += story.begins(*(Next(page(turn), reserve=Spend(pages=1)) for turn in range(4)), ceilings=ceilings)
    handled: list[str] = []
    purged: list[int] = []

    def works(worker: str) -> None:
        while isinstance(claim := story.ledger.claim_next("crawl", worker, 60.0), Claim):
            story.ledger.settle(claim, Done())
            handled.append(claim.event.id)

    workers = [threading.Thread(target=works, args=(f"w{number}",)) for number in range(2)]
    for one in workers:
        one.start()
    while len(handled) < 5 and any(one.is_alive() for one in workers):
        time.sleep(0.001)
    purged.append(change(story, "crawl", "off").purged)
    for one in workers:
        one.join(30)
    statuses = Counter(story.statuses(event) for event in events)
    assert statuses == Counter({"settled": len(handled), "cancelled": sum(purged)})
    assert len(handled) + sum(purged) == len(set(handled)) + sum(purged) == len(events)
    assert {story.ledger.run(event.run_id).status for event in events} <= {"finished", "failed"}
    assert {story.ledger.run(event.run_id).open_events for event in events} == {0}
    assert story.ledger.budget_left(events[0].run_id).day.pages == 999


@pytest.mark.timeout(120)
def test_killed_at_any_statement_a_change_and_its_purge_are_all_there_or_not_at_all(story: Story) -> None:
    ceilings = Ceilings(run=Ceiling(pages=9), day=Ceiling(pages=99))
    asked = story.asks("what is new?", ceilings=ceilings)
    story.handles(asked, Done(tuple(Next(page(number), reserve=Spend(pages=1)) for number in range(3))))
    [lone] = story.begins(Next(page(), reserve=Spend(pages=1)), ceilings=ceilings)
    before, statement = _everything(story), 0
    while not _changes_until(story.url, statement):
        assert _everything(story) == before, f"something was left behind by statement {statement}"
        statement += 1
    assert statement > 10, "it was killed at a few statements only"
    assert [run.kind for run in story.ledger.runs()] == ["control", "crawl", "gate"]
    assert (story.ledger.run(asked.run_id).status, story.statuses(lone)) == ("answering", "cancelled")
    assert story.ledger.budget_left(lone.run_id).day.pages == 99
    assert change(story, "crawl", "kill").run is None, "done twice it changes nothing"


def _changes_until(url: str, statement: int) -> bool:
    """Kill the flag crawl in a process that is killed itself before that statement; whether it came to its end."""
    child = os.fork()
    if child == 0:  # pragma: no cover - another process
        ledger, left = Ledger(url, clock=lambda: NOON), [statement]

        def counted(run: Callable[..., Any]) -> Callable[..., Any]:
            def count(*arguments: Any) -> Any:
                left[0] -= 1
                if left[0] < 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                return run(*arguments)

            return count

        for name in ("execute", "execute_each", "insert", "insert_each"):
            setattr(Transaction, name, counted(getattr(Transaction, name)))
        ledger.flags.change("crawl", "kill", "ann", "", lambda stored: resolve("crawl", stored, {}, {}))
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


def _everything(story: Story) -> dict[str, list[str]]:
    """Every row of the tables that a change touches, as text."""
    tables = ("runs", "events", "days", "flags", "operator_actions")
    with story.ledger.database.reading() as connection:
        return {
            name: sorted(str(row) for row in connection.execute(select(metadata.tables[name])).all()) for name in tables
        }


def test_a_stored_flag_says_who_and_when(story: Story) -> None:
    change(story, "memory", "on", "trial")
    stored = story.ledger.flags.all()["memory"]
    assert replace(stored, changed_at=None) == StoredFlag("memory", True, False, None, "ann", "trial")
