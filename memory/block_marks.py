"""Marks around a block that memory prints into a prompt, so that it can cut the block out of an agent's output again.

An agent's output contains its prompt: in the transcript, in a file that it reads, quoted in what it writes. Memory must
not take its own text for something new. So a block begins and ends with a mark that holds the id of the print's journal
entry, and each line between them begins with `LINE_PREFIX`:

    <sluice-memory-block id="mem_0f…">
    | Iteration 3 ended with Failure.
    </sluice-memory-block id="mem_0f…">

`block_marks.toml` recognises copies in the forms in which they occur.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from sluice.text.hidden import visible
from sluice.text.pattern_file import PatternFile

LINE_PREFIX = "| "
MAX_BLOCK_CHARACTERS = 32_000
"""Longest block, in characters. An escaped copy may be twice as long; a farther end mark does not belong to it."""

_NAME = "sluice-memory-block"
_PATTERNS = PatternFile(Path(__file__).with_name("block_marks.toml"))


def mark_block(block_id: str, lines: Sequence[str]) -> str:
    """Return `lines` as a block: each line with its prefix, between two marks."""
    body = "\n".join(LINE_PREFIX + line for line in lines)
    return f'<{_NAME} id="{block_id}">\n{body}\n</{_NAME} id="{block_id}">'


def cut_blocks(text: str) -> tuple[str, int]:
    """Return `text` without its blocks, and their number; " … " stands in place of each.

    If the end mark of a block is missing, or farther away than a block is long, only the lines written as a block's are
    cut with its begin mark. So a begin mark in a tool's output cannot hide the lines of others. A lone end mark takes
    such lines before it along. Takes time in proportion to the text's length.
    """
    spans = list(_spans(text))
    if not spans:
        return text, 0
    kept, position = [], 0
    for start, end in spans:
        kept.append(text[position:start])
        position = end
    kept.append(text[position:])
    return " … ".join(piece for piece in kept if piece.strip()), len(spans)


def remove_marks(text: str) -> tuple[str, int]:
    """Return `text` without anything that would be read as a mark, and the number of marks removed.

    The text between marks stays: this is for a text that will be printed in a block and must not end it. Also removes
    marks that contain invisible characters or look-alike letters of Unicode's compatibility forms.
    """
    if not text.isascii():
        plain = visible(unicodedata.normalize("NFKC", text))
        if _PATTERNS["forged"].search(plain):
            text = plain
    return _PATTERNS["forged"].subn("[mark]", text)


def _spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each block, in order, without overlap."""
    if _NAME not in text.casefold():
        return
    marks = list(_PATTERNS["mark"].finditer(text))
    ends = _matching_ends(marks)
    position = 0
    for mark in marks:
        if mark.start() < position:
            continue
        if mark[1]:
            start = _start_of_lines_before(text, position, mark.start())
            end = mark.end()
        else:
            start = mark.start()
            end = ends.get(start, 0)
            if not start < end <= start + 2 * MAX_BLOCK_CHARACTERS:
                lines = _PATTERNS["lines_after"].match(text, mark.end())
                end = lines.end() if lines else mark.end()
        yield start, end
        position = end


def _matching_ends(marks: Sequence[re.Match[str]]) -> dict[int, int]:
    """Map each begin mark's start to its block's end: its own end mark, else the last one of the id."""
    ends: dict[int, int] = {}
    begun: dict[str, list[int]] = defaultdict(list)
    last: dict[str, int] = {}
    for mark in marks:
        identity = mark[2].lower()
        if not mark[1]:
            begun[identity].append(mark.start())
        else:
            last[identity] = mark.end()
            if begun[identity]:
                ends[begun[identity].pop()] = mark.end()
    for identity, starts in begun.items():
        ends.update((start, last.get(identity, 0)) for start in starts)
    return ends


def _start_of_lines_before(text: str, position: int, mark: int) -> int:
    """Return the start of the block lines directly before a lone end mark, not before `position`."""
    start = mark
    position = max(position, mark - 2 * MAX_BLOCK_CHARACTERS)
    line_ends = [(one.start(), one.end()) for one in _PATTERNS["any_line_end"].finditer(text, position, mark)]
    for index in range(len(line_ends) - 1, -1, -1):
        begin = line_ends[index - 1][1] if index else position
        if not _PATTERNS["whole_block_line"].fullmatch(text, begin, line_ends[index][0]):
            first = _PATTERNS["quoted_first_line"].search(text, begin, line_ends[index][0])
            return first.start() if first else start
        start = begin
    return start
