"""Reserved and spent together never pass a ceiling, in any unit, however many ask at once."""

from __future__ import annotations

import multiprocessing
import threading
from multiprocessing.synchronize import Barrier as ProcessBarrier

import pytest

from sluice.contracts.budget import Ceiling, Ceilings, Spend
from sluice.contracts.errors import BudgetExhausted
from sluice.contracts.event import DeadLetter, Done, Next, Retry
from sluice.ledger.events.reservations import NO_CEILING, amounts_of
from sluice.ledger.ledger import Claim, Ledger
from tests.support.ledger_story import NOON, Story, page

FIVE = {
    "pages": Spend(pages=1),
    "bytes": Spend(bytes=70_000),
    "tokens": Spend(tokens=256),
    "milliseconds": Spend(milliseconds=0.1),
    "usd": Spend(usd=0.1),
}
"""One share of each unit; of milliseconds and USD one that no sum of floats hits."""
five_units = pytest.mark.parametrize("unit", FIVE)
run_or_day = pytest.mark.parametrize("whose", ["run", "day"])


def shares(unit: str, count: int) -> Spend:
    return sum([FIVE[unit]] * count, Spend())


def ceilings(whose: str, unit: str, count: int) -> Ceilings:
    """Room for exactly `count` shares of a unit: three tenths of a dollar are 0.3, whatever floats make of it."""
    most = Ceiling.model_validate({unit: round(getattr(shares(unit, count), unit), 9)})
    return Ceilings.model_validate({whose: most})


def left(story: Story, run_id: str, whose: str, unit: str) -> float:
    amount: float = getattr(getattr(story.ledger.budget_left(run_id), whose), unit)
    return amount


@run_or_day
@five_units
def test_a_reservation_is_taken_when_it_is_emitted_and_replaced_by_what_was_spent(
    story: Story, whose: str, unit: str
) -> None:
    [event] = story.begins(page(1), ceilings=ceilings(whose, unit, 10))
    [emitted] = story.handles(event, Done(emits=(Next(page(2), reserve=shares(unit, 4)),))).emitted
    assert left(story, event.run_id, whose, unit) == pytest.approx(getattr(shares(unit, 6), unit))
    story.handles(emitted, Done(spend=FIVE[unit]))
    assert left(story, event.run_id, whose, unit) == pytest.approx(getattr(shares(unit, 9), unit))


@run_or_day
@five_units
def test_what_does_not_fit_raises_and_writes_nothing(story: Story, whose: str, unit: str) -> None:
    [event] = story.begins(page(1), ceilings=ceilings(whose, unit, 3))
    claim = story.claims(event)
    too_much = Done(emits=(Next(page(2), reserve=shares(unit, 2)), Next(page(3), reserve=shares(unit, 2))))
    with pytest.raises(BudgetExhausted, match=whose):
        story.ledger.settle(claim, too_much)
    assert left(story, event.run_id, whose, unit) == pytest.approx(getattr(shares(unit, 3), unit))
    assert len(story.ledger.settle(claim, Done(emits=too_much.emits[:1])).emitted) == 1


@run_or_day
@five_units
def test_an_exact_fit_fits_to_the_last_share(story: Story, whose: str, unit: str) -> None:
    [event] = story.begins(page(1), ceilings=ceilings(whose, unit, 3))
    emits = tuple(Next(page(number), reserve=FIVE[unit]) for number in (2, 3, 4))
    assert len(story.handles(event, Done(emits=emits)).emitted) == 3
    assert left(story, event.run_id, whose, unit) == 0


@run_or_day
@five_units
def test_what_was_spent_is_booked_even_beyond_a_ceiling_and_then_nothing_fits(
    story: Story, whose: str, unit: str
) -> None:
    [event, second] = story.begins(page(1), page(2), ceilings=ceilings(whose, unit, 2))
    story.handles(event, Done(spend=shares(unit, 5)))
    assert left(story, event.run_id, whose, unit) == 0
    with pytest.raises(BudgetExhausted):
        story.handles(second, Done(emits=(Next(page(3), reserve=FIVE[unit]),)))
    assert getattr(story.ledger.run(event.run_id).spend, unit) == pytest.approx(getattr(shares(unit, 5), unit))


def test_one_unit_at_its_ceiling_stops_what_takes_some_of_it_and_nothing_else(story: Story) -> None:
    [event] = story.begins(page(1), ceilings=Ceilings(run=Ceiling(tokens=0)))
    claim = story.claims(event)
    with pytest.raises(BudgetExhausted, match="tokens"):
        story.ledger.settle(claim, Done(emits=(Next(page(2), reserve=Spend(pages=1, tokens=1)),)))
    assert len(story.ledger.settle(claim, Done(emits=(Next(page(2), reserve=Spend(pages=1)),))).emitted) == 1


def test_a_dropped_second_event_reserves_nothing(story: Story) -> None:
    [event] = story.begins(page(1), ceilings=ceilings("run", "pages", 1))
    same = Next(page(2), dedupe_key="2", reserve=Spend(pages=1))
    assert len(story.handles(event, Done(emits=(same, same))).emitted) == 1


@five_units
def test_the_day_is_shared_by_all_runs_and_ends_at_midnight_utc(story: Story, unit: str) -> None:
    most = ceilings("day", unit, 2)
    story.begins(Next(page(1), reserve=shares(unit, 2)), ceilings=most)
    with pytest.raises(BudgetExhausted, match="day"):
        story.begins(Next(page(2), reserve=FIVE[unit]), ceilings=most)
    story.clock.now = NOON + 12 * 3_600
    [event] = story.begins(Next(page(2), reserve=FIVE[unit]), ceilings=most)
    assert left(story, event.run_id, "day", unit) == pytest.approx(getattr(FIVE[unit], unit))


@five_units
def test_a_reservation_held_over_midnight_is_let_go_on_the_day_that_carries_it(story: Story, unit: str) -> None:
    most = ceilings("day", unit, 2)
    [event] = story.begins(Next(page(1), reserve=shares(unit, 2)), ceilings=most)
    story.clock.now = NOON + 12 * 3_600
    story.handles(event, Done(spend=FIVE[unit]))
    assert left(story, event.run_id, "day", unit) == pytest.approx(getattr(FIVE[unit], unit))
    story.clock.now = NOON
    assert left(story, event.run_id, "day", unit) == pytest.approx(getattr(shares(unit, 2), unit))


def test_a_run_that_does_not_fit_is_not_recorded(story: Story) -> None:
    with pytest.raises(BudgetExhausted):
        story.begins(Next(page(1), reserve=Spend(pages=2)), ceilings=ceilings("run", "pages", 1))
    assert story.ledger.runs() == []


@five_units
def test_parking_and_cancelling_give_reservations_back_and_a_retry_keeps_them(story: Story, unit: str) -> None:
    most = Ceilings(run=ceilings("run", unit, 3).run, day=ceilings("day", unit, 3).day)
    reserving = [Next(page(number), reserve=FIVE[unit]) for number in (1, 2, 3)]
    parked, retried, cancelled = story.begins(*reserving, ceilings=most)
    story.handles(parked, DeadLetter("policy"))
    story.handles(retried, Retry(60.0, "later"))
    story.claims(cancelled)
    for whose in ("run", "day"):
        assert left(story, parked.run_id, whose, unit) == pytest.approx(getattr(FIVE[unit], unit))
    story.ledger.cancel(cancelled.run_id)
    for whose in ("run", "day"):
        assert left(story, parked.run_id, whose, unit) == pytest.approx(getattr(shares(unit, 3), unit))


@five_units
@pytest.mark.parametrize("attempt", ["retried", "parked", "exhausted"])
def test_what_a_failed_attempt_has_cost_is_booked(story: Story, unit: str, attempt: str) -> None:
    most = Ceilings(run=ceilings("run", unit, 5).run, day=ceilings("day", unit, 5).day)
    [event] = story.begins(Next(page(1), reserve=shares(unit, 2)), ceilings=most)
    spend, held = FIVE[unit], 2 if attempt == "retried" else 0
    outcome = DeadLetter("discarded", spend=spend) if attempt == "parked" else Retry(0.0, "later", spend)
    story.ledger.settle(story.claims(event), outcome, max_attempts=1 if attempt == "exhausted" else 3)
    for whose in ("run", "day"):
        assert left(story, event.run_id, whose, unit) == pytest.approx(getattr(shares(unit, 4 - held), unit))
    assert getattr(story.ledger.run(event.run_id).spend, unit) == pytest.approx(getattr(spend, unit))


def test_without_ceilings_nothing_runs_out(story: Story) -> None:
    [event] = story.begins(page(1))
    assert story.ledger.budget_left(event.run_id) == Ceilings()
    most = Spend(pages=10**12, bytes=10**15, tokens=10**12, milliseconds=1e12, usd=1e6)
    assert max(amounts_of(most).values()) < NO_CEILING
    assert len(story.handles(event, Done(emits=(Next(page(2), reserve=most),))).emitted) == 1


class Race:
    """Claimed events of two runs, each of which would reserve one share; the ceilings leave room for some."""

    def __init__(self, story: Story, unit: str, per_run: int) -> None:
        self.unit = unit
        most = Ceilings(run=ceilings("run", unit, 3).run, day=ceilings("day", unit, 5).day)
        started = [story.begins(*map(page, range(per_run)), ceilings=most) for _ in range(2)]
        self.runs = [events[0].run_id for events in started]
        self.claims = [story.claims(event) for events in started for event in events]

    def settle(self, ledger: Ledger, claim: Claim) -> bool:
        """Whether there was room for what the claim emits."""
        try:
            ledger.settle(claim, Done(emits=(Next(page(99), reserve=FIVE[self.unit]),)))
        except BudgetExhausted:
            return False
        return True

    def holds(self, story: Story) -> None:
        """Five shares of the day fitted, of no run more than three, and nothing more does."""
        spread = sorted(self._held(story, run_id) for run_id in self.runs)
        assert sum(spread) == 5
        assert spread[1] <= 3
        assert left(story, self.runs[0], "day", self.unit) == 0

    def _held(self, story: Story, run_id: str) -> int:
        return len(story.ledger.events_of_kind(run_id, "CrawlDirected")) - len(self.claims) // 2


@five_units
def test_racing_threads_never_overspend_together(story: Story, unit: str) -> None:
    race = Race(story, unit, per_run=6)
    together = threading.Barrier(len(race.claims))

    def settle(claim: Claim) -> None:
        together.wait()
        race.settle(story.ledger, claim)

    threads = [threading.Thread(target=settle, args=(claim,)) for claim in race.claims]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    race.holds(story)


def _settle_in_a_process(url: str, together: ProcessBarrier, work: list[tuple[Race, list[Claim]]]) -> None:
    with Ledger(url, clock=lambda: NOON) as ledger:
        for race, claims in work:
            together.wait()
            for claim in claims:
                race.settle(ledger, claim)


def test_racing_processes_never_overspend_together(story: Story) -> None:
    races = [Race(story, unit, per_run=4) for unit in FIVE]
    apart = multiprocessing.get_context("forkserver")
    together = apart.Barrier(2)
    shared_out = ([(race, race.claims[half::2]) for race in races] for half in (0, 1))
    processes = [apart.Process(target=_settle_in_a_process, args=(story.url, together, work)) for work in shared_out]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    for race in races:
        race.holds(story)
