"""What became of each claim on an event, and how many events of a run failed before."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import suppress
from datetime import datetime

import pytest
from sqlalchemy import text

from sluice.contracts.errors import Fenced, PolicyRefused
from sluice.contracts.event import DeadLetter, Discard, Done, Event, Next, Retry
from sluice.ledger.events.attempts import FIRST_KEPT, LAST_KEPT, MOST_WHY_CHARACTERS, Attempt
from sluice.ledger.ledger import Claim, GoOn
from sluice.ledger.retention import Pruning
from sluice.ledger.schema.tables import moment
from tests.support.ledger_story import NOON, Story, page

REFUSED = PolicyRefused("robots", "disallowed", "nothing")


def told(story: Story, event: Event) -> list[str | None]:
    """How the attempts on an event ended, in order."""
    return [one.ending for one in story.ledger.attempts(event.run_id) if one.event_id == event.id]


def retrying(story: Story, run_id: str) -> int:
    with story.ledger.database.reading() as connection:
        return int(connection.execute(text("SELECT retrying FROM runs WHERE run_id = :id"), {"id": run_id}).scalar())


def recount(story: Story) -> None:
    """Every run's count is what its events say, and every claim in the ledger is an attempt."""
    failed = (
        "SELECT run_id, retrying, (SELECT count(*) FROM events WHERE events.run_id = runs.run_id"
        " AND due_at IS NOT NULL AND attempts + deaths > 0) AS failed FROM runs"
    )
    with story.ledger.database.reading() as connection:
        rows = connection.execute(text(failed)).all()
        epochs = {row.id: row.epoch for row in connection.execute(text("SELECT id, epoch FROM events"))}
    assert [row.retrying for row in rows] == [row.failed for row in rows]
    kept = Counter(one.event_id for row in rows for one in story.ledger.attempts(row.run_id))
    bound = FIRST_KEPT + LAST_KEPT
    for event_id, claims in epochs.items():
        assert min(claims, bound) <= kept[event_id] <= min(claims, bound + 1)


def test_an_attempt_says_since_when_the_event_was_ready_who_took_it_when_and_how_it_ended(story: Story) -> None:
    [event] = story.begins(page())
    story.clock.passes(3)
    claim = story.claims(event, "w7")
    assert claim.waited_seconds == 3
    [under_way] = story.ledger.attempts(event.run_id)
    assert under_way == Attempt(event.id, 1, "w7", NOON, NOON + 3)
    story.clock.passes(2)
    story.ledger.settle(claim, Done())
    [settled] = story.ledger.attempts(event.run_id)
    assert settled == Attempt(event.id, 1, "w7", NOON, NOON + 3, NOON + 5, "settled")


def test_each_ending_has_its_word_and_its_reason(story: Story) -> None:
    discarded, dead, retried = story.begins(page(1), page(2), page(3))
    story.handles(discarded, Discard("too late"))
    story.handles(dead, DeadLetter("policy", REFUSED))
    story.handles(retried, Retry(5.0, "the host rests " + "." * 1_000))
    story.clock.passes(9)
    story.ledger.wake_due_retries()
    story.claims(retried, "w2")
    story.ledger.release("w2", died=False)
    story.claims(retried, "w3")
    story.ledger.release("w3")
    story.claims(retried, "w4")
    story.clock.passes(11)
    story.ledger.expire_leases(99)
    story.claims(retried, "w5")
    story.ledger.cancel(retried.run_id)
    found = story.ledger.attempts(retried.run_id)
    assert [(one.ending, one.why) for one in found if one.event_id == discarded.id] == [("discarded", "too late")]
    [parked] = [one for one in found if one.event_id == dead.id]
    assert parked.ending == "parked"
    assert str(parked.why).startswith("policy: ")
    first, *others = [one for one in found if one.event_id == retried.id]
    assert (first.ending, len(str(first.why))) == ("retried", MOST_WHY_CHARACTERS)
    assert others[0].ready_at == NOON + 5, "when its back-off was over, not when somebody looked"
    assert [(one.ending, one.why) for one in others] == [
        ("released", None),
        ("died", "its worker died"),
        ("died", "its lease ran out"),
        ("cancelled", None),
    ]


def test_what_waits_as_its_run_is_cancelled_has_no_attempt_more(story: Story) -> None:
    waits, never = story.begins(page(1), page(2))
    story.handles(waits, Retry(5.0, "later"))
    assert retrying(story, waits.run_id) == 1
    story.ledger.cancel(waits.run_id)
    assert told(story, waits) == ["retried"]
    assert told(story, never) == []
    assert retrying(story, waits.run_id) == 0


def test_the_claim_of_a_worker_that_goes_on_is_an_attempt(story: Story) -> None:
    [event] = story.begins(page())
    settled = story.ledger.settle(story.claims(event), Done((Next(page(2)),)), go_on=GoOn({"crawl": 10.0}, "w1"))
    assert settled.following is not None
    assert told(story, settled.following.event) == [None]


def test_a_probe_is_an_attempt(story: Story) -> None:
    [event] = story.begins(page())
    story.ledger.pause("crawl", "it fails", seconds=1.0)
    story.clock.passes(2)
    assert story.claims(event).is_probe
    assert told(story, event) == [None]


def test_of_many_attempts_the_first_and_the_last_are_kept(story: Story) -> None:
    [event] = story.begins(page())
    for _ in range(20):
        story.handles(event, Retry(0.0, "again", counts=False))
        story.ledger.wake_due_retries()
    story.claims(event)
    assert [one.epoch for one in story.ledger.attempts(event.run_id)] == [1, 2, 3, 16, 17, 18, 19, 20, 21]
    assert retrying(story, event.run_id) == 0, "nothing was tried"
    recount(story)


def test_attempts_are_pruned_with_their_run(story: Story) -> None:
    [event] = story.begins(page())
    story.handles(event, Retry(0.0, "again"))
    story.ledger.wake_due_retries()
    story.handles(event, Done())
    story.clock.passes(60)
    Pruning(story.ledger.database, story.clock).prune(datetime.fromtimestamp(NOON + 30, moment(0).tzinfo), "operator")
    assert story.ledger.attempts(event.run_id) == []


@pytest.mark.parametrize("seed", range(6))
def test_after_every_step_of_any_story_the_count_of_failed_events_is_right(story: Story, seed: int) -> None:
    draw = random.Random(seed)
    runs = [story.begins(page(1), page(2))[0].run_id for _ in range(3)]
    held: list[Claim] = []
    for _ in range(80):
        _anything(story, draw, runs, held)
        recount(story)


def _anything(story: Story, draw: random.Random, runs: list[str], held: list[Claim]) -> None:
    story.clock.passes(draw.random() * 4)
    deed = draw.choice(
        ["claim"] * 4 + ["settle"] * 5 + ["wake", "die", "give back", "expire", "replay", "cancel", "begin"]
    )
    worker = draw.choice(["a", "b"])
    if deed == "claim":
        claim = story.ledger.claim_next("crawl", worker, 10.0)
        held += [claim] if isinstance(claim, Claim) else []
    elif deed == "settle" and held:
        claim = held.pop(draw.randrange(len(held)))
        outcomes = [Done(), Done((Next(page(draw.randrange(99))),)), Discard("late"), DeadLetter("policy", REFUSED)]
        outcomes += [Retry(1.0, "failed"), Retry(1.0, "not tried", counts=False), DeadLetter("exhausted", REFUSED)]
        with suppress(Fenced):
            story.ledger.settle(claim, draw.choice(outcomes), max_attempts=3)
    elif deed == "wake":
        story.ledger.wake_due_retries()
    elif deed in ("die", "give back"):
        story.ledger.release(worker, died=deed == "die", max_deliveries=2)
    elif deed == "expire":
        story.ledger.expire_leases(2)
    elif deed == "replay":
        for letter in story.ledger.dead_letters.list()[:1]:
            story.ledger.dead_letters.replay(letter.id, "ana", force=True)
    elif deed == "cancel" and draw.random() < 0.3:
        story.ledger.cancel(draw.choice(runs))
    elif deed == "begin":
        runs.append(story.begins(page(draw.randrange(99)))[0].run_id)
