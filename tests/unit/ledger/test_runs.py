"""A request makes one run, however often it is sent."""

from __future__ import annotations

import threading

import pytest

from sluice.contracts.errors import Conflict, NotFound
from sluice.contracts.event import Done, Event, Next, new_run_id
from sluice.ledger.ledger import CreatedRun, NewRun
from tests.support.ledger_story import Story, page


def create(story: Story, sha: str = "a" * 64, owner: str = "local", key: str | None = "k") -> CreatedRun:
    run = NewRun(run_id=new_run_id(), kind="crawl", corpus="docs", request_sha256=sha, owner=owner, idempotency_key=key)
    return story.ledger.create_run(run, [(Event.of(page(), run_id=run.run_id, corpus="docs"), Next(page()))])


def test_a_repeated_request_finds_its_run_and_publishes_nothing(story: Story) -> None:
    first = create(story)
    again = create(story)
    assert (first.created, first.status, len(first.events)) == (True, "open", 1)
    assert again == CreatedRun(first.run_id, False, "open", ())


def test_another_request_under_the_same_key_is_refused(story: Story) -> None:
    create(story)
    with pytest.raises(Conflict, match="different request"):
        create(story, sha="b" * 64)


def test_keys_belong_to_their_owner_and_no_key_is_no_key(story: Story) -> None:
    created = [
        create(story, owner="key_1"),
        create(story, owner="key_2"),
        create(story, key=None),
        create(story, key=None),
    ]
    assert all(run.created for run in created)


def test_the_same_request_from_many_threads_makes_one_run(story: Story) -> None:
    made: list[CreatedRun] = []
    threads = [threading.Thread(target=lambda: made.append(create(story))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({run.run_id for run in made}) == 1
    assert sum(run.created for run in made) == 1


def test_a_view_tells_everything_and_an_unknown_run_is_not_found(story: Story) -> None:
    asked = story.asks("what is it?", owner="key_1")
    view = story.ledger.run(asked.run_id)
    assert (view.kind, view.query, view.status, view.open_events) == ("gate", "what is it?", "open", 1)
    assert [run.owner for run in story.ledger.runs()] == ["key_1"]
    assert story.ledger.status_of(asked.run_id) == "open"
    for look in (story.ledger.run, story.ledger.status_of, story.ledger.budget_left):
        with pytest.raises(NotFound):
            look("run_nothing")


def test_a_query_with_characters_that_databases_refuse_is_kept(story: Story) -> None:
    asked = story.asks("nul \x00 inside")
    assert story.ledger.run(asked.run_id).query == "nul \ufffd inside"
    assert story.claims(asked).event == asked


def test_runs_are_listed_latest_first_in_pages_and_by_filter(story: Story) -> None:
    made = []
    for owner in ("a", "b", "a"):
        made.append(story.begins(page(), owner=owner)[0])
    newest = sorted((event.run_id for event in made), reverse=True)
    assert [run.run_id for run in story.ledger.runs()] == newest
    assert [run.run_id for run in story.ledger.runs(limit=2, before=newest[0])] == newest[1:]
    assert {run.run_id for run in story.ledger.runs(owner="a")} == {made[0].run_id, made[2].run_id}
    story.handles(made[1], Done())
    assert [run.run_id for run in story.ledger.runs(status="finished")] == [made[1].run_id]
    assert story.ledger.runs(corpus="other") == []


def test_events_are_read_on_from_a_position_in_commit_order(story: Story) -> None:
    first, second = story.begins(page(1), page(2))
    story.handles(first, Done(emits=(Next(page(3)),)))
    told = story.ledger.events_after(first.run_id)
    assert [event.body for _, event in told] == [page(1), page(2), page(3)]
    seqs = [seq for seq, _ in told]
    assert seqs == sorted(seqs)
    assert story.ledger.events_after(first.run_id, seqs[0], limit=1) == [told[1]]
    assert story.ledger.events_of_kind(first.run_id, "CrawlDirected") == [event for _, event in told]
    with pytest.raises(NotFound):
        story.ledger.event("evt_nothing")
    assert story.ledger.event(second.id) == second


def test_queue_depths_count_open_events_and_the_oldest_ones_age(story: Story) -> None:
    ready, claimed = story.begins(page(1), page(2))
    story.claims(claimed)
    story.clock.passes(4.0)
    depth = story.ledger.queue_stats()["crawl"]
    assert (depth.ready, depth.claimed, depth.waiting, depth.oldest_ready_seconds) == (1, 1, 0, 4.0)
    assert story.ledger.queue_stats()["embed"].ready == 0
    assert story.ledger.open_count() == 2
    assert ready.queue == "crawl"
