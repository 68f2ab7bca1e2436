"""The extrapolation as an SVG: pages a second over workers, the measured points, and what was assumed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from bench.simulate.calibrate import Comparison
from bench.simulate.extrapolate import ASSUMED, SHORT, TOTAL_WORKERS, Extrapolation, Point

WIDTH, HEIGHT, LEFT, TOP, PANEL_WIDTH, PANEL_HEIGHT = 960, 610, 64, 46, 500, 360
X_ENDS, Y_ENDS = (0, 4), (-1, 4)
"""Powers of ten at the ends of the axes."""
FONT = 'font-family="sans-serif" font-size="12"'
ONE, FREE, MANY, MEASURED = "#1a6fb0", "#b0501a", "#2c7d3a", "#000000"


def draw(found: Extrapolation, compared: Sequence[Comparison]) -> str:
    """The SVG."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" {FONT}>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        f'<text x="{LEFT}" y="22" font-size="15" font-weight="bold">Pages a second, from URL to searchable</text>',
        *_axes(),
        *_line((*found.one_instance, found.full), ONE),
        *_line(found.without_index, FREE, "6 4"),
        *_many(found),
    ]
    for one in compared:
        x, y = _x(one.workers), _y(one.measured.per_second)
        parts.append(f'<circle cx="{x}" cy="{y}" r="4" fill="none" stroke="{MEASURED}" stroke-width="1.4"/>')
        predicted = _y(one.predicted.per_second)
        parts.append(f'<path d="M{x - 6} {predicted}H{x + 6}" stroke="{MEASURED}" stroke-width="1.4"/>')
    parts += _legend(found)
    parts += _assumptions(found)
    return "\n".join([*parts, "</svg>", ""])


def _x(value: float) -> float:
    low, high = X_ENDS
    return round(LEFT + (math.log10(value) - low) / (high - low) * PANEL_WIDTH, 1)


def _y(value: float) -> float:
    low, high = Y_ENDS
    share = (math.log10(max(value, 10**low)) - low) / (high - low)
    return round(TOP + PANEL_HEIGHT * (1 - share), 1)


def _axes() -> list[str]:
    bottom, parts = TOP + PANEL_HEIGHT, []
    for power in range(X_ENDS[0], X_ENDS[1] + 1):
        x = _x(10**power)
        parts.append(f'<path d="M{x} {TOP}V{bottom}" stroke="#dddddd"/>')
        parts.append(f'<text x="{x}" y="{bottom + 16}" text-anchor="middle">{10**power:,}</text>')
    for power in range(Y_ENDS[0], Y_ENDS[1] + 1):
        y = _y(10**power)
        parts.append(f'<path d="M{LEFT} {y}H{LEFT + PANEL_WIDTH}" stroke="#dddddd"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4}" text-anchor="end">{10.0**power:g}</text>')
    middle = LEFT + PANEL_WIDTH / 2
    parts.append(f'<text x="{middle}" y="{bottom + 34}" text-anchor="middle">workers that embed</text>')
    return parts


def _line(points: Sequence[Point], colour: str, dashes: str = "") -> list[str]:
    places = [(_x(one.embed_workers), one) for one in points]
    drawn = " ".join(f"{x},{_y(one.mean)}" for x, one in places)
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    seeds = [
        f'<circle cx="{x}" cy="{_y(rate)}" r="2" fill="{colour}"/>'
        for x, one in places
        for rate in one.pages_per_second
    ]
    return [f'<polyline points="{drawn}" fill="none" stroke="{colour}" stroke-width="1.8"{dashed}/>', *seeds]


def _many(found: Extrapolation) -> list[str]:
    """The line of as many instances as it takes, up to all workers."""
    each, workers = found.each, found.instances * found.each.embed_workers
    ends = f"{_x(each.embed_workers)},{_y(each.mean)} {_x(workers)},{_y(found.pages_per_second)}"
    return [
        f'<polyline points="{ends}" fill="none" stroke="{MANY}" stroke-width="1.8"/>',
        *(
            f'<circle cx="{_x(workers)}" cy="{_y(found.instances * rate)}" r="2.5" fill="{MANY}"/>'
            for rate in each.pages_per_second
        ),
    ]


def _legend(found: Extrapolation) -> list[str]:
    x, full, each = LEFT + PANEL_WIDTH + 24, found.full, found.each
    lines = [
        (ONE, "one instance, as it is (3 seeds)"),
        (ONE, f"  {TOTAL_WORKERS:,} workers: {full.mean:,.0f}/s; {full.ends_first} ends it"),
        (FREE, "the same if its index writer were no bound"),
        (FREE, f"  {found.without_index[-1].mean:,.0f}/s; {found.without_index[-1].ends_first} ends it"),
        (MANY, f"{found.instances} instances of {each.workers} workers"),
        (MANY, f"  {found.pages_per_second:,.0f}/s: 10⁹ chunks in {_days(found):.1f} days"),
        (MEASURED, "○ measured on 2 cores that others used too"),
        (MEASURED, "—  what the simulation says of them"),
    ]
    parts = [
        f'<text x="{x}" y="{TOP + 14 + 18 * at}" fill="{colour}" xml:space="preserve">{escape(text)}</text>'
        for at, (colour, text) in enumerate(lines)
    ]
    y = TOP + 14 + 18 * len(lines) + 16
    parts.append(f'<text x="{x}" y="{y}" font-weight="bold">Pages a second if a guess is half | double</text>')
    for at, (name, (half, double)) in enumerate(largest(found)):
        text = f"{ASSUMED[name]}: ×{half:.2f} | ×{double:.2f}"
        parts.append(f'<text x="{x}" y="{y + 18 * (at + 1)}">{escape(text)}</text>')
    y += 18 * 4 + 16
    parts.append(f'<text x="{x}" y="{y}" font-weight="bold">A query that asks n shards: p50, p99</text>')
    for at, (shards, (p50, p99)) in enumerate(found.queries.items()):
        text = f"{shards:,}: {1e3 * p50:.0f} ms, {1e3 * p99:.0f} ms"
        parts.append(f'<text x="{x}" y="{y + 18 * (at + 1)}">{escape(text)}</text>')
    return parts


def largest(found: Extrapolation, count: int = 3) -> list[tuple[str, tuple[float, float]]]:
    """The assumptions that change most when they are half or double."""

    def moved(one: tuple[str, tuple[float, float]]) -> float:
        return max(abs(math.log(max(rate, 1e-3))) for rate in one[1])

    return sorted(found.sensitivity.items(), key=moved, reverse=True)[:count]


def _days(found: Extrapolation) -> float:
    return 1e9 / found.assumed.chunks_per_page / found.pages_per_second / 86_400


def _assumptions(found: Extrapolation) -> list[str]:
    y, assumed = TOP + PANEL_HEIGHT + 66, found.assumed
    lines = [
        f"Measured on one small instance: stages' seconds, {assumed.chunks_per_page:.1f} chunks a page, and what two "
        "cores do together. Assumed for all else:",
        "each worker has a core of its own; the index writer takes as long for a page whatever it holds; other pools "
        "are a third larger than they need be;",
        f"a page takes {assumed.page_seconds:g} s to fetch, {assumed.crawl_failures:.0%} of the tries fail for a "
        f"while; {assumed.hosts:,} hosts, 2 requests a second each;",
        f"each instance has a PostgreSQL: {assumed.ledger_per_second:,.0f} settlings/s, {assumed.dead_each:g} dead "
        f"rows each, half as fast at {assumed.slowed_by:,.0f}, vacuum removes {assumed.cleaned_per_second:,.0f}/s;",
        f"each worker writes a sign of life every {assumed.beat_seconds:g} s; corpora are divided evenly among "
        "instances; a shard answers as one small instance here did.",
        f"Simulated: one hour where all workers are one instance, and for one of many; {SHORT / 60:g} to 20 minutes "
        "for other points. Three seeds; sensitivities one.",
    ]
    title = f'<text x="{LEFT}" y="{y}" font-weight="bold">Assumptions</text>'
    return [title, *(f'<text x="{LEFT}" y="{y + 18 * at}">{escape(text)}</text>' for at, text in enumerate(lines, 1))]
