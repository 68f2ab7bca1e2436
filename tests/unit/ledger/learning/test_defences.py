"""The gate's steps back in the ledger, on both databases: all of a look is written, or nothing, and once."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from sluice.contracts.learning.events import CONTROL_CORPUS, DefenceHealed
from sluice.ledger.audit import ControlChange
from sluice.ledger.learning.controls import DefenceRow, Position
from sluice.ledger.ledger import Ledger
from sluice.ledger.trust.blobs import Place

NOON = datetime(2031, 5, 6, 12, tzinfo=UTC).timestamp()
OLDER, OLD, NEW = "a" * 64, "b" * 64, "c" * 64


@pytest.fixture
def ledger(ledger_url: str) -> Iterator[Ledger]:
    with Ledger(ledger_url, clock=lambda: NOON) as opened:
        yield opened


def row(state: str = "{}", tripped_at: float | None = None, profile: str = "default") -> DefenceRow:
    return DefenceRow("satisfaction", profile, state, tripped_at)


def healed() -> ControlChange:
    body = DefenceHealed(name="satisfaction", profile="default", by="data", why="better")
    return ControlChange((body,), "defence_heal", "defence:satisfaction:default")


def test_rows_the_position_and_the_event_are_written_together(ledger: Ledger) -> None:
    seen, rows = ledger.defences.rows()
    assert (seen, rows) == (Position(), ())
    [created] = ledger.defences.write(seen, Position(NOON, "run_9"), [row(tripped_at=NOON)], [healed()]) or ()
    position, rows = ledger.defences.rows()
    assert (position.decided_at, position.run_id, rows) == (NOON, "run_9", (row(tripped_at=NOON),))
    assert ledger.defences.standing() == rows
    [run] = ledger.runs(corpus=CONTROL_CORPUS)
    assert (run.run_id, run.status) == (created.run_id, "finished")


def test_of_two_processes_that_looked_at_the_same_runs_one_writes(ledger: Ledger) -> None:
    seen, _ = ledger.defences.rows()
    for _ in range(2):  # from the very beginning, and from a later position
        assert ledger.defences.write(seen, Position(NOON, "run_1"), [row('{"by": 1}')]) == ()
        assert ledger.defences.write(seen, Position(NOON, "run_2"), [row('{"by": 2}')], [healed()]) is None
        seen, rows = ledger.defences.rows()
        assert (seen.run_id, rows) == ("run_1", (row('{"by": 1}'),))
    assert ledger.runs(corpus=CONTROL_CORPUS) == []


def test_an_operator_who_lifts_makes_a_look_under_way_void_although_the_position_stays(ledger: Ledger) -> None:
    ledger.defences.write(Position(), Position(NOON, "run_1"), [row("tripped", NOON)])
    seen, _ = ledger.defences.rows()
    assert ledger.defences.write(seen, seen, [row("lifted")], [healed()]) is not None
    assert ledger.defences.write(seen, Position(NOON, "run_2"), [row("tripped", NOON)]) is None
    assert ledger.defences.standing() == ()


def test_an_event_that_cannot_be_written_leaves_the_rows_as_they_were(ledger: Ledger) -> None:
    class Refused(Exception):
        pass

    class Body:
        def __iter__(self) -> Iterator[object]:
            raise Refused

    change = ControlChange(Body(), "defence_heal", "defence:satisfaction:default")  # type: ignore[arg-type]
    with pytest.raises(Refused):
        ledger.defences.write(Position(), Position(NOON, "run_1"), [row()], [change])
    assert ledger.defences.rows() == (Position(), ())
    assert ledger.runs(corpus=CONTROL_CORPUS) == []


def test_the_trickle_of_a_profile_ends_for_the_day_and_begins_with_the_next(ledger: Ledger) -> None:
    days = ["2031-05-06"] * 3 + ["2031-05-07"]
    assert [ledger.defences.take_trickle("default", day, 2) for day in days] == [True, True, False, True]
    assert ledger.defences.take_trickle("code", "2031-05-06", 2)
    assert ledger.defences.rows() == (Position(), ()), "no defence looked at anything"


def test_the_configuration_before_is_the_one_that_came_just_before_without_those_that_failed(ledger: Ledger) -> None:
    known = ledger.configurations
    for at, name in enumerate((OLDER, OLD, NEW)):
        assert known.record("default", name, NOON + at)
    assert not known.record("default", OLDER, NOON + 9), "its first time stays"
    assert known.before("default", NEW) == OLD
    assert known.before("default", NEW, {OLD}) == OLDER
    assert known.before("default", OLD) == OLDER
    assert known.before("default", OLDER) is None
    assert known.before("code", NEW) is None


def test_the_profile_of_a_configuration_stays_among_the_blobs(ledger: Ledger) -> None:
    ledger.configurations.record("default", f"{NEW}+7", NOON)
    found: set[str] = set()
    place: Place | None = Place()
    while place is not None:
        some, place = ledger.blob_references(place, 100)
        found |= some
    assert NEW in found
