"""Old runs leave the ledger as a whole; nothing that is open, parked or young goes with them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import text

from sluice.contracts.budget import Spend
from sluice.contracts.errors import NotFound, PolicyRefused
from sluice.contracts.event import DeadLetter, Done, Event, Next, Retry
from sluice.contracts.gate import FeedbackGiven
from sluice.ledger import retention
from sluice.ledger.database import Database
from sluice.ledger.retention import Pruned, Pruning
from tests.support.ledger_story import Story, page

DAY_SECONDS = 86_400.0


@pytest.fixture
def database(story: Story) -> Iterator[Database]:
    database = Database(story.url)
    yield database
    database.close()


@pytest.fixture
def prunes(story: Story, database: Database) -> Pruning:
    return Pruning(database, story.clock)


def days_ago(story: Story, days: float) -> datetime:
    return datetime.fromtimestamp(story.clock.now, UTC) - timedelta(days=days)


def ended(story: Story, number: int = 1) -> Event:
    """An event of a run that has ended."""
    [event] = story.begins(page(number), idempotency_key=f"key-{number}")
    story.handles(event, Done())
    assert story.ledger.status_of(event.run_id) == "finished"
    return event


def parked(story: Story, number: int = 1) -> Event:
    [event] = story.begins(page(number))
    story.handles(event, DeadLetter("policy", PolicyRefused("robots", "disallowed", "nothing")))
    return event


def rows(database: Database, table: str) -> int:
    with database.installing() as connection:
        found: Any = connection.execute(text(f"SELECT count(*) FROM {table}")).scalar()
        return int(found)


def test_a_run_that_ended_long_ago_goes_with_its_events_and_a_young_one_stays(
    story: Story, database: Database, prunes: Pruning
) -> None:
    old = ended(story, 1)
    story.clock.passes(10 * DAY_SECONDS)
    young = ended(story, 2)
    removed = prunes.prune(days_ago(story, 5), "me")
    assert (removed.runs, removed.events) == (1, 2)  # the event, and that the run finished
    with pytest.raises(NotFound):
        story.ledger.run(old.run_id)
    assert story.ledger.run(young.run_id).status == "finished"
    assert (rows(database, "runs"), rows(database, "events")) == (1, 2)


def test_a_dry_run_counts_what_would_go_and_removes_nothing(story: Story, database: Database, prunes: Pruning) -> None:
    for number in range(3):
        ended(story, number)
    story.clock.passes(10 * DAY_SECONDS)
    counted = prunes.count(days_ago(story, 5))
    assert (rows(database, "runs"), rows(database, "operator_actions")) == (3, 0)
    assert prunes.prune(days_ago(story, 5), "me") == counted
    assert counted.runs == 3


def test_a_run_that_is_not_over_stays_however_old(story: Story, prunes: Pruning) -> None:
    ready, waiting = story.begins(page(1))[0], story.begins(page(2))[0]
    held = story.claims(ready)
    story.handles(waiting, Retry(after_seconds=1e9, why="later"))
    story.clock.passes(100 * DAY_SECONDS)
    assert prunes.prune(days_ago(story, 1), "me").runs == 0
    story.ledger.settle(held, Done())


def test_a_run_that_has_feedback_to_take_stays_until_it_is_taken(story: Story, prunes: Pruning) -> None:
    event = ended(story)
    body = FeedbackGiven(outcome="success")
    feedback = Event.of(body, run_id=event.run_id, corpus="docs")
    story.ledger.add_event(feedback)
    story.clock.passes(10 * DAY_SECONDS)
    assert prunes.prune(days_ago(story, 1), "me").runs == 0
    story.handles(feedback, Done())
    assert prunes.prune(days_ago(story, 1), "me").runs == 1


def test_a_run_with_a_parked_letter_stays_until_an_operator_has_decided(
    story: Story, database: Database, prunes: Pruning
) -> None:
    event = parked(story)
    story.clock.passes(10 * DAY_SECONDS)
    assert prunes.prune(days_ago(story, 1), "me") == Pruned(days=0)
    with database.installing() as connection:
        connection.execute(text("UPDATE dead_letters SET status = 'purged'"))
    removed = prunes.prune(days_ago(story, 1), "me")
    assert (removed.runs, removed.dead_letters) == (1, 1)
    with pytest.raises(NotFound):
        story.ledger.run(event.run_id)


def test_a_letter_of_no_run_goes_once_it_is_done_with(story: Story, database: Database, prunes: Pruning) -> None:
    story.ledger.dead_letters.park_raw(b"rubbish", "crawl", "malformed")
    story.clock.passes(10 * DAY_SECONDS)
    assert prunes.prune(days_ago(story, 1), "me").dead_letters == 0
    with database.installing() as connection:
        connection.execute(text("UPDATE dead_letters SET status = 'purged'"))
    assert prunes.prune(days_ago(story, 1), "me").dead_letters == 1
    assert rows(database, "dead_letters") == 0


def test_a_day_goes_once_nothing_is_reserved_on_it(story: Story, database: Database, prunes: Pruning) -> None:
    [held] = story.begins(Next(page(1), reserve=Spend(pages=1)))
    claim = story.claims(held)
    story.clock.passes(10 * DAY_SECONDS)
    assert prunes.prune(days_ago(story, 1), "me").days == 0
    story.ledger.settle(claim, Done(spend=Spend(pages=1)))
    assert prunes.prune(days_ago(story, 1), "me").days == 1
    assert rows(database, "days") == 1  # today, where the page was booked


def test_many_rows_go_in_bounded_transactions(
    story: Story, database: Database, prunes: Pruning, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "MOST_ROWS", 7)
    for number in range(3):
        for event in story.begins(*[page(10 * number + n) for n in range(10)]):
            story.handles(event, Done())
    story.clock.passes(10 * DAY_SECONDS)
    steps = list(prunes.in_steps(days_ago(story, 1).timestamp()))
    assert max(step.events for step in steps) == 7
    assert sum(step.runs for step in steps) == 3
    assert rows(database, "events") == rows(database, "runs") == 0


def test_an_interrupted_pruning_is_finished_by_the_next(
    story: Story, database: Database, prunes: Pruning, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "MOST_ROWS", 4)
    for event in story.begins(*[page(n) for n in range(10)]):
        story.handles(event, Done())
    story.clock.passes(10 * DAY_SECONDS)
    next(iter(prunes.in_steps(days_ago(story, 1).timestamp())))
    assert rows(database, "runs") == 1
    assert rows(database, "events") == 7
    assert prunes.prune(days_ago(story, 1), "me") == Pruned(runs=1, events=7)


def test_who_pruned_and_what_went_is_recorded(story: Story, database: Database, prunes: Pruning) -> None:
    ended(story)
    story.clock.passes(10 * DAY_SECONDS)
    prunes.prune(days_ago(story, 1), "me")
    with database.installing() as connection:
        found = connection.execute(text("SELECT operator, action, note FROM operator_actions ORDER BY seq")).all()
    assert [(row.operator, row.action) for row in found] == [("me", "prune"), ("me", "pruned")]
    assert "2031-05-15" in found[0].note
    assert '"runs": 1' in found[1].note


def test_a_request_under_the_key_of_a_run_that_is_gone_is_a_new_one(story: Story, prunes: Pruning) -> None:
    old = ended(story, 1)
    story.clock.passes(10 * DAY_SECONDS)
    prunes.prune(days_ago(story, 1), "me")
    [again] = story.begins(page(1), idempotency_key="key-1")
    assert again.run_id != old.run_id
