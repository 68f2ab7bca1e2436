"""One transaction makes an outcome true: spend, events, gaps, retry or dead letter."""

from __future__ import annotations

import pytest

from sluice.contracts.budget import Spend
from sluice.contracts.errors import Fenced
from sluice.contracts.event import DeadLetter, Discard, Done, Gap, GapFound, Next, Retry
from sluice.contracts.gate import FeedbackGiven
from sluice.contracts.index import DocumentIndexed, SnapshotPublished
from tests.support.ledger_story import Story, page

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_what_a_handler_emits_is_recorded_with_its_cause_and_trace(story: Story) -> None:
    [event] = story.begins(page(1))
    settled = story.ledger.settle(story.claims(event), Done(emits=(Next(page(2)),)), traceparent=TRACE)
    [emitted] = settled.emitted
    assert (emitted.cause_id, emitted.traceparent, emitted.run_id) == (event.id, TRACE, event.run_id)
    assert story.ledger.event(emitted.id) == emitted
    assert story.statuses(event) == "settled"
    assert not settled.finished


def test_a_second_settle_of_the_same_claim_is_fenced_and_writes_nothing(story: Story) -> None:
    [event] = story.begins(page(1))
    claim = story.claims(event)
    story.ledger.settle(claim, Done(spend=Spend(pages=1)))
    before = story.ledger.events_after(event.run_id)
    for outcome in (Done(spend=Spend(pages=1)), Retry(1.0, "x"), DeadLetter("policy"), Discard("x")):
        with pytest.raises(Fenced):
            story.ledger.settle(claim, outcome)
    assert story.ledger.events_after(event.run_id) == before
    assert story.ledger.run(event.run_id).spend == Spend(pages=1)
    assert story.ledger.dead_letters.list() == []


def test_a_retry_that_does_not_count_is_never_the_last(story: Story) -> None:
    [event] = story.begins(page(1))
    for _ in range(3):
        story.ledger.settle(story.claims(event), Retry(0.0, "down", counts=False), max_attempts=1)
        story.ledger.wake_due_retries()
    claim = story.claims(event)
    assert (claim.attempts, claim.deliveries) == (0, 4)


@pytest.mark.parametrize("key", ["page:3", "a NUL \x00", "half a pair \ud83d"])
def test_a_second_event_with_a_dedupe_key_is_dropped_in_silence(story: Story, key: str) -> None:
    first, second = story.begins(page(1), page(2))
    same = Next(page(3), dedupe_key=key)
    assert len(story.handles(first, Done(emits=(same, same))).emitted) == 1
    settled = story.handles(second, Done(emits=(same, Next(page(4), dedupe_key="page:4"))))
    assert [event.body for event in settled.emitted] == [page(4)]
    assert settled.dropped == 1


def test_the_same_dedupe_key_in_another_run_is_another_event(story: Story) -> None:
    same = Next(page(3), dedupe_key="page:3")
    for _ in range(2):
        [event] = story.begins(page(1))
        assert len(story.handles(event, Done(emits=(same,))).emitted) == 1


def test_gaps_become_events_before_what_is_emitted(story: Story) -> None:
    [event] = story.begins(page(1))
    gap = Gap(stage="crawl", subject="https://example.org/1", reason="robots")
    settled = story.handles(event, Done(emits=(Next(page(2)),), gaps=(gap,)))
    assert [emitted.body for emitted in settled.emitted] == [GapFound(gap=gap), page(2)]
    assert story.ledger.run(event.run_id).missing == (gap,)


def test_spend_adds_up_in_the_run(story: Story) -> None:
    first, second = story.begins(page(1), page(2))
    spend = Spend(pages=1, bytes=10, tokens=5, milliseconds=1.5, usd=0.000_000_003)
    story.handles(first, Done(spend=spend))
    story.handles(second, Done(spend=spend))
    assert story.ledger.run(first.run_id).spend == spend + spend


def test_a_retry_waits_for_its_moment_and_counts_an_attempt(story: Story) -> None:
    [event] = story.begins(page(1))
    assert story.handles(event, Retry(5.0, "503")).emitted == ()
    assert story.statuses(event) == "waiting"
    assert story.ledger.wake_due_retries() == ()
    story.clock.passes(5.0)
    assert story.ledger.wake_due_retries() == (("crawl", event.id),)
    claim = story.claims(event)
    assert (claim.attempts, claim.deliveries, claim.epoch) == (1, 2, 2)


def test_the_last_attempt_ends_as_a_dead_letter(story: Story) -> None:
    [event] = story.begins(page(1))
    story.handles(event, Retry(0.0, "503"), max_attempts=2)
    story.ledger.wake_due_retries()
    settled = story.handles(event, Retry(0.0, "503 again"), max_attempts=2)
    assert [emitted.kind for emitted in settled.emitted] == ["GapFound", "RunFinished"]
    [letter] = story.ledger.dead_letters.list()
    assert (letter.reason, letter.message, letter.attempts) == ("exhausted", "503 again", 2)


def test_a_discarded_event_is_settled_and_emits_nothing(story: Story) -> None:
    first, _second = story.begins(page(1), page(2))
    assert story.handles(first, Discard("the deadline has passed")).emitted == ()
    assert story.statuses(first) == "settled"


def test_the_run_remembers_its_highest_offset_and_its_last_generation(story: Story) -> None:
    [event] = story.begins(page(1))
    indexed = [Next(DocumentIndexed(document_ids=("a",), chunk_count=1, journal_offset=n)) for n in (7, 9, 8)]
    snapshot = SnapshotPublished(generation="g4", journal_offset=9, document_count=1, chunk_count=1)
    story.handles(event, Done(emits=(*indexed, Next(snapshot))))
    view = story.ledger.run(event.run_id)
    assert (view.journal_offset, view.generation) == (9, "g4")


def test_feedback_is_added_to_a_finished_run_and_handled_without_finishing_it_again(story: Story) -> None:
    [event] = story.begins(page(1))
    assert story.handles(event, Done()).finished
    feedback = type(event).of(FeedbackGiven(rating=1.0), run_id=event.run_id, corpus="docs")
    assert story.ledger.add_event(feedback, dedupe_key="feedback")
    assert not story.ledger.add_event(
        type(event).of(FeedbackGiven(), run_id=event.run_id, corpus="docs"), dedupe_key="feedback"
    )
    assert story.handles(feedback, Done()).emitted == ()
    assert story.ledger.run(event.run_id).status == "finished"
