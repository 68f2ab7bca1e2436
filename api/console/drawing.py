"""Figures as places on a picture. All are percentages: SVG takes them as attributes, where a policy forbids styles."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sluice.contracts.gate import Decision
from sluice.contracts.operations.overview import StageMinute
from sluice.contracts.operations.timeline import Timeline, TimelineRow

CUT = 3.0
"""Width of a stretch in which nothing happened, in percent."""
LEAST_WIDTH = 0.35
"""A bar narrower than this is not seen."""
MINUTES = 60
SPARK_HEIGHT = 20.0


@dataclass(frozen=True, slots=True)
class Bar:
    """A stretch of an axis, in percent."""

    x: float
    width: float

    @property
    def end(self) -> float:
        """Where it ends."""
        return round(self.x + self.width, 2)


class Axis:
    """The time axis of a run: linear, but for the stretches in which nothing happened, which are cut."""

    def __init__(self, timeline: Timeline) -> None:
        self._cuts = sorted(timeline.cuts, key=lambda cut: cut.begins_ms)
        left_out = sum(cut.ends_ms - cut.begins_ms for cut in self._cuts)
        self._drawn_ms = max(1e-6, timeline.now_ms - left_out)
        self._scale = (100.0 - CUT * len(self._cuts)) / self._drawn_ms

    def place(self, at_ms: float) -> float:
        """Return where a moment is on the axis."""
        place = at_ms * self._scale
        for cut in self._cuts:
            if at_ms <= cut.begins_ms:
                break
            within = min(at_ms, cut.ends_ms) - cut.begins_ms
            place += within / (cut.ends_ms - cut.begins_ms) * CUT - within * self._scale
        return round(min(100.0, max(0.0, place)), 2)

    def bar(self, row: TimelineRow) -> Bar:
        """Return the bar of a row, wide enough to be seen."""
        begins = min(self.place(row.begins_ms), 100.0 - LEAST_WIDTH)
        ends = self.place(row.begins_ms + row.took_ms)
        return Bar(begins, round(max(LEAST_WIDTH, ends - begins), 2))

    def ends(self, row: TimelineRow) -> list[float]:
        """Return where each of the folded rows ended."""
        return [self.place(at) for at in row.ends_ms]

    @property
    def cuts(self) -> list[tuple[Bar, float]]:
        """Return where the axis is cut, and the milliseconds that are left out there."""
        return [(Bar(self.place(one.begins_ms), CUT), one.ends_ms - one.begins_ms) for one in self._cuts]


@dataclass(frozen=True, slots=True)
class Scale:
    """The score of a decision: bars of its contributions from a common zero, and places of score and thresholds."""

    zero: float
    bars: Sequence[tuple[str, float, Bar]]
    """Of each feature: its name, its contribution, its bar."""
    marks: Sequence[tuple[str, float, float]]
    """Score and thresholds: name, value, place."""


def scale_of(decision: Decision) -> Scale:
    """Return the picture of a decision's contributions. Those that gave nothing are left out."""
    given = [(one.feature, one.contribution) for one in decision.contributions if one.contribution]
    given.sort(key=lambda one: -abs(one[1]))
    marks = [
        ("score", decision.score),
        ("search from", decision.threshold_search),
        ("search and crawl from", decision.threshold_full_loop),
    ]
    values = [0.0, *(value for _, value in given), *(value for _, value in marks)]
    low, high = min(values), max(values)
    length = (high - low) or 1.0

    def place(value: float) -> float:
        return round(100.0 * (value - low) / length, 2)

    bars = [
        (name, value, Bar(place(min(0.0, value)), max(LEAST_WIDTH, round(100.0 * abs(value) / length, 2))))
        for name, value in given
    ]
    return Scale(place(0.0), bars, [(name, value, place(value)) for name, value in marks])


def spark(minutes: Iterable[StageMinute], now: datetime) -> str:
    """Return the points of a line through what was handled in each minute of the last hour, 100 wide and 20 high."""
    handled = by_time(minutes, now, timedelta(minutes=1), MINUTES, lambda one: one.handled)
    return line(handled, max(handled), 100.0, SPARK_HEIGHT) if any(handled) else ""


def by_time(
    figures: Iterable[StageMinute], now: datetime, width: timedelta, count: int, amount: Callable[[StageMinute], float]
) -> list[float]:
    """Return the amounts of the last `count` stretches of time of that width, the latest one last."""
    row = [0.0] * count
    for one in figures:
        place = count - 1 - (now - one.at) // width
        if 0 <= place < count:
            row[place] += amount(one)
    return row


def line(amounts: Sequence[float], highest: float, width: float, height: float, margin: float = 0.0) -> str:
    """Return the points of a `<polyline>` of amounts, from left to right; `highest` reaches the top."""
    step, room = width / max(1, len(amounts) - 1), height - 2 * margin
    return " ".join(
        f"{place * step:.1f},{height - margin - amount / (highest or 1) * room:.1f}"
        for place, amount in enumerate(amounts)
    )
