"""What each stage did by the minute: added up by every process, folded into hours, dropped in the end."""

from __future__ import annotations

import threading

import pytest

from sluice.contracts.errors import PolicyRefused, Unavailable
from sluice.contracts.event import DeadLetter, Done, Next, Retry
from sluice.contracts.operations.overview import StageMinute
from sluice.ledger.ledger import Ledger
from sluice.ledger.schema.tables import moment
from sluice.ledger.stage_minutes import DAYS_KEPT, MINUTES_KEPT, StageMinutes
from tests.support.ledger_story import NOON, Story, page

MINUTE = int(NOON // 60)


def of_crawl(story: Story, since: int = MINUTE) -> tuple[StageMinute, ...]:
    story.ledger.stage_minutes.flush()
    return story.ledger.stage_minutes.figures(since, 1).get("crawl", ())


def test_a_minute_says_what_entered_how_tries_ended_and_how_long_they_waited_and_took(story: Story) -> None:
    handled, failed, parked, exhausted = story.begins(page(1), page(2), page(3), page(4))
    story.clock.passes(2)
    claim = story.claims(handled)
    story.clock.passes(1)
    story.ledger.settle(claim, Done((Next(page(5)),)))
    story.clock.passes(1)
    story.handles(failed, Retry(5.0, "later"))
    story.handles(parked, DeadLetter("policy", PolicyRefused("robots", "disallowed", "nothing")))
    story.handles(exhausted, Retry(5.0, "no more"), max_attempts=1)
    [minute] = of_crawl(story)
    assert (minute.at, minute.entered) == (moment(NOON), 5)
    assert (minute.handled, minute.failed, minute.parked) == (1, 1, 2)
    assert (minute.mean_wait_ms, minute.mean_work_ms, minute.longest_wait_ms) == (3_500, 250, 4_000)


def test_what_only_waited_did_not_fail(story: Story) -> None:
    [event] = story.begins(page())
    story.handles(event, Retry(5.0, "not yet", counts=False))
    assert [(one.entered, one.failed) for one in of_crawl(story)] == [(1, 0)]


def test_processes_add_to_the_same_minute_and_each_counts_once(story: Story) -> None:
    with Ledger(story.url, clock=story.clock) as other:
        both = (story.ledger.stage_minutes, other.stage_minutes)
        for waited, minutes in zip((1.0, 3.0), both, strict=True):
            minutes.note_ended("crawl", "handled", waited, 0.5)
            minutes.flush()
            minutes.flush()
    [minute] = of_crawl(story)
    assert (minute.handled, minute.mean_wait_ms, minute.longest_wait_ms) == (2, 2_000, 3_000)


def test_threads_lose_nothing(story: Story) -> None:
    minutes = story.ledger.stage_minutes

    def count() -> None:
        for number in range(300):
            minutes.note_ended("crawl", "handled", 0.0, 0.0)
            if number % 50 == 0:
                minutes.flush()

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [one.handled for one in of_crawl(story)] == [1_200]


def test_what_a_ledger_that_was_away_did_not_take_is_written_later(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    minutes = story.ledger.stage_minutes
    minutes.note_ended("crawl", "handled", 1.0, 1.0)

    def is_away() -> None:
        raise Unavailable("the ledger's database does not answer")

    with monkeypatch.context() as broken:
        broken.setattr(story.ledger.database, "holding", is_away)
        minutes.flush()
    minutes.note_ended("crawl", "handled", 2.0, 1.0)
    assert [(one.handled, one.longest_wait_ms) for one in of_crawl(story)] == [(2, 2_000)]


def test_a_day_later_minutes_are_hours_and_after_a_month_they_are_gone(story: Story) -> None:
    minutes: StageMinutes = story.ledger.stage_minutes
    for _ in range(90):
        minutes.note_ended("crawl", "handled", 1.0, 2.0)
        story.clock.passes(60)
    before = of_crawl(story)
    minutes.fold()
    assert of_crawl(story) == before
    story.clock.passes(MINUTES_KEPT * 60)
    for _ in range(2):
        minutes.fold()
        folded = of_crawl(story)
        assert [(one.at, one.handled) for one in folded] == [(moment(NOON), 60), (moment(NOON + 3_600), 30)]
        assert [(one.mean_wait_ms, one.mean_work_ms, one.longest_wait_ms) for one in folded] == [(1e3, 2e3, 1e3)] * 2
    story.clock.passes(DAYS_KEPT * 86_400)
    minutes.fold()
    assert of_crawl(story) == ()


def test_figures_sum_up_so_many_minutes(story: Story) -> None:
    minutes = story.ledger.stage_minutes
    for minute in range(30):
        minutes.note_ended("crawl", "failed" if minute == 9 else "handled", minute, 2.0)
        story.clock.passes(60)
    minutes.flush()
    first, second = minutes.figures(MINUTE, 15)["crawl"]
    assert (first.at, first.handled, first.failed) == (moment(NOON), 14, 1)
    assert (second.at, second.handled, second.longest_wait_ms) == (moment(NOON + 15 * 60), 15, 29_000)
    assert (first.mean_wait_ms, first.mean_work_ms) == (7_000, 2_000)
    assert minutes.figures(MINUTE + 30, 15) == {}


def test_settling_writes_no_figures(story: Story) -> None:
    [event] = story.begins(page())
    story.handles(event, Done())
    assert story.ledger.stage_minutes.figures(0, 1) == {}
