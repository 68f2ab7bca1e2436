"""What could not be handled is kept whole, and comes back when an operator says so."""

from __future__ import annotations

import hashlib
import threading

import pytest

from contracts.budget import Ceilings, Spend
from contracts.errors import BudgetExhausted, Conflict, NotFound, PolicyRefused
from contracts.event import Event, encode
from contracts.gate import GateRequested
from contracts.index import DocumentIndexed
from contracts.outcome import DeadLetter, Done, Next
from tests.workers.ledger_story import Story, page
from workers.parking import fingerprint_of, subject_of


def refused() -> DeadLetter:
    try:
        raise PolicyRefused("robots", "https://example.org/7 is disallowed", "another robots.txt")
    except PolicyRefused as error:
        return DeadLetter("policy", error)


def parked(story: Story) -> tuple[Event, str]:
    [event] = story.begins(page(7))
    story.handles(event, refused())
    [letter] = story.ledger.dead_letters.list(run_id=event.run_id)
    return event, letter.id


def test_a_parked_event_keeps_everything_an_operator_needs(story: Story) -> None:
    event, letter_id = parked(story)
    letter = story.ledger.dead_letters.show(letter_id)
    assert (letter.stage, letter.kind, letter.reason, letter.status) == ("crawl", "CrawlDirected", "policy", "parked")
    assert letter.exception_type == "PolicyRefused"
    assert letter.message.startswith("robots: https://example.org/7")
    assert "raise PolicyRefused" in letter.stack
    assert letter.payload == encode(event)
    assert letter.sha256 == hashlib.sha256(letter.payload).hexdigest()
    assert (letter.deliveries, letter.worker, letter.replay_count) == (1, "w1", 0)


def test_parking_names_the_gap_it_leaves(story: Story) -> None:
    event, _ = parked(story)
    [gap] = story.ledger.run(event.run_id).missing
    assert (gap.stage, gap.subject, gap.reason) == ("crawl", "https://example.org/7", "policy")
    assert "robots" in gap.detail


def test_a_raw_item_that_is_no_event_is_kept_with_its_bytes_and_cannot_be_replayed(story: Story) -> None:
    raw = b"\xff\x00not json"
    letter_id = story.ledger.dead_letters.park_raw(raw, "crawl", "malformed", ValueError("not\x00JSON"))
    letter = story.ledger.dead_letters.show(letter_id)
    assert (letter.payload, letter.reason, letter.event_id, letter.message) == (raw, "malformed", None, "not\ufffdJSON")
    with pytest.raises(Conflict, match="no event"):
        story.ledger.dead_letters.replay(letter_id, "ann")


def test_letters_are_listed_by_stage_reason_fingerprint_and_run(story: Story) -> None:
    letters = story.ledger.dead_letters
    event, letter_id = parked(story)
    raw_id = letters.park_raw(b"?", "embed", "malformed")
    found = letters.show(letter_id)
    assert {letter.id for letter in letters.list()} == {letter_id, raw_id}
    for wanted in (
        letters.list(stage="crawl"),
        letters.list(reason="policy"),
        letters.list(fingerprint=found.fingerprint),
        letters.list(run_id=event.run_id),
    ):
        assert [letter.id for letter in wanted] == [letter_id]
    assert len(letters.list(limit=1)) == 1
    with pytest.raises(NotFound):
        letters.show("dead_nothing")


def test_alike_failures_share_a_fingerprint() -> None:
    one = fingerprint_of("crawl", "Unavailable", "https://a.org/1 gave 503 after 12.5 s, run_0123456789abcdef")
    two = fingerprint_of("crawl", "Unavailable", "https://b.org/xy gave 500 after 3.5 s, run_fedcba9876543210")
    assert one == two
    assert one != fingerprint_of("search", "Unavailable", "https://a.org/1 gave 503")


def test_a_subject_is_a_page_a_question_or_documents() -> None:
    def event(body: object) -> Event:
        return Event.of(body, run_id="run_1", corpus="docs")  # type: ignore[arg-type]

    assert subject_of(event(page(1))) == "https://example.org/1"
    assert subject_of(event(GateRequested(query="why?"))) == "why?"
    documents = DocumentIndexed(document_ids=("a", "b", "c"), chunk_count=3, journal_offset=1)
    assert subject_of(event(documents)) == "a and 2 more"


def test_a_replay_brings_the_same_event_back_under_a_new_epoch(story: Story) -> None:
    event, letter_id = parked(story)
    assert story.ledger.dead_letters.replay(letter_id, "ann", note="robots changed") == event
    letter = story.ledger.dead_letters.show(letter_id)
    assert (letter.status, letter.replay_count, letter.operator) == ("replayed", 1, "ann")
    [action] = story.ledger.dead_letters.actions(letter_id)
    assert (action.operator, action.action, action.note) == ("ann", "replay", "robots changed")
    claim = story.claims(event)
    assert (claim.epoch, claim.attempts) == (2, 0)
    assert story.ledger.settle(claim, Done()).emitted == ()
    view = story.ledger.run(event.run_id)
    assert (view.status, view.dead_letters, view.settled_events) == ("failed", 0, 1)


def test_an_event_parked_again_is_the_same_letter_and_the_fourth_replay_must_be_forced(story: Story) -> None:
    letters = story.ledger.dead_letters
    event, letter_id = parked(story)
    for _ in range(3):
        letters.replay(letter_id, "ann")
        story.clock.passes(60.0)
        story.handles(event, refused())
    [letter] = letters.list()
    assert (letter.id, letter.replay_count, letter.deliveries) == (letter_id, 3, 4)
    assert letter.last_seen > letter.first_seen
    with pytest.raises(Conflict, match="force"):
        letters.replay(letter_id, "ann")
    assert letters.replay(letter_id, "ann", force=True) == event
    assert letters.actions(letter_id)[-1].action == "replay, forced"


def test_two_replays_at_once_bring_the_event_back_once(story: Story) -> None:
    _, letter_id = parked(story)
    outcomes: list[object] = []

    def replay() -> None:
        try:
            outcomes.append(story.ledger.dead_letters.replay(letter_id, "ann"))
        except Conflict as error:
            outcomes.append(error)

    threads = [threading.Thread(target=replay) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(isinstance(outcome, Event) for outcome in outcomes) == 1


def test_a_replay_reserves_anew_and_is_refused_when_that_does_not_fit(story: Story) -> None:
    costly, other = story.begins(Next(page(1), reserve=Spend(pages=2)), Next(page(2)), ceilings=Ceilings(run_pages=2))
    story.handles(costly, refused())
    [letter] = story.ledger.dead_letters.list()
    [taking] = story.handles(other, Done(emits=(Next(page(3), reserve=Spend(pages=1)),))).emitted
    with pytest.raises(BudgetExhausted):
        story.ledger.dead_letters.replay(letter.id, "ann")
    assert story.ledger.dead_letters.show(letter.id).status == "parked"
    story.handles(taking, Done())
    story.ledger.dead_letters.replay(letter.id, "ann")
    assert story.ledger.budget_left(costly.run_id).run_pages_left == 0
