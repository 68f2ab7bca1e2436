"""A claim is exclusive, ends, and counts the workers that die of it."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import select, text

from sluice.contracts.errors import Fenced
from sluice.contracts.event import Done, Next
from sluice.ledger.audit import actions_on
from sluice.ledger.events import beats, claims
from sluice.ledger.ledger import Claim, NotClaimed
from sluice.ledger.schema.tables import events, operator_actions, worker_beats
from tests.support.ledger_story import Story, page


def test_a_claim_brings_the_event_and_its_history(story: Story) -> None:
    event = story.asks()
    claim = story.claims(event)
    assert claim.event == event
    assert (claim.epoch, claim.attempts, claim.deliveries, claim.deaths) == (1, 0, 1, 0)


def test_a_claimed_event_is_not_claimed_again_while_its_lease_lasts(story: Story) -> None:
    [event] = story.begins(page())
    story.claims(event, "w1")
    story.clock.passes(9.9)
    assert story.ledger.expire_leases(3) == ()
    assert story.finds_nothing() == "nothing_ready"


def test_an_event_stands_as_the_ledger_says(story: Story) -> None:
    [event] = story.begins(page())
    assert story.statuses(event) == "ready"
    settled = story.handles(event, Done())
    assert story.statuses(event) == "settled"
    assert story.statuses(settled.emitted[-1]) == "recorded"
    assert story.ledger.standing("evt_nothing") is None


def test_a_claim_takes_what_its_stage_has_and_nothing_of_another(story: Story) -> None:
    story.begins(page())
    assert story.finds_nothing("search") == "nothing_ready"


def test_a_lease_that_ran_out_is_taken_over_and_the_old_claim_is_fenced(story: Story) -> None:
    [event] = story.begins(page())
    old = story.claims(event, "w1")
    story.clock.passes(10.0)
    assert story.ledger.expire_leases(3) == (("crawl", event.id),)
    new = story.claims(event, "w2")
    assert (new.epoch, new.deliveries) == (2, 2)
    with pytest.raises(Fenced):
        story.ledger.settle(old, Done(emits=(Next(page(2)),)))
    assert story.ledger.beat("w1", 10.0) == frozenset()
    assert [kind for _, kind in _kinds(story, event.run_id)] == ["CrawlDirected"]


def test_a_slow_worker_that_nobody_replaced_may_still_settle(story: Story) -> None:
    [event] = story.begins(page())
    claim = story.claims(event)
    story.clock.passes(60.0)
    assert story.ledger.settle(claim, Done()).finished


def test_a_worker_that_beats_keeps_its_claims_and_a_silent_one_loses_them(story: Story) -> None:
    kept, lost = story.begins(page(1), page(2))
    for worker in ("w1", "w2"):
        story.ledger.beat(worker, 5.0)
    taken = [story.ledger.claim_next("crawl", worker, 600.0) for worker in ("w1", "w2")]
    assert [claim.event.id for claim in taken if isinstance(claim, Claim)] == [kept.id, lost.id]
    for _ in range(9):
        story.clock.passes(1.0)
        assert story.ledger.beat("w1", 5.0) == {(kept.id, 1)}
        assert story.ledger.expire_leases(3) == ()
    story.clock.passes(1.0)
    assert story.ledger.expire_leases(3) == (("crawl", lost.id),), "crawl waits for two leases of five seconds"
    assert (story.statuses(kept), story.statuses(lost)) == ("claimed", "ready")
    assert story.ledger.beat("w2", 5.0) == frozenset(), "so a worker learns what it has lost"
    [died] = [one for one in story.ledger.attempts(lost.run_id) if one.event_id == lost.id]
    assert (died.ending, died.why) == ("died", "its lease ran out")


def test_a_worker_that_beats_holds_nothing_beyond_the_limit_of_its_claim(story: Story) -> None:
    [event] = story.begins(page())
    story.ledger.beat("w1", 5.0)
    story.claims(event, "w1")
    story.clock.passes(10.0)
    story.ledger.beat("w1", 5.0)
    assert story.ledger.expire_leases(3) == (("crawl", event.id),)


def test_an_answers_stage_does_not_wait_for_a_silent_worker_as_long_as_the_others(story: Story) -> None:
    [directed], asked = story.begins(page()), story.asks()
    story.ledger.beat("w1", 5.0)
    for event in (directed, asked):
        assert event.queue is not None
        assert isinstance(story.ledger.claim_next(event.queue, "w1", 600.0), Claim)
    story.clock.passes(5.0)
    assert story.ledger.expire_leases(3) == (("query", asked.id),)
    story.clock.passes(5.0)
    assert story.ledger.expire_leases(3) == (("crawl", directed.id),)


def test_a_worker_that_comes_back_as_its_claims_are_looked_at_keeps_them(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    [event] = story.begins(page())
    story.ledger.beat("w1", 5.0)
    assert isinstance(story.ledger.claim_next("crawl", "w1", 600.0), Claim)
    story.clock.passes(10.0)
    free = claims.free

    def comes_back(*facts: Any, **more: Any) -> Any:
        monkeypatch.undo()
        beats.beat(facts[0], "w1", story.clock(), 5.0)
        return free(*facts, **more)

    monkeypatch.setattr(claims, "free", comes_back)
    assert story.ledger.expire_leases(3) == ()
    assert story.statuses(event) == "claimed"


def test_a_worker_is_forgotten_once_it_is_silent_for_long_and_holds_nothing(story: Story) -> None:
    [event] = story.begins(page())
    for worker in ("idle", "holds", "beats"):
        story.ledger.beat(worker, 5.0)
    story.claims(event, "holds")
    with story.ledger.database.writing() as connection:
        connection.update(events, {"id": event.id}, {"due_at": story.clock() + 600})
    story.clock.passes(10.0)
    story.ledger.beat("beats", 5.0)
    known = select(worker_beats.c.worker).order_by(worker_beats.c.worker)
    story.ledger.expire_leases(3)
    assert story.ledger.database.read(known).scalars() == ["beats", "holds"]
    story.ledger.expire_leases(3)
    assert story.ledger.database.read(known).scalars() == ["beats"]


def test_the_third_death_parks_the_event_as_poison_and_closes_its_run(story: Story) -> None:
    [event] = story.begins(page())
    for worker in ("w1", "w2", "w3"):
        story.claims(event, worker)
        story.clock.passes(10.0)
        story.ledger.expire_leases(3)
    kinds = [kind for _, kind in _kinds(story, event.run_id)]
    assert kinds == ["CrawlDirected", "GapFound", "RunFinished"]
    [letter] = story.ledger.dead_letters.list()
    assert (letter.reason, letter.deliveries, letter.event_id, letter.worker) == ("poison", 3, event.id, "w3")
    view = story.ledger.run(event.run_id)
    assert (view.status, view.dead_letters, view.open_events) == ("failed", 1, 0)
    assert story.statuses(event) == "dead"


def test_a_run_says_that_what_killed_its_workers_was_replayed_with_success(story: Story) -> None:
    [event] = story.begins(page())
    for _ in range(3):
        story.claims(event)
        story.ledger.release("w1")
    [letter] = story.ledger.dead_letters.list()
    story.ledger.dead_letters.replay(letter.id, "ann")
    story.handles(event, Done())
    view = story.ledger.run(event.run_id)
    assert ([gap.reason for gap in view.mended], view.missing) == (["poison"], ())


def test_the_claims_of_a_dead_worker_are_freed_at_once(story: Story) -> None:
    mine, other = story.begins(page(1), page(2))
    old = story.claims(mine, "w1")
    story.claims(other, "w2")
    assert story.ledger.release("w1") == (("crawl", mine.id),)
    with pytest.raises(Fenced):
        story.ledger.settle(old, Done())
    assert story.claims(mine, "w3").epoch == 2
    assert story.statuses(other) == "claimed"


def test_a_release_counts_deaths_up_to_poison(story: Story) -> None:
    [event] = story.begins(page())
    for _ in range(2):
        story.claims(event)
        assert story.ledger.release("w1") == (("crawl", event.id),)
    story.claims(event)
    assert story.ledger.release("w1") == ()
    assert story.statuses(event) == "dead"


def test_claims_handed_back_by_a_living_worker_count_no_death(story: Story) -> None:
    [event] = story.begins(page())
    for _ in range(5):
        story.claims(event)
        assert story.ledger.release("w1", died=False) == (("crawl", event.id),)
    assert story.claims(event).deaths == 0


def test_what_a_worker_died_on_is_left_to_one_that_holds_nothing_else(story: Story) -> None:
    suspect, other = story.begins(page(1), page(2))
    story.claims(suspect, "w1")
    story.ledger.release("w1")
    refused = story.ledger.claim_next("crawl", "busy", 10.0, alone=False)
    assert refused == NotClaimed("suspects_wait")
    assert story.claims(suspect, "idle").deaths == 1
    beside = story.ledger.claim_next("crawl", "busy", 10.0, alone=False)
    assert isinstance(beside, Claim)
    assert beside.event == other


def test_an_event_that_this_version_cannot_read_is_parked_with_its_payload(story: Story) -> None:
    broken, sound = story.begins(page(1), page(2))
    with story.ledger.database.writing() as connection:
        connection.execute(text('UPDATE events SET payload = \'{"kind": "Later"}\' WHERE id = :id'), {"id": broken.id})
    refused = story.ledger.claim_next("crawl", "w1", 10.0)
    assert isinstance(refused, NotClaimed)
    assert refused.reason == "malformed"
    [letter] = story.ledger.dead_letters.list()
    assert (letter.reason, letter.event_id) == ("malformed", broken.id)
    assert story.ledger.dead_letters.show(letter.id).payload.raw == b'{"kind": "Later"}'
    story.handles(sound, Done())
    view = story.ledger.run(sound.run_id)
    assert (view.status, view.dead_letters, view.open_events) == ("failed", 1, 0)


def test_a_paused_stage_gives_nothing_until_its_probe_is_due(story: Story) -> None:
    [event] = story.begins(page())
    assert story.ledger.pause("crawl", "51 of the last 100 events failed", seconds=5.0)
    assert not story.ledger.pause("crawl", "again", seconds=5.0)
    assert story.finds_nothing() == "paused"
    story.clock.passes(5.0)
    probe = story.claims(event)
    assert probe.is_probe
    story.begins(page(2))
    assert story.finds_nothing() == "paused"
    assert story.ledger.resume("crawl")
    assert isinstance(story.ledger.claim_next("crawl", "w2", 10.0), Claim)


def test_an_operators_pause_ends_only_by_an_operator(story: Story) -> None:
    story.begins(page())
    story.ledger.pause("crawl", "failing", seconds=5.0)
    story.ledger.pause("crawl", "until the site is back", operator="ada")
    story.clock.passes(60.0)
    assert story.finds_nothing() == "paused"
    assert not story.ledger.resume("crawl")
    [pause] = story.ledger.paused()
    assert (pause.stage, pause.operator, pause.why, pause.until) == ("crawl", "ada", "until the site is back", None)
    assert story.ledger.resume("crawl", operator="grace")
    assert isinstance(story.ledger.claim_next("crawl", "w2", 10.0), Claim)


def test_what_operators_do_to_a_stage_is_recorded_once_and_on_the_stage(story: Story) -> None:
    story.ledger.pause("crawl", "until the site is back", operator="ada")
    story.ledger.resume("crawl", operator="grace")
    with story.ledger.database.reading() as connection:
        done = [(one.action, one.operator, one.note) for one in actions_on(connection, "stage:crawl")]
        subjects = connection.execute(select(operator_actions.c.subject).distinct()).scalars()
    assert done == [("pause", "ada", "until the site is back"), ("resume", "grace", "")]
    assert subjects == ["stage:crawl"]


def _kinds(story: Story, run_id: str) -> list[tuple[int, str]]:
    return [(seq, event.kind) for seq, event in story.ledger.events_after(run_id)]
