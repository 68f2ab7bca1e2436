"""The quarter as an SVG of two panels over the days: satisfaction and cost, with and without self-defence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, PANEL, LEFT, RIGHT, TOP, GAP = 880, 190, 56, 30, 30, 46
FONT = 'font-family="sans-serif" font-size="12"'
DEFENDED, UNDEFENDED = "#1a6fb0", "#b0501a"


@dataclass(frozen=True)
class Line:
    """One line of a panel: points (day, value)."""

    name: str
    colour: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Panel:
    """A panel: its title, the ends and marks of its axis, its lines."""

    title: str
    low: float
    high: float
    marks: Sequence[float]
    lines: Sequence[Line]
    floor: float | None = None


def draw_plot(
    panels: Sequence[Panel], days: float, changes: Sequence[float], stepped_back: Sequence[tuple[float, float]]
) -> str:
    """The SVG. `changes` are days on which the world changes; a step back stands between each two of `stepped_back`."""
    height = TOP + len(panels) * (PANEL + GAP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" {FONT}>',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
    ]
    for at, panel in enumerate(panels):
        parts += _panel(panel, TOP + at * (PANEL + GAP), days, changes, stepped_back)
    return "\n".join([*parts, "</svg>", ""])


def _panel(
    panel: Panel, top: float, days: float, changes: Sequence[float], stepped_back: Sequence[tuple[float, float]]
) -> list[str]:
    def x(day: float) -> float:
        return round(LEFT + day / days * (WIDTH - LEFT - RIGHT), 1)

    def y(value: float) -> float:
        share = (min(max(value, panel.low), panel.high) - panel.low) / (panel.high - panel.low)
        return round(top + PANEL - share * PANEL, 1)

    bottom = top + PANEL
    parts = [
        f'<rect x="{x(begin)}" y="{top}" width="{round(x(end) - x(begin), 1)}" height="{PANEL}" fill="#dbe9f4"/>'
        for begin, end in stepped_back
    ]
    parts.append(f'<text x="{LEFT}" y="{top - 8}" font-weight="bold">{panel.title}</text>')
    for at, line in enumerate(panel.lines):
        parts.append(f'<text x="{LEFT + 330 + 190 * at}" y="{top - 8}" fill="{line.colour}">{line.name}</text>')
    for mark in panel.marks:
        parts.append(f'<path d="M{LEFT} {y(mark)}H{WIDTH - RIGHT}" stroke="#dddddd"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y(mark) + 4}" text-anchor="end">{mark:g}</text>')
    for day in changes:
        parts.append(f'<path d="M{x(day)} {top}V{bottom}" stroke="#666666" stroke-dasharray="4 3"/>')
    if panel.floor is not None:
        parts.append(f'<path d="M{LEFT} {y(panel.floor)}H{WIDTH - RIGHT}" stroke="#c00000" stroke-dasharray="2 3"/>')
    for line in panel.lines:
        points = " ".join(f"{x(day)},{y(value)}" for day, value in line.points)
        parts.append(f'<polyline points="{points}" fill="none" stroke="{line.colour}" stroke-width="1.6"/>')
    for day in range(0, int(days) + 1, 15):
        parts.append(f'<text x="{x(day)}" y="{bottom + 16}" text-anchor="middle">day {day}</text>')
    return parts
