"""A request for which there is no room is refused before anything is recorded, and told when to come back."""

from __future__ import annotations

from collections import Counter

import pytest

from sluice.contracts.api import RunKind
from sluice.contracts.errors import Overloaded
from sluice.contracts.event import Queue
from sluice.contracts.index import AnswerDirected
from sluice.contracts.ingest import CrawlDirected, DocumentsRemoved
from sluice.ledger.ledger import Ledger, NewRun
from sluice.workers.runtime.backpressure import LATEST_SECONDS, LOOK_SECONDS, Admission
from sluice.workers.settings import DeliverySettings
from tests.support.ledger_story import Story


class Door:
    """Requests that come to a ledger through its gatekeeper."""

    def __init__(self, story: Story, **limits: int) -> None:
        self.story = story
        self.admission = Admission(story.ledger, DeliverySettings.model_validate(limits), clock=story.clock)

    def comes(self, owner: str, pages: int = 1) -> None:
        """A request to crawl pages."""
        self.admission.admit(new_run("crawl", owner), {"crawl": pages})
        self.story.begins(*(CrawlDirected(url=f"https://{owner} {n}") for n in range(pages)), owner=owner)

    def refuses(self, owner: str, pages: int = 1) -> Overloaded:
        with pytest.raises(Overloaded) as refused:
            self.comes(owner, pages)
        return refused.value

    def time_passes(self, seconds: float = LOOK_SECONDS + 0.1) -> None:
        self.story.clock.passes(seconds)


def new_run(kind: RunKind, owner: str) -> NewRun:
    return NewRun(run_id="run_1", kind=kind, corpus="docs", request_sha256="0" * 64, owner=owner)


def test_a_stage_takes_what_its_limit_allows_and_then_nothing_from_anybody(story: Story) -> None:
    door = Door(story, max_ready_events=5)
    for owner in "abcde":
        door.comes(owner)
    assert "max_ready_events" in str(door.refuses("f"))
    door.time_passes()
    assert "5 events wait in stage crawl" in str(door.refuses("f"))
    assert len(story.ledger.runs()) == 5


def test_a_lane_that_is_full_keeps_nobody_else_out(story: Story) -> None:
    door = Door(story, max_ready_events_per_lane=3)
    for _ in range(3):
        door.comes("feeder")
    assert "max_ready_events_per_lane" in str(door.refuses("feeder"))
    door.comes("another")
    door.time_passes()
    door.refuses("feeder")
    door.comes("another")


def test_there_is_room_again_once_something_was_done(story: Story) -> None:
    door = Door(story, max_ready_events=2)
    door.comes("a", pages=2)
    door.refuses("a")
    for _ in range(2):
        story.ledger.claim_next("crawl", "w1", 10.0)
    door.time_passes()
    door.comes("a")


def test_a_batch_counts_as_its_events(story: Story) -> None:
    door = Door(story, max_ready_events=10)
    door.comes("a", pages=7)
    door.refuses("a", pages=4)
    door.comes("a", pages=3)


def test_a_request_beyond_a_limit_by_itself_is_taken_when_nothing_waits(story: Story) -> None:
    door = Door(story, max_ready_events=10)
    door.comes("a", pages=25)
    door.refuses("a", pages=25)


def test_many_that_come_between_two_looks_are_counted(story: Story) -> None:
    door = Door(story, max_ready_events=40)
    accepted = Counter(_is_taken(door, f"key {n % 7}") for n in range(60))
    assert accepted == {True: 40, False: 20}


def test_a_full_stage_behind_the_entry_keeps_out_what_would_come_to_it(story: Story) -> None:
    story.begins(*(DocumentsRemoved(document_ids=(str(n),)) for n in range(4)), kind="deletion", owner="x")
    door = Door(story, max_ready_events=4)
    assert "stage index" in str(door.refuses("a"))
    with pytest.raises(Overloaded):
        door.admission.admit(new_run("documents", "a"), {"chunk": 1})
    door.admission.admit(new_run("gate", "a"), {"query": 1})


def test_an_agent_is_kept_out_by_full_query_workers_alone(story: Story) -> None:
    story.begins(*(AnswerDirected() for _ in range(3)), kind="gate", owner="x")
    door = Door(story, max_ready_events=3)
    with pytest.raises(Overloaded, match="stage query"):
        door.admission.admit(new_run("gate", "a"), {"query": 1})
    door.comes("a")


@pytest.mark.parametrize(("waited_seconds", "told_seconds"), [(0.0, 1.0), (4.0, 2.0), (1_000.0, LATEST_SECONDS)])
def test_when_to_come_back_follows_from_how_long_the_oldest_has_waited(
    story: Story, waited_seconds: float, told_seconds: float
) -> None:
    door = Door(story, max_ready_events=10)
    door.comes("a", pages=10)
    door.time_passes(max(waited_seconds, 0.0))
    assert door.refuses("a", pages=5).retry_after_seconds == pytest.approx(told_seconds)


def test_counting_costs_a_look_now_and_then_and_not_one_per_request(story: Story) -> None:
    looks: list[float] = []

    class Watched(Ledger):
        def backlogs(self) -> dict[Queue, object]:  # type: ignore[override]
            looks.append(story.clock.now)
            return super().backlogs()  # type: ignore[return-value]

    with Watched(story.url, clock=story.clock) as ledger:
        admission = Admission(ledger, DeliverySettings(), clock=story.clock)
        for _ in range(100):
            admission.admit(new_run("documents", "a"), {"chunk": 1})
            story.clock.passes(0.02)
    assert len(looks) <= 5


def _is_taken(door: Door, owner: str) -> bool:
    try:
        door.comes(owner)
    except Overloaded:
        return False
    return True
