"""A claim is exclusive, ends, and counts the workers that die of it."""

from __future__ import annotations

import pytest

from contracts.errors import Fenced
from contracts.outcome import Done, Next
from tests.workers.ledger_story import Story, page
from workers.ledger import Claim, NotClaimed


def test_a_claim_brings_the_event_and_what_is_known_of_its_run(story: Story) -> None:
    event = story.asks()
    claim = story.claims(event)
    assert claim.event == event
    assert (claim.epoch, claim.attempts, claim.deliveries, claim.run_status) == (1, 0, 1, "open")


def test_a_claimed_event_is_not_claimed_again_while_its_lease_lasts(story: Story) -> None:
    [event] = story.begins(page())
    story.claims(event, "w1")
    story.clock.passes(9.9)
    assert story.ledger.claim(event.id, "w2", 10.0, 3) == NotClaimed("claimed_elsewhere")


def test_an_unknown_event_is_unknown(story: Story) -> None:
    assert story.ledger.claim("evt_nothing", "w1", 10.0, 3) == NotClaimed("unknown")


def test_a_recorded_event_has_nothing_left_to_do(story: Story) -> None:
    [event] = story.begins(page())
    settled = story.handles(event, Done())
    assert story.statuses(settled.emitted[-1]) == "settled"


def test_a_lease_that_ran_out_is_taken_over_and_the_old_claim_is_fenced(story: Story) -> None:
    [event] = story.begins(page())
    old = story.claims(event, "w1")
    story.clock.passes(10.0)
    new = story.claims(event, "w2")
    assert (new.epoch, new.deliveries) == (2, 2)
    with pytest.raises(Fenced):
        story.ledger.settle(old, Done(emits=(Next(page(2)),)))
    with pytest.raises(Fenced):
        story.ledger.heartbeat(old, 10.0)
    assert [kind for _, kind in _kinds(story, event.run_id)] == ["CrawlDirected"]


def test_a_slow_worker_that_nobody_replaced_may_still_settle(story: Story) -> None:
    [event] = story.begins(page())
    claim = story.claims(event)
    story.clock.passes(60.0)
    assert story.ledger.settle(claim, Done()).finished


def test_a_heartbeat_keeps_the_lease(story: Story) -> None:
    [event] = story.begins(page())
    claim = story.claims(event)
    story.clock.passes(9.0)
    story.ledger.heartbeat(claim, 10.0)
    story.clock.passes(9.0)
    assert story.statuses(event) == "claimed_elsewhere"


def test_the_third_death_parks_the_event_as_poison_and_closes_its_run(story: Story) -> None:
    [event] = story.begins(page())
    for worker in ("w1", "w2", "w3"):
        story.claims(event, worker)
        story.clock.passes(10.0)
    refused = story.ledger.claim(event.id, "w4", 10.0, 3)
    assert isinstance(refused, NotClaimed)
    assert refused.reason == "poisoned"
    assert [emitted.kind for emitted in refused.emitted] == ["GapFound", "RunFinished"]
    [letter] = story.ledger.dead_letters.list()
    assert (letter.reason, letter.deliveries, letter.event_id, letter.worker) == ("poison", 3, event.id, "w3")
    view = story.ledger.run(event.run_id)
    assert (view.status, view.dead_letters, view.open_events) == ("failed", 1, 0)
    assert story.statuses(event) == "dead"


def test_the_claims_of_a_dead_worker_are_freed_at_once(story: Story) -> None:
    mine, other = story.begins(page(1), page(2))
    old = story.claims(mine, "w1")
    story.claims(other, "w2")
    assert story.ledger.release("w1") == (mine,)
    with pytest.raises(Fenced):
        story.ledger.settle(old, Done())
    assert story.claims(mine, "w3").epoch == 2
    assert story.statuses(other) == "claimed_elsewhere"


def test_a_release_counts_deaths_up_to_poison(story: Story) -> None:
    [event] = story.begins(page())
    for _ in range(2):
        story.claims(event)
        assert story.ledger.release("w1") == (event,)
    story.claims(event)
    assert [emitted.kind for emitted in story.ledger.release("w1")] == ["GapFound", "RunFinished"]


def test_claims_handed_back_by_a_living_worker_count_no_death(story: Story) -> None:
    [event] = story.begins(page())
    for _ in range(5):
        story.claims(event)
        assert story.ledger.release("w1", died=False) == (event,)
    assert isinstance(story.ledger.claim(event.id, "w1", 10.0, 3), Claim)


def _kinds(story: Story, run_id: str) -> list[tuple[int, str]]:
    return [(seq, event.kind) for seq, event in story.ledger.events_after(run_id)]
