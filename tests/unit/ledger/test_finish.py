"""A run ends when nothing of it is open, once, and says what it could not have."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from sluice.contracts.errors import Fenced, NotFound
from sluice.contracts.event import DeadLetter, Done, Event, Gap, Next
from sluice.contracts.gate import CoverageProbed, GateRequested
from sluice.contracts.index import AnswerDirected, DocumentIndexed, GraphDirected, RunFinished
from sluice.contracts.ingest import PageUnchanged
from sluice.ledger.retention import Pruning
from tests.support.ledger_story import NOON, Story, answer, page

DEADLINE = datetime.fromtimestamp(NOON + 30, UTC)
GAP = Gap(stage="crawl", subject="https://example.org/1", reason="robots")


def indexed(offset: int) -> Next:
    return Next(DocumentIndexed(document_ids=("a",), chunk_count=1, journal_offset=offset))


def kinds(events: tuple[Event, ...]) -> list[str]:
    return [event.kind for event in events]


def test_a_gate_run_is_answered_once_nothing_is_open_from_its_last_offset(story: Story) -> None:
    asked = story.asks()
    settled = story.handles(asked, Done(emits=(indexed(4), indexed(6))))
    first, second = settled.emitted
    assert story.handles(first, Done()).emitted == ()
    [directed] = story.handles(second, Done()).emitted
    assert directed.body == AnswerDirected(minimum_journal_offset=6, reason="closed")
    assert story.ledger.run(asked.run_id).status == "answering"
    ended = story.handles(directed, Done(emits=(Next(answer()),)))
    assert kinds(ended.emitted) == ["AnswerReady", "RunFinished"]
    view = story.ledger.run(asked.run_id)
    assert (view.status, view.open_events, view.settled_events) == ("finished", 0, 4)
    assert view.answer == answer().answer
    assert view.finished_at == datetime.fromtimestamp(NOON, UTC)


def again() -> Next:
    """The probe that an answer gives the gate where it would cite nothing."""
    probe = CoverageProbed(
        generation="g1", model_fingerprint="m", probed_at=datetime.fromtimestamp(NOON, UTC), abstained="nothing"
    )
    return Next(probe, "second probe")


def test_an_answer_that_would_cite_nothing_opens_the_run_again_with_its_deadline(story: Story) -> None:
    asked = story.asks(deadline_at=DEADLINE)
    [first] = story.handles(asked, Done()).emitted
    [probed] = story.handles(first, Done(emits=(again(),))).emitted
    assert (probed.kind, story.ledger.run(asked.run_id).status) == ("CoverageProbed", "open")
    [crawl] = story.handles(probed, Done(emits=(Next(page()),))).emitted
    assert story.ledger.direct_answer_at_deadline(NOON + 29.9) == ()
    [wake_up] = story.ledger.direct_answer_at_deadline(NOON + 30)
    second = story.ledger.event(wake_up.event_id)
    assert kinds(story.handles(second, Done(emits=(Next(answer()),))).emitted) == ["AnswerReady", "RunFinished"]
    assert story.handles(crawl, Done()).emitted == ()


def test_a_second_probe_that_fails_still_gets_the_run_its_answer(story: Story) -> None:
    [first] = story.handles(story.asks(), Done()).emitted
    [probed] = story.handles(first, Done(emits=(again(),))).emitted
    [_, second] = story.handles(probed, DeadLetter("malformed")).emitted
    assert second.kind == "AnswerDirected"
    assert story.handles(second, Done(emits=(Next(answer()),))).finished


def test_a_gate_run_whose_answer_failed_ends_as_failed(story: Story) -> None:
    asked = story.asks()
    [directed] = story.handles(asked, Done()).emitted
    settled = story.handles(directed, DeadLetter("policy"))
    assert kinds(settled.emitted) == ["GapFound", "RunFinished"]
    assert settled.finished
    assert story.ledger.run(asked.run_id).status == "failed"


def test_a_parked_question_still_gets_an_answer_directed(story: Story) -> None:
    settled = story.handles(story.asks(), DeadLetter("malformed"))
    assert kinds(settled.emitted) == ["GapFound", "AnswerDirected"]


def test_a_crawl_that_indexed_something_is_finished_and_names_its_gaps(story: Story) -> None:
    [event] = story.begins(page())
    [document, *_] = story.handles(event, Done(emits=(indexed(3),), gaps=(GAP,))).emitted[1:]
    [finished] = story.handles(document, Done()).emitted
    assert isinstance(finished.body, RunFinished)
    assert (finished.body.status, finished.body.missing) == ("finished", (GAP,))


def test_a_crawl_that_indexed_nothing_and_has_gaps_is_failed(story: Story) -> None:
    [event] = story.begins(page())
    assert story.handles(event, Done(gaps=(GAP,))).finished
    assert story.ledger.run(event.run_id).status == "failed"


def test_a_crawl_of_pages_that_are_as_they_were_is_finished(story: Story) -> None:
    [event] = story.begins(page())
    url = "https://example.org/1"
    unchanged = PageUnchanged(url=url, final_url=url, depth=0, by="not_modified", fetched_at=datetime.now(UTC))
    assert story.handles(event, Done(emits=(Next(unchanged),), gaps=(GAP,))).finished
    assert story.ledger.run(event.run_id).status == "finished"


def test_at_its_deadline_a_run_is_answered_once_although_events_are_open(story: Story) -> None:
    asked = story.asks(deadline_at=DEADLINE)
    [crawl] = story.handles(asked, Done(emits=(Next(page()),))).emitted
    assert story.ledger.direct_answer_at_deadline(NOON + 29.9) == ()
    [wake_up] = story.ledger.direct_answer_at_deadline(NOON + 30)
    directed = story.ledger.event(wake_up.event_id)
    assert directed.body == AnswerDirected(reason="deadline")
    assert story.ledger.direct_answer_at_deadline(NOON + 31) == ()
    assert story.ledger.open_by_queue(asked.run_id) == {"crawl": 1, "query": 1}
    assert kinds(story.handles(directed, Done(emits=(Next(answer()),))).emitted) == ["AnswerReady", "RunFinished"]
    late = story.handles(crawl, Done(emits=(indexed(1),)))
    assert kinds(late.emitted) == ["DocumentIndexed"]
    assert kinds(story.handles(late.emitted[0], Done()).emitted) == []
    assert story.ledger.run(asked.run_id).status == "finished"


def test_a_run_answered_in_time_ignores_its_deadline(story: Story) -> None:
    story.handles(story.asks(deadline_at=DEADLINE), Done())
    assert story.ledger.direct_answer_at_deadline(NOON + 60) == ()


def test_the_deadline_of_a_crawl_directs_no_answer(story: Story) -> None:
    story.begins(page(), deadline_at=DEADLINE)
    assert story.ledger.direct_answer_at_deadline(NOON + 60) == ()


def test_cancelling_a_run_fences_its_claims_and_finishes_it(story: Story) -> None:
    claimed, ready = story.begins(page(1), page(2))
    claim = story.claims(claimed)
    assert story.ledger.cancel(claimed.run_id)
    assert not story.ledger.cancel(claimed.run_id)
    with pytest.raises(Fenced):
        story.ledger.settle(claim, Done())
    assert story.ledger.beat(claim.worker, 10.0) == frozenset()
    assert story.statuses(ready) == "cancelled"
    view = story.ledger.run(claimed.run_id)
    assert (view.status, view.open_events) == ("cancelled", 0)
    [finished] = story.ledger.events_of_kind(claimed.run_id, "RunFinished")
    assert finished.body == RunFinished(status="cancelled")
    with pytest.raises(NotFound):
        story.ledger.cancel("run_nothing")


def test_a_cancelled_question_is_not_answered_at_its_deadline(story: Story) -> None:
    asked = story.begins(GateRequested(query="x"), kind="gate", deadline_at=DEADLINE)[0]
    story.ledger.cancel(asked.run_id)
    assert story.ledger.direct_answer_at_deadline(NOON + 60) == ()


def graph_directed(*document_ids: str) -> Next:
    return Next(GraphDirected(document_ids=document_ids, journal_offset=4))


def test_a_crawl_ends_while_its_graph_is_still_to_be_read_and_reading_it_ends_nothing(story: Story) -> None:
    [event] = story.begins(page())
    [index] = story.handles(event, Done(emits=(indexed(4),))).emitted
    settled = story.handles(index, Done(emits=(graph_directed("a"),)))
    assert kinds(settled.emitted) == ["GraphDirected", "RunFinished"]
    view = story.ledger.run(event.run_id)
    assert (view.status, view.open_events) == ("finished", 1)
    assert story.handles(settled.emitted[0], Done()).emitted == ()
    assert story.ledger.run(event.run_id).open_events == 0


def test_a_question_is_answered_while_the_graph_is_still_to_be_read(story: Story) -> None:
    asked = story.asks()
    [index] = story.handles(asked, Done(emits=(indexed(4),))).emitted
    told = story.handles(index, Done(emits=(graph_directed("a"),))).emitted
    assert kinds(told) == ["GraphDirected", "AnswerDirected"]
    ended = story.handles(told[1], Done(emits=(Next(answer()),)))
    assert kinds(ended.emitted) == ["AnswerReady", "RunFinished"]
    assert story.handles(told[0], Done()).emitted == ()
    assert story.ledger.run(asked.run_id).status == "finished"


def test_a_graph_event_that_is_parked_after_the_run_ended_leaves_its_answer_alone(story: Story) -> None:
    [event] = story.begins(page())
    told = story.handles(event, Done(emits=(graph_directed("a"),))).emitted
    assert kinds(story.handles(told[0], DeadLetter("exhausted")).emitted) == ["GapFound"]
    assert story.ledger.run(event.run_id).status == "finished"


def test_a_run_of_the_graph_alone_ends_with_its_last_event(story: Story) -> None:
    first, second = story.begins(graph_directed("a"), graph_directed("b"), kind="graph")
    assert story.handles(first, Done()).emitted == ()
    assert story.ledger.run(first.run_id).status == "open"
    assert kinds(story.handles(second, Done()).emitted) == ["RunFinished"]
    assert story.ledger.run(first.run_id).status == "finished"


def test_a_run_whose_graph_is_still_to_be_read_is_not_pruned(story: Story) -> None:
    [event] = story.begins(page())
    [directed, _] = story.handles(event, Done(emits=(graph_directed("a"),))).emitted
    story.clock.passes(1_000.0)
    pruning = Pruning(story.ledger.database, story.clock)
    before = datetime.fromtimestamp(story.clock(), UTC)
    assert pruning.prune(before, "ann").runs == 0
    story.handles(directed, Done())
    assert pruning.prune(before, "ann").runs == 1


def test_cancelling_a_run_that_has_ended_cancels_what_is_to_be_read_of_its_graph(story: Story) -> None:
    [event] = story.begins(page())
    [directed, _] = story.handles(event, Done(emits=(graph_directed("a"),))).emitted
    assert story.ledger.cancel(event.run_id) is not None
    assert (story.statuses(directed), story.ledger.run(event.run_id).status) == ("cancelled", "finished")
