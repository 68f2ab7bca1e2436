"""The sections of a text: where each begins and ends, and the headings above it.

Markdown is read line by line as CommonMark reads it: ATX (`## Title`) and setext (underlined)
headings, and no heading inside a fenced code block. Paged text has one section per page; plain text
is one section.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from sluice.ingest.extract.extracted import Form

_ATX = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$")
_FENCE = re.compile(r"[ \t]*(?:[-*+>][ \t]+)*(`{3,}|~{3,})(.*)$")
_SETEXT = re.compile(r" {0,3}(=+|-{2,})[ \t]*$")
_NOT_A_TITLE = re.compile(r"[ \t]*(?:[-*+>|]|\d+[.)][ \t]|#|$)|    ")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_MARKS = re.compile(r"(\*{1,3}|`+)(?=\S)(.+?)(?<=\S)\1")
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")
_PAGE_BREAK = "\f"


@dataclass(frozen=True, slots=True)
class Section:
    """`text[start:end]` under the headings `path`, outermost first. Its own headings end at `body`.

    `joins`: whether a chunk may hold this section together with its neighbours.
    """

    start: int
    body: int
    end: int
    path: tuple[str, ...] = ()
    joins: bool = True


def sections_of(text: str, form: Form) -> Iterator[Section]:
    """Sections that cover `text` without gap or overlap, each made when it is asked for."""
    if form == "pages":
        return _pages(text)
    if form == "markdown":
        return _markdown_sections(text)
    return iter([Section(0, 0, len(text))])


def _pages(text: str) -> Iterator[Section]:
    start = 0
    for number, page in enumerate(_parts(text, _PAGE_BREAK), start=1):
        end = start + len(page)
        yield Section(start, start, end, (f"Page {number}",), joins=False)
        start = end + 1


def _markdown_sections(text: str) -> Iterator[Section]:
    """A heading that is directly followed by a deeper one opens one section with it: no heading stands alone."""
    stack: list[tuple[int, str]] = []
    start = body = 0
    for heading_start, heading_end, level, title in _headings(text):
        follows_at_once = body > start and not text[body:heading_start].strip() and stack and level > stack[-1][0]
        if heading_start > start and not follows_at_once:
            yield Section(start, body, heading_start, _path(stack))
            start = heading_start
        while stack and stack[-1][0] >= level:
            stack.pop()
        stack.append((level, title))
        body = heading_end
    yield Section(start, body, len(text), _path(stack))


def _path(stack: list[tuple[int, str]]) -> tuple[str, ...]:
    return tuple(title for _, title in stack if title)


def _headings(text: str) -> Iterator[tuple[int, int, int, str]]:
    """(start, end, level, title) of every heading."""
    fences = Fences()
    offset = 0
    before, previous, previous_start = "", "", 0
    for line in _parts(text, "\n"):
        end = min(offset + len(line) + 1, len(text))
        stripped = line.rstrip("\r")
        if fences.hold(stripped):
            pass
        elif (atx := _ATX.match(stripped)) is not None:
            yield offset, end, len(atx[1]), _title(atx[2] or "")
        elif (line_under := _SETEXT.match(stripped)) and not before.strip() and not _NOT_A_TITLE.match(previous):
            yield previous_start, end, 1 if line_under[1][0] == "=" else 2, _title(previous)
            stripped = ""
        before, previous, previous_start = previous, stripped, offset
        offset = end


class Fences:
    """Tells the lines of fenced code blocks, when it is asked for each line of a text in turn."""

    def __init__(self) -> None:
        self._open = ""

    def hold(self, line: str) -> bool:
        """Whether the next line is within a fenced block, or one of its fences."""
        if self._open:
            if _closes(line, self._open):
                self._open = ""
            return True
        if ("`" in line or "~" in line) and (opening := _FENCE.match(line)) and not _inline(opening):
            self._open = opening[1]
        return bool(self._open)


def _parts(text: str, separator: str) -> Iterator[str]:
    """As `text.split(separator)`, one at a time: a million lines at once are 60 MB."""
    start = 0
    while (end := text.find(separator, start)) >= 0:
        yield text[start:end]
        start = end + 1
    yield text[start:]


def _inline(opening: re.Match[str]) -> bool:
    """Whether what looks like a fence is code within a line: a backtick fence has none in its info."""
    return opening[1][0] == "`" and "`" in opening[2]


def _closes(line: str, fence: str) -> bool:
    bare = line.strip(" \t>")
    return len(bare) >= len(fence) and not bare.strip(fence[0])


def _title(raw: str) -> str:
    return " ".join(_ESCAPE.sub(r"\1", _MARKS.sub(r"\2", _LINK.sub(r"\1", raw))).split())
