"""Where bars and marks stand on a picture, and how moments and amounts are told."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from sluice.api.console import words
from sluice.api.console.drawing import CUT, LEAST_WIDTH, Axis, spark
from sluice.contracts.operations.overview import StageMinute
from sluice.contracts.operations.timeline import Timeline, TimelineCut, TimelineRow

NOW = datetime(2026, 5, 4, 12, 30, 30, tzinfo=UTC)


def timeline(now_ms: float, *cuts: tuple[float, float]) -> Timeline:
    return Timeline(
        run_id="run_1",
        status="finished",
        created_at=NOW,
        now_ms=now_ms,
        is_over=True,
        sum_line="",
        sums=(),
        rows=(),
        rows_in_all=0,
        cuts=tuple(TimelineCut(begins_ms=begins, ends_ms=ends) for begins, ends in cuts),
    )


def row(begins_ms: float, took_ms: float, **more: object) -> TimelineRow:
    told = {"event_id": "e", "kind": "K", "label": "K", "depth": 0, "doing": "works"}
    return TimelineRow.model_validate({**told, "begins_ms": begins_ms, "took_ms": took_ms, **more})


def test_a_time_axis_is_linear_and_ends_at_now() -> None:
    axis = Axis(timeline(200))
    assert [axis.place(at) for at in (0, 50, 200, 500)] == [0, 25, 100, 100]
    assert axis.bar(row(50, 100)).end == 75
    assert axis.bar(row(200, 0)).end == 100
    assert axis.bar(row(200, 0)).width == LEAST_WIDTH
    assert axis.ends(row(0, 0, ends_ms=(20, 40))) == [10, 20]


def test_stretches_in_which_nothing_happened_are_cut_to_a_mark() -> None:
    axis = Axis(timeline(10_000, (100, 5_000), (5_100, 10_000)))
    places = [axis.place(at) for at in (0, 100, 2_550, 5_000, 5_100, 10_000)]
    half = (100 - 2 * CUT) / 2
    assert places == [0, half, half + CUT / 2, half + CUT, 2 * half + CUT, 100]
    assert [(bar.x, left_out) for bar, left_out in axis.cuts] == [(half, 4_900), (2 * half + CUT, 4_900)]
    steps = [axis.place(at) for at in range(0, 10_001, 7)]
    assert steps == sorted(steps)


def test_a_run_without_a_length_is_drawn() -> None:
    assert Axis(timeline(0)).bar(row(0, 0)).width == LEAST_WIDTH


def test_a_spark_has_a_point_for_each_minute_of_the_hour_and_is_left_out_without_any() -> None:
    def at(minutes: int, handled: int) -> StageMinute:
        return StageMinute(at=NOW - timedelta(minutes=minutes), handled=handled)

    points = spark([at(0, 10), at(59, 5), at(61, 99)], NOW).split()
    assert len(points) == 60
    assert (points[-1], points[0], points[30]) == ("100.0,0.0", "0.0,10.0", "50.8,20.0")
    assert spark([], NOW) == spark([at(5, 0)], NOW) == ""


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (0, "0 s"),
        (0.0448, "45 ms"),
        (7.01, "7 s"),
        (59.4, "59 s"),
        (200, "3 min"),
        (15_120, "4 h 12 min"),
        (90_000, "1 d 1 h"),
    ],
)
def test_a_span_is_told_in_one_or_two_units(seconds: float, told: str) -> None:
    assert words.span(seconds) == told


def test_amounts_are_told_short() -> None:
    assert [words.number(one) for one in (0, 12_345, 0.3123, 2.5, 1e6)] == ["0", "12,345", "0.312", "2.5", "1,000,000"]
    assert [words.in_bytes(one) for one in (0, 999, 1_400_000, 5e12)] == ["0 B", "999 B", "1.4 MB", "5 TB"]
    assert words.milliseconds(3_110) == "3.11 s"
    assert words.cited("a [1] b [x] [23]") == [("a ", None), ("1", 1), (" b [x] ", None), ("23", 23)]
