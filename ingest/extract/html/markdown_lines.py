"""Writes the lines and tables of a Markdown text: white space is collapsed, marks are written when words follow.

Text that begins like a heading or a fence is escaped by a backslash, so that the chunker sees no structure in it.
Table cells that span rows or columns are padded with empty ones.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from sluice.ingest.extract.extracted import LinkedWords

_DEEPEST = 12
"""Most indented levels of lists and quotes: deeper ones, which only a machine makes, would square the text."""
_READS_AS_MARKUP = re.compile(r"#{1,6}(?:\s|$)|`{3,}|~{3,}|(?:=+|-{2,})\s*$")


class Lines:
    """The text so far. `gap` requests line breaks before the next words; marks wait until words follow."""

    def __init__(self, *, is_cell: bool = False) -> None:
        self._parts: list[str] = []
        self._add = self._parts.append
        self._length = self._counted = 0
        self._gap = 0
        self._space = False
        self._prefix = ""
        self._depth = 0
        self._mark: str | None = None
        self._around = ""
        self._open: list[list[str]] = []
        self._link_start = 0
        self._is_cell = is_cell
        self.is_heading = False
        self.linked: list[LinkedWords] = []

    def text(self) -> str:
        """Return all of it, without white space at its end."""
        return "".join(self._parts)

    def gap(self, lines: int) -> None:
        """Request a line break (1) or a blank line (2); in a heading or a cell it is a space."""
        if self._is_cell or self.is_heading:
            self._space = True
            return
        if self._open:
            self._suspend()
        if lines > self._gap:
            self._gap = lines
        self._space = False

    def mark(self, mark: str, prefix: str) -> int:
        """Put `mark` before the next words and `prefix` before later lines; return the width for `unmark`."""
        if self._is_cell:
            return 0
        if self._depth >= _DEEPEST and prefix:
            return 0
        if self._mark is None:
            self._mark = self._around = self._prefix
        self._mark += mark
        self._prefix += prefix
        self._depth += bool(prefix)
        return len(prefix)

    def unmark(self, width: int) -> None:
        """End the last mark, with the `width` of its prefix."""
        if width:
            self._prefix = self._prefix[:-width]
            self._depth -= 1
        if not self._is_cell:
            self._mark = None

    def emphasise(self, mark: str) -> bool:
        """Put `mark` around the words until `end_emphasis`; False in a heading, or if they have that mark already."""
        if self.is_heading or any(opened[2] == mark for opened in self._open):
            return False
        self._open.append(["", "", mark])
        return True

    def link(self, address: str) -> bool:
        """Link the words until `end_emphasis` to `address`; False within another link."""
        if any(opened[1] for opened in self._open):
            return False
        self._open.append(["", address, ""])
        return True

    def end_emphasis(self) -> None:
        """End the last emphasis or link."""
        if self._open:
            self._end(self._open.pop())

    def words(self, text: str) -> None:
        """Add text, its white space collapsed."""
        words = text.split()
        if not words:
            self._space = self._space or bool(text)
            return
        if text[0].isspace():
            self._space = True
        line = " ".join(words)
        if self._is_cell and "|" in line:
            line = line.replace("|", "\\|")
        self._begin(line)
        self._add(line)
        self._space = text[-1].isspace()

    def code(self, line: str, *, opens: bool, closes: bool) -> None:
        """Add inline code; `opens` and `closes`: whether space stands at its ends."""
        self._space = self._space or opens
        self._begin("")
        self._add(line.replace("|", "\\|") if self._is_cell else line)
        self._space = closes

    def lines(self, lines: Sequence[str]) -> None:
        """Add whole lines unchanged."""
        if self._is_cell:
            self.words(" ".join(lines[1:-1]))
            return
        for line in lines:
            self._begin("")
            self._add(line)
            self._gap = 1

    def close(self) -> None:
        """End all open emphasis and links."""
        while self._open:
            self.end_emphasis()

    def add_rows(self, rows: Sequence[tuple[str, Sequence[LinkedWords]]]) -> None:
        """Add table rows with their links, whose offsets count from the start of each row."""
        for line, linked in rows:
            self._begin("")
            start = self.length()
            self._add(line)
            self.linked += [LinkedWords(start + link.start, start + link.end, link.url) for link in linked]
            self._gap = 1
        self._gap = 2

    def _begin(self, line: str) -> None:
        """Write everything before the next words: line breaks, the marks of the line, a space, emphasis."""
        if self._gap or not self._parts:
            if self._parts:
                blank = (self._prefix if self._mark is None else self._around).rstrip()
                self._add(f"\n{blank}\n" if self._gap > 1 else "\n" * self._gap)
            before = self._prefix if self._mark is None else self._mark
            if before:
                self._add(before)
            self._mark = None
            self._gap = 0
            if _READS_AS_MARKUP.match(line) and not self.is_heading and not self._is_cell:
                self._add("\\")
        elif self._mark is not None and not self._is_cell:
            self._mark = None
        elif self._space:
            self._add(" ")
        self._space = False
        if self._open:
            self._resume()

    def length(self) -> int:
        """Return the number of characters so far."""
        self._length += sum(map(len, self._parts[self._counted :]))
        self._counted = len(self._parts)
        return self._length

    def _resume(self) -> None:
        for opened in self._open:
            if opened[0] or (opened[2] and self.is_heading):
                continue
            opened[0] = "begun"
            if opened[1]:
                self._link_start = self.length()
            else:
                self._add(opened[2])

    def _suspend(self) -> None:
        for opened in reversed(self._open):
            self._end(opened)

    def _end(self, opened: list[str]) -> None:
        if not opened[0]:
            return
        opened[0] = ""
        if opened[1]:
            self.linked.append(LinkedWords(self._link_start, self.length(), opened[1]))
        else:
            self._add(opened[2])


_MOST_COLUMNS = 200


class Table:
    """The rows of a table, each a list of cells; it is written at its end, when its width is known."""

    def __init__(self, out: Lines) -> None:
        self.out = out
        self.rows: list[list[Lines]] = []
        self._held: dict[int, int] = {}

    def cell(self, columns: int, rows: int) -> Lines:
        """Add a cell at the end of the last row, spanning `columns` and `rows`."""
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
        """Add empty cells where a cell of a row above reaches down."""
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
