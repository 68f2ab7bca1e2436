"""Reserved and spent together never pass a ceiling, however many ask at once."""

from __future__ import annotations

import threading

import pytest

from contracts.budget import Ceilings, Spend
from contracts.errors import BudgetExhausted
from contracts.outcome import Done, Next
from tests.workers.ledger_story import NOON, Story, page
from workers.reservations import NO_CEILING

TENTH = Spend(usd=0.1, pages=1)


def test_a_reservation_is_taken_when_it_is_emitted_and_replaced_by_what_was_spent(story: Story) -> None:
    [event] = story.begins(page(1), ceilings=Ceilings(run_usd=1.0, run_pages=10, day_usd=2.0, day_pages=20))
    [emitted] = story.handles(event, Done(emits=(Next(page(2), reserve=Spend(usd=0.4, pages=4)),))).emitted
    left = story.ledger.budget_left(event.run_id)
    assert (left.run_usd_left, left.day_usd_left, left.run_pages_left, left.day_pages_left) == (0.6, 1.6, 6, 16)
    story.handles(emitted, Done(spend=Spend(usd=0.1, pages=1)))
    left = story.ledger.budget_left(event.run_id)
    assert (left.run_usd_left, left.day_usd_left, left.run_pages_left, left.day_pages_left) == (0.9, 1.9, 9, 19)


def test_what_does_not_fit_raises_and_writes_nothing(story: Story) -> None:
    [event] = story.begins(page(1), ceilings=Ceilings(run_pages=3))
    claim = story.claims(event)
    too_much = Done(emits=(Next(page(2), reserve=Spend(pages=2)), Next(page(3), reserve=Spend(pages=2))))
    with pytest.raises(BudgetExhausted, match="run"):
        story.ledger.settle(claim, too_much)
    assert story.ledger.budget_left(event.run_id).run_pages_left == 3
    assert len(story.ledger.settle(claim, Done(emits=too_much.emits[:1])).emitted) == 1


def test_an_exact_fit_fits_to_the_last_tenth(story: Story) -> None:
    [event] = story.begins(page(1), ceilings=Ceilings(run_usd=0.3))
    emits = tuple(Next(page(number), reserve=TENTH) for number in (2, 3, 4))
    assert len(story.handles(event, Done(emits=emits)).emitted) == 3


def test_a_dropped_second_event_reserves_nothing(story: Story) -> None:
    [event] = story.begins(page(1), ceilings=Ceilings(run_pages=1))
    same = Next(page(2), dedupe_key="2", reserve=Spend(pages=1))
    assert len(story.handles(event, Done(emits=(same, same))).emitted) == 1


def test_the_day_is_shared_by_all_runs_and_ends_at_midnight_utc(story: Story) -> None:
    ceilings = Ceilings(day_pages=2)
    story.begins(Next(page(1), reserve=Spend(pages=2)), ceilings=ceilings)
    with pytest.raises(BudgetExhausted, match="day"):
        story.begins(Next(page(2), reserve=Spend(pages=1)), ceilings=ceilings)
    story.clock.now = NOON + 12 * 3_600
    [event] = story.begins(Next(page(2), reserve=Spend(pages=1)), ceilings=ceilings)
    assert story.ledger.budget_left(event.run_id).day_pages_left == 1


def test_a_run_that_does_not_fit_is_not_recorded(story: Story) -> None:
    with pytest.raises(BudgetExhausted):
        story.begins(Next(page(1), reserve=Spend(pages=2)), ceilings=Ceilings(run_pages=1))
    assert story.ledger.runs() == []


def test_parking_and_cancelling_give_reservations_back(story: Story) -> None:
    from contracts.outcome import DeadLetter

    reserving = [Next(page(number), reserve=Spend(pages=1)) for number in (1, 2)]
    parked, cancelled = story.begins(*reserving, ceilings=Ceilings(run_pages=2, day_pages=2))
    story.handles(parked, DeadLetter("policy"))
    assert story.ledger.budget_left(parked.run_id).run_pages_left == 1
    story.ledger.cancel(cancelled.run_id)
    left = story.ledger.budget_left(parked.run_id)
    assert (left.run_pages_left, left.day_pages_left) == (2, 2)


def test_without_ceilings_nothing_runs_out(story: Story) -> None:
    [event] = story.begins(page(1))
    left = story.ledger.budget_left(event.run_id)
    assert (left.run_usd_left, left.day_usd_left) == (float("inf"), float("inf"))
    assert (left.run_pages_left, left.day_pages_left) == (NO_CEILING, NO_CEILING)


def test_racing_workers_never_overspend_together(story: Story) -> None:
    ceilings = Ceilings(run_usd=0.3, day_usd=0.5)
    started = [story.begins(*(page(n) for n in range(6)), ceilings=ceilings) for _ in range(2)]
    claims = [story.claims(event) for events in started for event in events]
    fitted: list[str] = []

    def emit(position: int) -> None:
        claim = claims[position]
        try:
            story.ledger.settle(claim, Done(emits=(Next(page(9), reserve=TENTH),)))
        except BudgetExhausted:
            return
        fitted.append(claim.event.run_id)

    threads = [threading.Thread(target=emit, args=(position,)) for position in range(len(claims))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(fitted) == 5
    assert max(fitted.count(events[0].run_id) for events in started) == 3
