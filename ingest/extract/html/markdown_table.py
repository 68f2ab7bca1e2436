"""A table of a page as Markdown: the cells of its rows, with those that span rows or columns filled up."""

from __future__ import annotations

from collections.abc import Sequence

from sluice.ingest.extract.extracted import LinkedWords
from sluice.ingest.extract.html.markdown_lines import Lines

_MOST_COLUMNS = 200


class Table:
    """The rows of a table, each a list of cells; it is written at its end, when its width is known."""

    def __init__(self, out: Lines) -> None:
        self.out = out
        self.rows: list[list[Lines]] = []
        self._held: dict[int, int] = {}

    def cell(self, columns: int, rows: int) -> Lines:
        """A new cell at the end of the last row, that spans `columns` and `rows`."""
        if not self.rows:
            self.rows.append([])
        row = self.rows[-1]
        self._skip_held(row)
        cell = Lines(is_cell=True)
        width = max(1, min(columns, _MOST_COLUMNS - len(row)))
        if rows > 1:
            self._held.update((len(row) + column, min(rows, 1_000) - 1) for column in range(width))
        row.append(cell)
        row.extend(Lines(is_cell=True) for _ in range(width - 1))
        return cell

    def _skip_held(self, row: list[Lines]) -> None:
        """Empty cells where one of a row above reaches down."""
        while self._held.get(len(row), 0) and len(self.rows) > 1 and len(row) < _MOST_COLUMNS:
            self._held[len(row)] -= 1
            row.append(Lines(is_cell=True))

    def write(self) -> None:
        """Add the table to the text around it; the first row is its head."""
        rows = [row for row in self.rows if any(cell.text() for cell in row)]
        if not rows:
            return
        width = min(max(map(len, rows)), _MOST_COLUMNS)
        lines = [_joined(row, width) for row in rows]
        self.out.gap(2)
        self.out.add_rows([lines[0], ("|" + " --- |" * width, ()), *lines[1:]])


def _joined(row: Sequence[Lines], width: int) -> tuple[str, list[LinkedWords]]:
    linked: list[LinkedWords] = []
    line = "|"
    for cell in row[:width]:
        line += " "
        linked += [LinkedWords(len(line) + link.start, len(line) + link.end, link.url) for link in cell.linked]
        line += f"{cell.text()} |"
    return line + "  |" * (width - len(row)), linked
