"""The waterfall of a run: its spans as a tree, with the start and duration of each.

`waterfall` is pure: spans in, a tree out. `render_waterfall` draws it for a terminal and `waterfall_json`
gives the same to a program. A span whose parent is not among the spans (still open, lost with a killed
process, or the calling agent's own) is shown at the top and flagged an orphan, never left out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from sluice.otel.logs import redact
from sluice.otel.spans import RUN_ID, StoredSpan

BAR_CELLS = 40

SHOWN_CHARACTERS = 200
"""Most characters of an error beside its span, so that a row stays short; `--json` has the whole."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One span in its place: `offset_ms` from the beginning of the waterfall, `children` by start."""

    span: StoredSpan
    offset_ms: float
    duration_ms: float
    orphan: bool
    children: tuple[Bar, ...]


@dataclass(frozen=True, slots=True)
class Waterfall:
    """Every root of the tree, the time of the first start (epoch, ns) and the length of the whole."""

    roots: tuple[Bar, ...]
    started_ns: int
    duration_ms: float


def waterfall(spans: Iterable[StoredSpan]) -> Waterfall:
    """Return the tree of `spans`. Each appears once; a loop of parents, which only a forged trace has, is cut."""
    ordered = sorted(spans, key=lambda span: (span.started_ns, span.span_id))
    if not ordered:
        return Waterfall((), 0, 0.0)
    known = {_key(span) for span in ordered}
    children: dict[tuple[str, str], list[StoredSpan]] = defaultdict(list)
    tops = []
    for span in ordered:
        parent = (span.trace_id, span.parent_id or "")
        if parent in known and parent != _key(span):
            children[parent].append(span)
        else:
            tops.append(span)
    started_ns = ordered[0].started_ns
    placed: set[tuple[str, str]] = set()
    roots = [_bar(span, children, started_ns, placed) for span in tops]
    roots += [_bar(span, children, started_ns, placed) for span in ordered if _key(span) not in placed]
    return Waterfall(tuple(roots), started_ns, _ms(max(span.ended_ns for span in ordered) - started_ns))


def render_waterfall(spans: Sequence[StoredSpan]) -> Group:
    """Return the waterfall for a terminal: tree, service, start, duration, a bar to scale, and failures."""
    drawn = waterfall(spans)
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("span", overflow="fold")
    table.add_column("service", style="cyan")
    table.add_column("start ms", justify="right")
    table.add_column("took ms", justify="right")
    table.add_column("", width=BAR_CELLS, no_wrap=True)
    bars = list(_flat(drawn.roots))
    for bar, guide in bars:
        table.add_row(
            _title(bar, guide),
            bar.span.service,
            f"{bar.offset_ms:,.1f}",
            f"{bar.duration_ms:,.1f}",
            Text(_scaled(bar, drawn.duration_ms), style="red" if bar.span.status == "error" else "green"),
        )
    return Group(table, _summary(drawn, [bar for bar, _ in bars]))


def waterfall_json(spans: Iterable[StoredSpan]) -> dict[str, Any]:
    """Return the waterfall as plain JSON types; children nested under their parents."""
    drawn = waterfall(spans)
    return {
        "started_ns": drawn.started_ns,
        "duration_ms": drawn.duration_ms,
        "spans": [_bar_json(bar) for bar in drawn.roots],
    }


def _bar(
    span: StoredSpan,
    children: dict[tuple[str, str], list[StoredSpan]],
    started_ns: int,
    placed: set[tuple[str, str]],
    top: bool = True,
) -> Bar:
    placed.add(_key(span))
    below = [
        _bar(child, children, started_ns, placed, top=False)
        for child in children[_key(span)]
        if _key(child) not in placed
    ]
    return Bar(
        span=span,
        offset_ms=_ms(span.started_ns - started_ns),
        duration_ms=_ms(span.ended_ns - span.started_ns),
        orphan=top and span.parent_id is not None,
        children=tuple(below),
    )


def _flat(bars: Sequence[Bar], prefix: str = "", top: bool = True) -> Iterator[tuple[Bar, str]]:
    for number, bar in enumerate(bars, 1):
        last = number == len(bars)
        yield bar, "" if top else prefix + ("└─ " if last else "├─ ")
        yield from _flat(bar.children, "" if top else prefix + ("   " if last else "│  "), top=False)


def _title(bar: Bar, guide: str) -> Text:
    failed = bar.span.status == "error"
    title = Text(guide, style="dim").append(bar.span.name, style="bold red" if failed else "bold")
    if bar.orphan:
        title.append("  orphan", style="yellow")
    if bar.span.links:
        title.append(f"  links to {', '.join(link.span_id[:8] for link in bar.span.links)}", style="magenta")
    if failed and bar.span.status_message:
        title.append("  " + " ".join(bar.span.status_message.split())[:SHOWN_CHARACTERS], style="red")
    return title


def _scaled(bar: Bar, whole_ms: float) -> str:
    per_ms = BAR_CELLS / whole_ms if whole_ms > 0 else 0.0
    before = min(BAR_CELLS - 1, int(bar.offset_ms * per_ms))
    return " " * before + "█" * max(1, min(BAR_CELLS - before, round(bar.duration_ms * per_ms)))


def _summary(drawn: Waterfall, bars: Sequence[Bar]) -> Text:
    traces = {bar.span.trace_id for bar in bars}
    facts = [f"{len(bars)} spans", f"{len(traces)} traces", f"{drawn.duration_ms:,.1f} ms"]
    failed = sum(bar.span.status == "error" for bar in bars)
    orphans = sum(bar.orphan for bar in bars)
    facts += [f"{failed} failed"] if failed else []
    facts += [f"{orphans} orphans (their parent is open, lost or outside)"] if orphans else []
    return Text("\n" + " · ".join(facts), style="dim")


def _bar_json(bar: Bar) -> dict[str, Any]:
    span = asdict(bar.span)
    attributes = redact({key: value for key, value in bar.span.attributes.items() if key != RUN_ID})
    return {
        **span,
        "attributes": attributes,
        "offset_ms": bar.offset_ms,
        "duration_ms": bar.duration_ms,
        "orphan": bar.orphan,
        "children": [_bar_json(child) for child in bar.children],
    }


def _key(span: StoredSpan) -> tuple[str, str]:
    return span.trace_id, span.span_id


def _ms(nanoseconds: int) -> float:
    return round(nanoseconds / 1e6, 3)
