"""Where a run's time went: each planted cause is named by the sum line, whose figures add up."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy.dialects import sqlite

from sluice.contracts.errors import BudgetExhausted, NotFound
from sluice.contracts.event import DeadLetter, Done, Event, Next, Retry, Waited
from sluice.contracts.ingest import CrawlDirected, SearchDirected
from sluice.contracts.operations.timeline import Timeline, TimelineRow
from sluice.ledger import transaction
from sluice.ledger.events.attempts import Attempt
from sluice.ledger.ledger import Claim
from sluice.ledger.retention import Pruning
from sluice.ledger.schema.tables import moment
from sluice.ledger.timeline import record
from sluice.ledger.timeline.build import Detail, build_timeline
from sluice.ledger.timeline.record import EventRow, RunRecord
from sluice.ledger.timeline.stretches import Stretch
from sluice.ledger.timeline.sums import line_of, sums_of
from tests.support.ledger_story import Story, page

FIGURE = re.compile(r"(?<![\w.])-?[\d,]*\.?\d+(?= (?:waiting|working|backing off|failing|lost))")


def drawn(story: Story, event: Event, details: Sequence[Detail] = ()) -> Timeline:
    """The run's timeline now, whose sums were checked."""
    found = build_timeline(story.ledger.run_record(event.run_id), story.clock.now, details)
    adds_up(found)
    return found


def adds_up(timeline: Timeline) -> None:
    """Every figure of the line is the sum of those that it stands for, as printed and as exact values."""
    total = float(timeline.sum_line.split(" s ", 1)[0].replace(",", ""))
    assert sum(round(1_000 * float(one.replace(",", ""))) for one in FIGURE.findall(timeline.sum_line)) == round(
        1_000 * total
    ), timeline.sum_line
    for one in timeline.sums:
        assert sum(round(1_000 * ms) for ms in one.parts.values()) == round(1_000 * one.ms)
    assert sum(one.ms for one in timeline.sums) / 1_000 == pytest.approx(total, abs=0.006)


def finishes(story: Story, event: Event, seconds: float = 0.4) -> None:
    """The event is claimed at once, and settled after so many seconds."""
    claim = story.claims(event)
    story.clock.passes(seconds)
    story.ledger.settle(claim, Done())


def rows(timeline: Timeline, doing: str) -> list[TimelineRow]:
    return [row for row in timeline.rows if row.doing == doing]


def test_a_stage_that_an_operator_paused_is_named_with_his_reason(story: Story) -> None:
    [event] = story.begins(page())
    story.clock.passes(0.5)
    story.ledger.pause("crawl", "upgrade", operator="ana")
    story.clock.passes(2.0)
    story.ledger.resume("crawl", operator="ana")
    story.clock.passes(0.25)
    finishes(story, event)
    timeline = drawn(story, event)
    assert (
        timeline.sum_line
        == "3.15 s = 2.75 waiting (crawl (stage paused by ana: upgrade) 2.00, crawl .75) + .40 working (crawl .40)"
    )
    assert [(row.begins_ms, row.took_ms, row.why) for row in rows(timeline, "waits")] == [
        (0.0, 500.0, ""),
        (500.0, 2_000.0, "stage paused by ana: upgrade"),
        (2_500.0, 250.0, ""),
    ]
    assert all(row.is_critical for row in timeline.rows)


def test_a_pause_of_the_breaker_is_named_although_it_is_over(story: Story) -> None:
    [event] = story.begins(page())
    story.ledger.pause("crawl", "18 of 20 events failed", seconds=5.0)
    story.clock.passes(5.0)
    story.ledger.resume("crawl")
    finishes(story, event)
    told = "crawl (stage paused by its circuit breaker: 18 of 20 events failed) 5.00"
    assert drawn(story, event).sum_line == f"5.40 s = 5.00 waiting ({told}) + .40 working (crawl .40)"


def test_the_back_off_of_a_handler_that_fails_is_named_with_its_error_and_each_try_is_a_row(story: Story) -> None:
    [event] = story.begins(page())
    for seconds in (1.0, 2.0):
        claim = story.claims(event)
        story.clock.passes(0.1)
        story.ledger.settle(claim, Retry(seconds, "TimedOut('no answer')"))
        story.clock.passes(seconds)
        story.ledger.wake_due_retries()
    finishes(story, event)
    timeline = drawn(story, event)
    assert (
        timeline.sum_line == "3.60 s = .40 working (crawl .40) + 3.00 backing off (crawl (TimedOut('no answer')) 3.00)"
        " + .20 failing (crawl (TimedOut('no answer')) .20)"
    )
    assert [(row.doing, row.attempt, row.label) for row in timeline.rows] == [
        ("failed", 1, "CrawlDirected https://example.org/1"),
        ("backs_off", None, "CrawlDirected https://example.org/1"),
        ("failed", 2, "crawl, attempt 2"),
        ("backs_off", None, "CrawlDirected https://example.org/1"),
        ("works", 3, "crawl, attempt 3"),
    ]


def test_the_time_of_a_worker_that_died_is_lost_and_its_worker_named(story: Story) -> None:
    [event] = story.begins(page())
    story.claims(event, "crawl-1")
    story.clock.passes(0.7)
    story.ledger.release("crawl-1")
    finishes(story, event)
    timeline = drawn(story, event)
    told = ".70 lost to dead workers (crawl (its worker died) .70)"
    assert timeline.sum_line == f"1.10 s = .40 working (crawl .40) + {told}"
    assert [(row.worker, row.took_ms) for row in rows(timeline, "died")] == [("crawl-1", 700.0)]


def test_the_turn_of_a_slow_host_is_a_wait_inside_the_work(story: Story) -> None:
    [event] = story.begins(page())
    claim = story.claims(event)
    story.clock.passes(4.5)
    story.ledger.settle(claim, Done(waited=Waited(4.2, "turn of example.org")))
    assert (
        drawn(story, event).sum_line
        == "4.50 s = 4.20 waiting (crawl (turn of example.org) 4.20) + .30 working (crawl .30)"
    )


def test_what_stood_before_it_in_its_tenants_queue_is_counted(story: Story) -> None:
    before = story.begins(*(page(number) for number in range(214)), owner="ana")
    [event] = story.begins(page(900), owner="ana")
    for number, _ in enumerate(before):
        claim = story.ledger.claim_next("crawl", f"w{number}", 10.0)
        assert isinstance(claim, Claim)
        story.clock.passes(0.01)
        story.ledger.settle(claim, Done())
        if number == 100:
            now = drawn(story, event)
            assert "behind 113 of this tenant" in now.sum_line
            assert now.sum_line.startswith("1.01 s so far = 1.01 waiting")
    finishes(story, event)
    told = "2.14 waiting (crawl (behind 214 of this tenant) 2.14)"
    assert drawn(story, event).sum_line == f"2.54 s = {told} + .40 working (crawl .40)"


def test_siblings_without_a_cause_fold_too(story: Story) -> None:
    for number, _ in enumerate(first := story.begins(*(page(number) for number in range(40)))):
        claim = story.ledger.claim_next("crawl", f"w{number}", 10.0)
        assert isinstance(claim, Claim)
        story.clock.passes(0.01)
        story.ledger.settle(claim, Done())
    timeline = drawn(story, first[0])
    assert [(row.folded, row.doing) for row in timeline.rows] == [
        (39, "waits"),
        (39, "works"),
        (1, "waits"),
        (1, "works"),
    ]
    assert (timeline.rows[0].why, timeline.rows_in_all) == ("behind 38 of this tenant", 79)


def test_no_read_of_a_timeline_scans_events_or_runs(story: Story) -> None:
    if story.ledger.database.on_sqlite:
        names = ("_EVENTS", "_ACTIONS", "_REPLAYS")
        with closing(sqlite3.connect(story.url.removeprefix("sqlite:///"))) as file:
            for statement in (getattr(record, name) for name in names):
                made = transaction._compile(statement, sqlite.dialect()).text  # noqa: SLF001 - as it is run
                plan = [str(row[-1]) for row in file.execute(f"EXPLAIN QUERY PLAN {made}", [1] * made.count("?"))]
                assert not [step for step in plan if step.startswith("SCAN")], (made, plan)


def test_a_stage_without_a_worker_is_named_and_who_wants_none(story: Story) -> None:
    [event] = story.begins(page())
    began = story.clock.now
    assert story.ledger.note_workers("crawl", are_there=False, at=began, waiting_since=began)
    assert not story.ledger.note_workers("crawl", are_there=False, at=began, waiting_since=began)
    story.clock.passes(6.0)
    assert drawn(story, event).sum_line == "6.00 s so far = 6.00 waiting (crawl (no worker) 6.00)"
    now = story.clock.now
    assert story.ledger.note_workers("crawl", are_there=True, at=now, waiting_since=now)
    finishes(story, event)
    assert drawn(story, event).sum_line == "6.40 s = 6.00 waiting (crawl (no worker) 6.00) + .40 working (crawl .40)"
    story.ledger.pool_sizes.ask("crawl", 0, "ana")
    story.clock.passes(1.0)
    [event] = story.begins(page())
    began = story.clock.now
    story.clock.passes(3.0)
    assert story.ledger.note_workers("crawl", are_there=False, at=story.clock.now, waiting_since=began)
    assert drawn(story, event).sum_line == "3.00 s so far = 3.00 waiting (crawl (no worker: ana wants none) 3.00)"


def test_an_exhausted_budget_is_a_failure_and_the_gap_a_row(story: Story) -> None:
    [event] = story.begins(SearchDirected(query="why?"))
    claim = story.claims(event)
    story.clock.passes(0.3)
    story.ledger.settle(claim, DeadLetter("policy", BudgetExhausted("the run's .01 USD are spent")))
    timeline = drawn(story, event)
    told = "failing (search (policy: the run's .01 USD are spent) .300)"
    assert timeline.sum_line == f"0.300 s = .300 {told}"
    assert [row.why for row in rows(timeline, "failed")] == ["policy: the run's .01 USD are spent"] * 2


def test_twenty_siblings_fold_to_one_row_and_failures_stay(story: Story) -> None:
    [event] = story.begins(SearchDirected(query="why?"))
    claim = story.claims(event)
    story.clock.passes(0.5)
    found = story.ledger.settle(claim, Done(tuple(Next(page(number)) for number in range(21)))).emitted
    for number, one in enumerate(found[:20]):
        claim = story.claims(one)
        story.clock.passes(0.01 * (number + 1))
        story.ledger.settle(claim, Done())
    failing = story.claims(found[20])
    story.clock.passes(0.2)
    story.ledger.settle(failing, DeadLetter("discarded", ValueError("no page")))
    timeline = drawn(story, event)
    [works] = [row for row in timeline.rows if row.folded > 1 and row.doing == "works"]
    assert (works.folded, works.shortest_ms, works.longest_ms) == (20, 10.0, 200.0)
    assert (works.label, works.depth, len(works.ends_ms)) == ("CrawlDirected × 20", 1, 20)
    assert works.ends_ms[:2] == (510.0, 530.0)
    assert [row.why for row in rows(timeline, "failed") if row.stage] == ["discarded: no page"]
    assert timeline.rows_in_all == 1 + 20 + 19 + 2 + 1
    assert timeline.sum_line == (
        "2.80 s = 2.10 waiting (crawl (behind 20 of this tenant) 2.10) + .50 working (search .50)"
        " + .20 failing (crawl (discarded: no page) .20)"
    )


def test_a_run_under_way_ends_now_with_what_it_waits_for(story: Story) -> None:
    [event] = story.begins(page())
    claim = story.claims(event)
    story.clock.passes(1.5)
    timeline = drawn(story, event)
    assert timeline.sum_line == "1.50 s so far = 1.50 working (crawl 1.50)"
    assert (timeline.is_over, timeline.now_ms) == (False, 1_500.0)
    assert [(row.doing, row.is_under_way) for row in timeline.rows] == [("works", True)]
    story.ledger.settle(claim, Retry(30.0, "the disk is full"))
    story.clock.passes(2.0)
    timeline = drawn(story, event)
    told = "2.00 backing off (crawl (the disk is full; again in 28.0 s) 2.00)"
    assert timeline.sum_line == f"3.50 s so far = {told} + 1.50 failing (crawl (the disk is full) 1.50)"


def test_the_chain_follows_causes_and_leaves_out_what_nothing_waited_for(story: Story) -> None:
    [event] = story.begins(SearchDirected(query="why?"))
    claim = story.claims(event)
    story.clock.passes(1.0)
    first, second = story.ledger.settle(claim, Done((Next(page(1)), Next(page(2))))).emitted
    finishes(story, first, 0.5)
    finishes(story, second, 2.0)
    timeline = drawn(story, event)
    assert timeline.sum_line == (
        "3.50 s = .50 waiting (crawl (behind 1 of this tenant) .50) + 3.00 working (crawl 2.00, search 1.00)"
    )
    assert {row.label: row.is_critical for row in rows(timeline, "works")} == {
        "SearchDirected why?": True,
        "CrawlDirected https://example.org/1": False,
        "CrawlDirected https://example.org/2": True,
    }


def test_an_answer_at_the_deadline_waited_for_what_was_open_longest(story: Story) -> None:
    event = story.asks(deadline_at=moment(story.clock.now) + timedelta(seconds=3))
    claim = story.claims(event)
    story.clock.passes(0.5)
    [crawl] = story.ledger.settle(claim, Done((Next(page()),))).emitted
    story.claims(crawl)
    story.clock.passes(2.5)
    story.ledger.direct_answer_at_deadline()
    assert drawn(story, event).sum_line == "3.00 s so far = 3.00 working (crawl 2.50, query .50)"


def test_parts_of_the_work_are_rows_below_it_and_change_no_sum(story: Story) -> None:
    [event] = story.begins(page())
    began = story.clock.now
    finishes(story, event, 1.0)
    plain = drawn(story, event)
    timeline = drawn(story, event, [Detail(event.id, 1, "fetch example.org", began + 0.2, began + 0.9)])
    assert timeline.sum_line == plain.sum_line
    assert [(row.label, row.doing, row.depth, row.begins_ms, row.took_ms) for row in timeline.rows] == [
        ("CrawlDirected https://example.org/1", "works", 0, 0.0, 1_000.0),
        ("fetch example.org", "detail", 1, 200.0, 700.0),
    ]


def test_four_hours_of_nothing_are_cut(story: Story) -> None:
    [event] = story.begins(page())
    story.clock.passes(0.5)
    story.ledger.pause("crawl", "the night", operator="ana")
    story.clock.passes(4 * 3_600)
    story.ledger.resume("crawl", operator="ana")
    finishes(story, event)
    [cut] = drawn(story, event).cuts
    assert (cut.begins_ms, cut.ends_ms) == (500.0, 14_400_500.0)


def test_a_replay_says_who_brought_it_back(story: Story) -> None:
    [event] = story.begins(page())
    claim = story.claims(event)
    story.clock.passes(1.0)
    story.ledger.settle(claim, DeadLetter("discarded", ValueError("no page")))
    story.clock.passes(60.0)
    [letter] = story.ledger.dead_letters.list()
    story.ledger.dead_letters.replay(letter.id, "ben")
    finishes(story, event)
    timeline = drawn(story, event)
    assert timeline.sum_line == "1.00 s = 1.00 failing (crawl (discarded: no page) 1.00)"
    assert [row.why for row in rows(timeline, "waits")] == ["parked until ben replayed it"]
    assert timeline.now_ms == 61_400.0


def test_a_pruned_run_is_gone_with_the_day_on_which_it_went(story: Story) -> None:
    [event] = story.begins(page())
    finishes(story, event)
    before = datetime.now(UTC) + timedelta(days=3_650)
    Pruning(story.ledger.database, story.clock).prune(before, "ana")
    with pytest.raises(
        NotFound, match=rf"no run {event.run_id} any more: .* was pruned by ana at 2031-05-06 12:00 UTC"
    ):
        story.ledger.run_record(event.run_id)
    with pytest.raises(NotFound, match=r"no run nonsense$"):
        story.ledger.run_record("nonsense")


def test_of_eight_thousand_rows_the_folded_the_critical_and_failures_are_drawn() -> None:
    first = EventRow("first", "SearchDirected", "search", "settled", 0.0, 1.0)
    crawls = [EventRow(f"c{n}", "CrawlDirected", "crawl", "settled", 1.0, 2.0, cause_id="first") for n in range(8_000)]
    failing = [EventRow(f"f{n}", "CrawlDirected", "crawl", "dead", 1.0, cause_id="first") for n in range(400)]
    attempts = {"first": (Attempt("e", 1, "w", 0.0, 0.0, 1.0, "settled"),)}
    attempts |= {one.id: (Attempt("e", 1, "w", 1.0, 1.5, 2.0, "settled"),) for one in crawls}
    attempts |= {one.id: (Attempt("e", 1, "w", 1.0, 1.5, 2.0, "parked", "no page"),) for one in failing}
    closing = EventRow("end", "RunFinished", None, "recorded", 2.0, cause_id="c7999")
    whole = RunRecord(
        "run_1", "docs", "finished", 0.0, 2.0, events=(first, *crawls, *failing, closing), attempts=attempts
    )
    timeline = build_timeline(whole, 9.0)
    adds_up(timeline)
    assert timeline.rows_in_all == 1 + 2 * 8_000 + 2 * 400
    assert len(timeline.rows) == 300
    assert [row.folded for row in timeline.rows if row.folded > 1] == [7_999, 7_999]
    assert sum(row.is_critical for row in timeline.rows) == 3
    assert timeline.sum_line == "2.00 s = .50 waiting (crawl .50) + 1.50 working (search 1.00, crawl .50)"


def test_a_claim_before_its_event_by_another_clock_moves_no_bar_and_the_sum_stays_exact() -> None:
    event = EventRow("e", "CrawlDirected", "crawl", "settled", 10.0, 11.0)
    closing = EventRow("end", "RunFinished", None, "recorded", 11.0, cause_id="e")
    attempts = {"e": (Attempt("e", 1, "w", 10.0, 9.75, 11.0, "settled"),)}
    timeline = build_timeline(
        RunRecord("run_1", "docs", "finished", 10.0, 11.0, events=(event, closing), attempts=attempts), 20.0
    )
    assert (
        timeline.sum_line == "1.00 s = -.25 waiting (crawl (clocks differ by 0.250 s) -.25) + 1.25 working (crawl 1.25)"
    )
    assert [(row.begins_ms, row.took_ms) for row in timeline.rows] == [(-250.0, 1_250.0)]


@pytest.mark.parametrize("total", [0.0, 0.0004, 0.999, 3.11, 99.996, 12_345.6])
def test_a_line_of_any_length_adds_up(total: float) -> None:
    event = EventRow("e", "CrawlDirected", "crawl", "settled", 0.0)
    edges = [total * part for part in (0, 0.1, 0.35, 0.351, 0.6, 0.9, 1)]
    doings = ("waits", "works", "failed", "backs_off", "works", "died")
    pieces = [
        Stretch(event, doing, at, until, f"why {number}")  # type: ignore[arg-type]
        for number, (doing, at, until) in enumerate(zip(doings, edges, edges[1:], strict=False))
    ]
    sums = sums_of(pieces, total)
    line = line_of(sums, total)
    shown = float(line.split(" s", 1)[0].replace(",", ""))
    assert sum(round(1_000 * float(one.replace(",", ""))) for one in FIGURE.findall(line)) == round(1_000 * shown)


def test_a_page_of_another_tenant_is_not_counted_as_before_it(story: Story) -> None:
    story.begins(*(page(number) for number in range(30)), owner="ana")
    [event] = story.begins(CrawlDirected(url="https://example.org/own"), owner="ben")
    story.clock.passes(0.2)
    assert drawn(story, event).sum_line == "0.200 s so far = .200 waiting (crawl .200)"
