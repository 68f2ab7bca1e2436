"""Tables of a Markdown text that are split: each part after the first begins with the table's header rows.

A row says little without the names of its columns, neither to a model that embeds it nor to one that reads it. The
header is repeated in the chunk's text alone: its lines are those of the rows.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from sluice.ingest.chunk.passage import Passage
from sluice.ingest.chunk.sections import Fences
from sluice.ingest.embed.tokens import TokenSpans

_DELIMITER_ROW = re.compile(r"[ \t>]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*\r?$")
_LARGEST_SHARE = 2
"""A header that takes more than one in so many tokens of a chunk is not repeated: the rows would be in too many."""


@dataclass(frozen=True, slots=True)
class Table:
    """`text[head:body]` are the header row and the delimiter row (GFM, section 4.10), `text[body:end]` the others."""

    head: int
    body: int
    end: int


def tables_in(text: str, start: int, end: int) -> list[Table]:
    """The tables in `text[start:end]`, none of them in a fenced block of code; a table ends at a blank line."""
    found: list[Table] = []
    fences = Fences()
    previous, previous_start = "", start
    table: Table | None = None
    at = start
    while at < end:
        newline = text.find("\n", at, end)
        line_end = end if newline < 0 else newline + 1
        line = text[at:line_end].rstrip("\n")
        is_code = fences.hold(line)
        if table is not None and not is_code and "|" in line:
            table = replace(table, end=line_end)
        else:
            if table is not None and table.end > table.body:
                found.append(table)
            is_table = not is_code and "|" in line and "|" in previous and _DELIMITER_ROW.match(line)
            table = Table(previous_start, line_end, line_end) if is_table else None
        previous, previous_start = "" if is_code else line, at
        at = line_end
    return [*found, table] if table is not None and table.end > table.body else found


def with_table_heads(
    parts: Iterable[Passage], tables: list[Table], text: str, spans: TokenSpans, capacity: int
) -> Iterator[Passage]:
    """The parts of a text in order; where one begins with a row of a table, rows are dealt out anew below its header.

    No passage has more than `capacity` tokens, its header counted.
    """
    starts = [table.body for table in tables]
    waiting: Passage | None = None
    for part in parts:
        place = bisect_right(starts, part.start) - 1
        table = tables[place] if place >= 0 and part.start < tables[place].end else None
        if waiting is not None:
            if table is not None and waiting.start >= table.body and not text[waiting.end : part.start].strip():
                part = replace(part, start=waiting.start)
            else:
                yield waiting
            waiting = None
        if table is None or not _is_repeated(table, spans, capacity):
            yield part
            continue
        *done, last = _dealt(part, table, text, spans, capacity)
        yield from done
        if last.end <= table.end and text[last.end - 1 : last.end + 1].endswith("\n"):
            waiting = last
        else:
            yield last
    if waiting is not None:
        yield waiting


def _is_repeated(table: Table, spans: TokenSpans, capacity: int) -> bool:
    return spans.count(table.head, table.body) <= capacity // _LARGEST_SHARE


def _dealt(part: Passage, table: Table, text: str, spans: TokenSpans, capacity: int) -> Iterator[Passage]:
    """As many rows of `part` at a time as fit below the header; what follows the table goes with its last rows."""
    head = (table.head, text.rfind("\n", table.head, table.body))
    room = capacity - spans.count(*head)
    start = part.start
    while start < min(part.end, table.end):
        end = start
        for border in _borders(text, start, min(part.end, table.end)):
            if end > start and spans.count(start, border) > room:
                break
            end = border
        if end >= table.end and spans.count(start, part.end) <= room:
            end = part.end
        begins_row = not text[text.rfind("\n", 0, start) + 1 : start].strip(" \t>")
        fits = begins_row and spans.count(start, end) <= room
        yield replace(part, start=start, end=end, head=head if fits else None)
        start = end
    if start < part.end:
        yield replace(part, start=start)


def _borders(text: str, start: int, end: int) -> Iterator[int]:
    """The ends of the rows from `start` on; `end` is the last."""
    while start < end:
        newline = text.find("\n", start, end)
        start = end if newline < 0 else newline + 1
        yield start
