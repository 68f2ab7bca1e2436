"""Whose turn it is: agents before feeders, lane after lane, and nobody saves up turns or loses them."""

from __future__ import annotations

import pytest

from sluice.contracts.event import Done, Event, Next, Retry
from sluice.contracts.ingest import CrawlDirected
from sluice.ledger.events.outbox import ANSWERS, BULK
from sluice.ledger.ledger import Claim
from tests.support.ledger_story import Story, page

MANY = 10_000


def next_claim(story: Story, worker: str = "w1") -> Claim:
    """The stage's next event, whichever it is."""
    claim = story.ledger.claim_next("crawl", worker, 10.0)
    assert isinstance(claim, Claim)
    return claim


def served(story: Story, count: int) -> list[str]:
    """The next `count` events of the crawl stage, as `lane number`, each claimed and settled."""
    told: list[str] = []
    for _ in range(count):
        claim = next_claim(story)
        story.ledger.settle(claim, Done())
        assert isinstance(claim.event.body, CrawlDirected)
        told.append(claim.event.body.url.removeprefix("https://"))
    return told


def lined_up(story: Story, lane: str, count: int, *, kind: str = "crawl", is_small: bool = False) -> tuple[Event, ...]:
    """A run of an API key with so many pages before it."""
    pages = (CrawlDirected(url=f"https://{lane} {number}") for number in range(count))
    return story.begins(*pages, kind=kind, owner=lane, is_small=is_small)


def test_ten_thousand_of_one_lane_delay_another_by_one_event_per_lane(story: Story) -> None:
    lined_up(story, "feeder", MANY)
    assert served(story, 3) == ["feeder 0", "feeder 1", "feeder 2"]
    lined_up(story, "third", 2)
    lined_up(story, "newcomer", 1)
    next_ones = served(story, 5)
    assert next_ones.index("newcomer 0") <= 2
    assert next_ones.count("feeder 3") == 1
    assert set(next_ones) == {"feeder 3", "feeder 4", "third 0", "third 1", "newcomer 0"}


def test_lanes_of_any_length_are_served_in_turn_each_in_its_own_order(story: Story) -> None:
    for lane, count in (("a", 6), ("b", 2), ("c", 4)):
        lined_up(story, lane, count)
    assert served(story, 12) == ["a 0", "b 0", "c 0", "a 1", "b 1", "c 1", "a 2", "c 2", "a 3", "c 3", "a 4", "a 5"]


def test_an_agent_goes_before_every_feeder_however_late_it_comes(story: Story) -> None:
    lined_up(story, "feeder", 50)
    served(story, 10)
    lined_up(story, "agent", 2, kind="gate")
    lined_up(story, "other agent", 1, kind="gate")
    assert served(story, 4) == ["agent 0", "other agent 0", "agent 1", "feeder 10"]


def test_a_lane_that_was_idle_saves_nothing_up(story: Story) -> None:
    lined_up(story, "idle", 1)
    lined_up(story, "busy", 40)
    assert served(story, 21)[:2] == ["idle 0", "busy 0"]
    lined_up(story, "idle", 5)
    assert served(story, 10).count("busy 20") == 1
    assert [told.split()[0] for told in served(story, 3)] == ["busy"] * 3


def test_a_lane_that_was_idle_is_not_punished_for_what_it_had_before(story: Story) -> None:
    lined_up(story, "early", 100)
    served(story, 100)
    lined_up(story, "late", 10)
    lined_up(story, "early", 1)
    assert "early 0" in served(story, 3)


def test_a_corpus_is_a_lane_where_there_is_no_key(story: Story) -> None:
    story.begins(*(page(number) for number in range(5)))
    lined_up(story, "key", 1)
    assert "key 0" in served(story, 2)


def test_a_retry_goes_behind_its_own_lane_and_not_behind_the_others(story: Story) -> None:
    failing = lined_up(story, "failing", 4)
    lined_up(story, "steady", 50)
    story.ledger.settle(next_claim(story), Retry(5.0, "later"))
    story.clock.passes(6.0)
    assert [wake_up.event_id for wake_up in story.ledger.wake_due_retries()] == [failing[0].id]
    order = served(story, 9)
    mine = [told for told in order if told.startswith("failing")]
    assert mine == ["failing 1", "failing 2", "failing 3", "failing 0"]
    assert order.index("failing 0") <= 8


def test_an_event_that_comes_back_from_a_dead_worker_keeps_its_turn(story: Story) -> None:
    lined_up(story, "lane", 5)
    next_claim(story, worker="doomed")
    story.ledger.release("doomed", died=False)
    assert served(story, 2) == ["lane 0", "lane 1"]


@pytest.mark.parametrize("count", [1, 7])
def test_events_emitted_together_take_consecutive_turns(story: Story, count: int) -> None:
    lined_up(story, "one", 1)
    emits = tuple(Next(CrawlDirected(url=f"https://one {n + 1}")) for n in range(count))
    story.ledger.settle(next_claim(story), Done(emits=emits))
    lined_up(story, "two", count)
    told = served(story, 2 * count)
    assert sorted(told[:2]) == ["one 1", "two 0"]
    assert [one for one in told if one.startswith("one")] == [f"one {n + 1}" for n in range(count)]


def test_a_small_submission_and_all_that_follows_from_it_go_before_bulk_and_after_answers(story: Story) -> None:
    lined_up(story, "one", 50)
    lined_up(story, "one", 1, is_small=True)
    lined_up(story, "agent", 1, kind="gate")
    assert served(story, 1) == ["agent 0"]
    small = next_claim(story)
    story.ledger.settle(small, Done(emits=(Next(CrawlDirected(url="https://follows from small")),)))
    assert served(story, 2) == ["follows from small", "one 0"]


class TestLaneBacklog:
    """What is told of a lane's length: exact while it moves on, and never too few."""

    def test_it_counts_what_waits(self, story: Story) -> None:
        lined_up(story, "a", 30)
        lined_up(story, "b", 3)
        assert (waiting(story, "a"), waiting(story, "b"), waiting(story, "c")) == (30, 3, 0)
        served(story, 20)
        assert (waiting(story, "a"), waiting(story, "b")) == (13, 0)
        served(story, 13)
        assert waiting(story, "a") == 0

    def test_priorities_are_lanes_apart(self, story: Story) -> None:
        lined_up(story, "a", 5)
        lined_up(story, "a", 2, kind="gate")
        assert (waiting(story, "a"), waiting(story, "a", priority=ANSWERS)) == (5, 2)

    def test_what_was_cancelled_is_not_counted(self, story: Story) -> None:
        gone = lined_up(story, "a", 10)
        lined_up(story, "a", 4)
        lined_up(story, "b", 2)
        story.ledger.cancel(gone[0].run_id)
        assert waiting(story, "a") == 4
        served(story, 6)
        assert waiting(story, "a") == 0


def waiting(story: Story, lane: str, priority: int = BULK) -> int:
    return story.ledger.tenant_backlog("crawl", priority, f"key:{lane}")


def test_a_pool_handles_no_more_of_one_tenant_than_its_share(story: Story) -> None:
    lined_up(story, "feeder", 50)

    def claimed(worker: str) -> str:
        claim = story.ledger.claim_next("crawl", worker, 10.0, most_of_a_tenant=1)
        if not isinstance(claim, Claim):
            return claim.reason
        return str(claim.event.model_dump()["body"]["url"]).removeprefix("https://")

    assert claimed("chunk-host.example-1.11") == "feeder 0"
    assert claimed("chunk-host.example-1.12") == "share_used"
    assert claimed("chunk-host.example-2.11") == "feeder 1"  # another pool
    lined_up(story, "newcomer", 1, kind="gate")
    lined_up(story, "third", 1)
    assert claimed("chunk-host.example-1.12") == "newcomer 0"
    story.ledger.release("chunk-host.example-1.11", died=True)  # what it died on goes first, within its tenant's share
    assert claimed("chunk-host.example-1.11") == "feeder 0"
    assert claimed("chunk-host.example-1.13") == "third 0"
    assert claimed("chunk-host.example-1.14") == "share_used"
    for worker in ("chunk-host.example-1.11", "chunk-host.example-2.11"):
        story.ledger.release(worker, died=False)
    assert claimed("chunk-host.example-1.14").startswith("feeder")
