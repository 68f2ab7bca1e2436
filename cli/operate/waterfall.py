"""Draws a run's timeline: a row for each stretch of time, with a word for what it is and a bar to scale."""

from __future__ import annotations

from rich.console import Group
from rich.table import Table
from rich.text import Text

from sluice.cli.output import plain_text
from sluice_client.models import Timeline
from sluice_client.models.answers import TimelineCut, TimelineRow

BAR_CELLS = 40
CUT_CELLS = 1
WORDS = {
    "waits": ("waits", "yellow", "░"),
    "works": ("works", "green", "█"),
    "failed": ("failed", "red", "█"),
    "died": ("worker died", "red", "▒"),
    "backs_off": ("backs off", "magenta", "░"),
    "detail": ("", "cyan", "▄"),
}
"""What a row says it is, its colour and the fill of its bar."""


def waterfall(timeline: Timeline) -> Group:
    """Return the rows for a terminal, in the order of causes, and a line that counts what is not shown."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("step", overflow="fold")
    table.add_column("is")
    for heading in ("from ms", "took ms"):
        table.add_column(heading, justify="right")
    table.add_column("", width=BAR_CELLS, no_wrap=True)
    table.add_column("why", overflow="fold")
    axis = _Axis(timeline)
    for row in timeline.rows:
        word, colour, fill = WORDS.get(row.doing, (row.doing, "white", "█"))
        table.add_row(
            Text("  " * row.depth + plain_text(row.label), style="bold" if row.is_critical else ""),
            Text(word + (" still" if row.is_under_way else ""), style=colour),
            f"{row.begins_ms:,.1f}",
            f"{row.took_ms:,.1f}" if row.shortest_ms is None else f"{row.shortest_ms:,.1f}–{row.longest_ms:,.1f}",
            Text(axis.bar(row, fill), style=colour),
            plain_text(row.why),
        )
    return Group(table, Text(_told(timeline), style="dim"))


class _Axis:
    """The time axis in cells: linear, but for the cuts, each of which is a mark of one cell."""

    def __init__(self, timeline: Timeline) -> None:
        self._cuts = timeline.cuts
        drawn = timeline.now_ms - sum(one.ends_ms - one.begins_ms for one in self._cuts)
        self._per_ms = (BAR_CELLS - CUT_CELLS * len(self._cuts)) / drawn if drawn > 0 else 0.0

    def bar(self, row: TimelineRow, fill: str) -> str:
        """Return a row's bar: with a mark where it is cut, and a ragged end while it goes on."""
        begins, ends = (self._cell(at) for at in (row.begins_ms, row.begins_ms + row.took_ms))
        first = max(0, min(BAR_CELLS - 1, int(begins)))
        cells = list(" " * first + fill * max(1, min(BAR_CELLS - first, round(ends - begins))))
        for cut in self._cuts:
            at = int(self._cell(cut.begins_ms))
            if first <= at < len(cells):
                cells[at] = "⋯"
        return "".join(cells) + ("›" if row.is_under_way and len(cells) < BAR_CELLS else "")

    def _cell(self, at_ms: float) -> float:
        cells = at_ms * self._per_ms
        for cut in self._cuts:
            passed = max(0.0, min(at_ms, cut.ends_ms) - cut.begins_ms)
            cells += (CUT_CELLS if passed else 0) - passed * self._per_ms
        return cells


def _told(timeline: Timeline) -> str:
    shown = f"{len(timeline.rows):,} of {timeline.rows_in_all:,} rows; bold: what the end waited for"
    return "; ".join([shown, *(f"⋯ {_length(cut)} nothing" for cut in timeline.cuts)])


def _length(cut: TimelineCut) -> str:
    seconds = round((cut.ends_ms - cut.begins_ms) / 1_000)
    hours, minutes = seconds // 3_600, seconds // 60 % 60
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds % 60} s" if minutes else f"{seconds} s"
