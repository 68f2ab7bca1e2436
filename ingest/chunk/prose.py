"""Splits prose into passages: whole sections where they fit, several small ones together, large ones split.

Neighbouring sections share a passage while it fits and while they are siblings or descendants of the
first; its path is their common prefix. A heading always stays with the beginning of its body.

Longer sections are cut at their best boundaries: structured Markdown by a library's splitter, built once per
capacity; plain text at a blank line, sentence, line or word, on the token offsets of the encoding that already
exists, which is twenty times faster than encoding again for every boundary that is tried.

When a table is split, each part after the first begins with the header rows: a row says little without the names of
its columns. The header is repeated in the chunk's text alone; its lines are those of the rows.

Markdown is read line by line as CommonMark reads it: ATX (`## Title`) and setext (underlined) headings, and no heading
inside a fenced code block. Paged text has one section per page; a part of parted Markdown shares no
passage with the one before it; plain text is one section.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from semantic_text_splitter import MarkdownSplitter
from tokenizers import Tokenizer

from sluice.ingest.chunk.passage import Breadcrumbs, Passage
from sluice.ingest.embed.tokens import TokenSpans
from sluice.ingest.extract.extracted import Form

_DEEP = re.compile(r"^[ \t>]{64}", re.MULTILINE)
"""Nesting deeper than writers use: the Markdown splitter's time grows at least with the square of the depth."""
_STRUCTURE = re.compile(r"^[ \t]*(?:```|~~~|\||>(?!>)|[-*+][ \t]|\d+[.)][ \t])", re.MULTILINE)
"""Code, tables, quotes and lists: the Markdown splitter keeps them together better than cutting by sentences."""


class Prose:
    """One text to be split, with its token counts and breadcrumbs."""

    def __init__(self, text: str, form: Form, spans: TokenSpans, breadcrumbs: Breadcrumbs, splitters: Splitters):
        self._text = text
        self._is_markdown = form in ("markdown", "parts")
        self._spans = spans
        self._breadcrumbs = breadcrumbs
        self._splitters = splitters
        self._tokens_to_split = MOST_TOKENS

    def passages(self, sections: Iterable[Section]) -> Iterator[Passage]:
        """Yield the passages of `sections` in order; each fits under its breadcrumb."""
        group: Section | None = None
        first_depth = 0
        for section in sections:
            if group is not None and self._may_join(group, section, first_depth):
                group = replace(group, end=section.end, path=_common(group.path, section.path))
                continue
            if group is not None:
                yield from self._split(group)
            group, first_depth = section, len(section.path)
        if group is not None:
            yield from self._split(group)

    def _may_join(self, group: Section, section: Section, first_depth: int) -> bool:
        if not (group.joins and section.joins):
            return False
        path = _common(group.path, section.path)
        fits = self._spans.count(group.start, section.end) <= self._breadcrumbs.capacity(path)
        return fits and len(path) >= first_depth - 1

    def _split(self, group: Section) -> Iterator[Passage]:
        capacity = self._breadcrumbs.capacity(group.path)
        if self._spans.count(group.start, group.end) <= capacity:
            yield Passage(group.start, group.end, group.path)
            return
        if not self._is_markdown:
            yield from (Passage(start, end, group.path) for start, end in self._context(group, capacity))
            return
        names = [one for one in names_in(self._text, group) if self._spans.count(*one) <= capacity // _LARGEST_NAME]
        room = capacity - max((self._spans.count(*one) for one in names), default=0)
        cuts = self._context(group, room)
        parts: Iterator[Passage] = (Passage(start, end, group.path) for start, end in cuts)
        if tables := tables_in(self._text, group.body, group.end):
            parts = with_table_heads(parts, tables, self._text, self._spans, room)
        yield from with_names(parts, names, self._text)

    def _context(self, group: Section, capacity: int) -> Iterator[tuple[int, int]]:
        tokens = self._spans.count(group.start, group.end)
        if tokens <= self._tokens_to_split and self._is_structured(group):
            self._tokens_to_split -= tokens
            return joined(self._structured_parts(group, capacity), capacity, self._spans)
        body = self._text[group.body : group.end]
        keep = group.body + len(body) - len(body.lstrip()) + 1
        return cut_text(self._text, group.start, group.end, capacity, self._spans, keep)

    def _is_structured(self, group: Section) -> bool:
        within = (self._text, group.body, group.end)
        if not self._is_markdown or not (_STRUCTURE.search(*within) or _ROWS.search(*within)):
            return False
        return _DEEP.search(self._text, group.body, group.end) is None

    def _structured_parts(self, group: Section, capacity: int) -> Iterator[tuple[int, int]]:
        heading_tokens = self._spans.count(group.start, group.body)
        body = group.body if heading_tokens <= capacity // 2 else group.start
        # Every part leaves room for the heading, so that the first one can take it in.
        room = capacity - (heading_tokens if body > group.start else 0)
        first = group.start
        for start, end, is_row in _rows_apart(self._text, body, group.end):
            split = [] if is_row else self._splitters.split(self._text[start:end], room)
            of_row = cut_text(self._text, start, end, room, self._spans) if is_row else ()
            for part_start, part_end in (*of_row, *((start + one, start + other) for one, other in split)):
                yield min(first, part_start), part_end
                first = group.end


def _common(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    shared = 0
    while shared < min(len(one), len(other)) and one[shared] == other[shared]:
        shared += 1
    return one[:shared]


_DELIMITER_ROW = re.compile(r"[ \t>]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*\r?$")
_LARGEST_SHARE = 2
"""A header that takes more than one in this many tokens of a chunk is not repeated: rows would fill too many chunks."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table: `text[head:body]` is the header and delimiter rows (GFM, section 4.10), `text[body:end]` the rest."""

    head: int
    body: int
    end: int


def tables_in(text: str, start: int, end: int) -> list[Table]:
    """Return the tables in `text[start:end]` outside fenced code blocks; a table ends at a blank line."""
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
    """Yield the parts in order; if one begins with a table row, regroup the rows below a repeated header.

    No passage has more than `capacity` tokens, its header included.
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
    """Yield as many rows of `part` at a time as fit below the header; text after the table joins its last rows."""
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
        yield replace(part, start=start, end=end, heads=(head,) if fits else ())
        start = end
    if start < part.end:
        yield replace(part, start=start)


def _borders(text: str, start: int, end: int) -> Iterator[int]:
    """Yield the end offsets of the rows from `start` on; `end` is the last."""
    while start < end:
        newline = text.find("\n", start, end)
        start = end if newline < 0 else newline + 1
        yield start


_ROW = r"(?>[^\n|]*?[^\s|.!?:;] {2,}\S[^\n]*)"
"""A row of a table in columns, which blanks part, as of reStructuredText."""
_ROWS = re.compile(rf"^(?:{_ROW}\n(?:[^\n]+\n(?={_ROW}))?){{2,}}", re.MULTILINE)
_FENCE_LINE = re.compile(r"^[ \t>]*(?:```|~~~)", re.MULTILINE)


def _rows_apart(text: str, start: int, end: int) -> Iterator[tuple[int, int, bool]]:
    """Yield ranges that cover `text[start:end]` in order, and whether each is a row of a table in columns."""
    for rows in _ROWS.finditer(text, start, end):
        if len(_FENCE_LINE.findall(text, start, rows.start())) % 2 == 0:
            yield start, rows.start(), False
            start = rows.start()
            for border in _borders(text, start, rows.end()):
                yield start, border, True
                start = border
    yield start, end, False


_TERM = re.compile(r"^[ \t>]*\*\*(?=\S)[^\n]{1,300}\*\*(?: : [^\n]{0,100})?(?=[ \t]*$)", re.MULTILINE)
_LARGEST_NAME = 4
"""A name that takes more than one in this many tokens of a chunk is not repeated."""


def names_in(text: str, section: Section) -> list[tuple[int, int]]:
    """Return the ranges of lines that name what stands below them: the section's heading, and terms, which are bold."""
    heading = text[section.named : section.body].rstrip()
    own = [(section.named, section.named + len(heading))] if heading else []
    return [*own, *(found.span() for found in _TERM.finditer(text, section.body, section.end))]


def with_names(parts: Iterable[Passage], names: list[tuple[int, int]], text: str) -> Iterator[Passage]:
    """Yield the parts of a section in order; none ends with a name, and each begins with one: its own, or repeated.

    The term above a part is repeated if another term follows in the section, so that the part surely belongs to its
    definition, else the heading.
    """
    starts = [start for start, _ in names]
    before: Passage | None = None
    for part in parts:
        if before is not None:
            last = bisect_left(starts, before.end) - 1
            is_last = last >= 0 and before.start < starts[last] and _is_blank(text, names[last][1], part.start)
            if is_last and not part.heads:
                before, part = replace(before, end=starts[last]), replace(part, start=starts[last])
            yield before
        above = bisect_right(starts, part.start) - 1
        if above >= 0 and part.start > starts[above] and not _is_blank(text, names[above][1], part.start):
            is_sure = above + 1 < len(names)
            part = replace(part, heads=(names[above if is_sure else 0], *part.heads))
        before = part
    if before is not None:
        yield before


_MOST_BLANK = 200


def _is_blank(text: str, start: int, end: int) -> bool:
    """Return whether only white space stands between, and little of it; a long range is not looked at."""
    return end - start < _MOST_BLANK and not text[start:end].strip()


_SENTENCE_END = re.compile(r"[.!?…][\"'”’)\]]*\s+|[。！？]+")
_LAST_SPACE = re.compile(r"\s(?=\S*\Z)")


def cut_text(
    text: str, start: int, end: int, capacity_tokens: int, spans: TokenSpans, keep: int = 0
) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of parts of `text[start:end]`, each of at most `capacity_tokens` and as long as possible.

    Parts do not overlap. If possible, no cut falls before `keep`, the beginning of a body that stays with its heading.
    """
    while spans.count(start, end) > capacity_tokens:
        limit = spans.after(start, capacity_tokens)
        cut = _boundary(text, start, limit, keep)
        if cut is None:  # one endless word: its tokens differ once it is cut, so leave room for that
            cut = max(start + 1, spans.after(start, capacity_tokens * 3 // 4))
        yield start, cut
        start = cut
    yield start, end


def joined(parts: Iterator[tuple[int, int]], capacity_tokens: int, spans: TokenSpans) -> Iterator[tuple[int, int]]:
    """Join neighbouring parts while they fit: splitters leave a `while True:` or a list's dash by itself."""
    left = right = -1
    for start, end in parts:
        if left >= 0 and spans.count(left, end) <= capacity_tokens:
            right = end
            continue
        if left >= 0:
            yield left, right
        left, right = start, end
    if left >= 0:
        yield left, right


def _boundary(text: str, start: int, limit: int, keep: int) -> int | None:
    """Return the cut before `limit`: the last boundary of the best kind in the second half of the window."""
    half = min(max(start + (limit - start) // 2, keep), limit)
    blank = text.rfind("\n\n", half, limit)
    if blank >= 0:
        return blank + 2
    sentences = [found.end() for found in _SENTENCE_END.finditer(text, half, limit)]
    if sentences:
        return sentences[-1]
    line = text.rfind("\n", half, limit)
    if line >= 0:
        return line + 1
    space = _LAST_SPACE.search(text, start, limit)
    return space.end() if space is not None and space.start() > start else None


MOST_TOKENS = 100_000
"""Most tokens of one document that the splitter handles: two seconds, at 15 to 25 µs each, where cuts by lines or
sentences take 2. Longer documents mostly have sections that fit; large sections beyond this are cut."""
_STEP_TOKENS = 20
_SMALLEST_TOKENS = 20


class Splitters:
    """Splits a text that is too large for one chunk at the best boundaries that fit."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._built: dict[int, Callable[[str], list[tuple[int, str]]]] = {}

    def split(self, text: str, capacity_tokens: int) -> list[tuple[int, int]]:
        """Return (start, end) of each part of `text`, stripped of white space, none above the capacity."""
        capacity = capacity_tokens - capacity_tokens % _STEP_TOKENS if capacity_tokens < 1_000 else capacity_tokens
        capacity = max(_SMALLEST_TOKENS, capacity)
        if capacity not in self._built:
            built = MarkdownSplitter.from_huggingface_tokenizer(self._tokenizer, capacity)
            self._built[capacity] = built.chunk_indices
        return [(start, start + len(part)) for start, part in self._built[capacity](text)]


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
    """The range `text[start:end]` under the headings `path`, outermost first. Its own headings end at `body`.

    The last of them begins at `named`. `joins`: whether a chunk may hold this section together with its neighbours.
    """

    start: int
    body: int
    end: int
    path: tuple[str, ...] = ()
    joins: bool = True
    named: int = 0


def sections_of(text: str, form: Form) -> Iterator[Section]:
    """Return sections that cover `text` without gap or overlap, generated lazily."""
    if form == "pages":
        return _pages(text)
    if form in ("markdown", "parts"):
        return _markdown_sections(text)
    return iter([Section(0, 0, len(text))])


def _pages(text: str) -> Iterator[Section]:
    start = 0
    for number, page in enumerate(_parts(text, _PAGE_BREAK), start=1):
        end = start + len(page)
        yield Section(start, start, end, (f"Page {number}",), joins=False)
        start = end + 1


def _markdown_sections(text: str) -> Iterator[Section]:
    """Yield sections; a heading shares that of a heading directly below it which is not higher: none stands alone."""
    stack: list[tuple[int, str]] = []
    start = body = named = 0
    for heading_start, heading_end, level, title in _headings(text):
        follows_at_once = body > start and not text[body:heading_start].strip() and stack and level >= stack[-1][0]
        if heading_start > start and not follows_at_once:
            yield Section(start, body, heading_start, _path(stack), _joins(text, start), named)
            start = heading_start
        while stack and stack[-1][0] >= level:
            stack.pop()
        stack.append((level, title))
        named, body = heading_start, heading_end
    yield Section(start, body, len(text), _path(stack), _joins(text, start), named)


def _joins(text: str, start: int) -> bool:
    """Return whether no new part of the text begins there."""
    return not text.startswith(f"{_PAGE_BREAK}\n", start - 2)


def _path(stack: list[tuple[int, str]]) -> tuple[str, ...]:
    return tuple(title for _, title in stack if title)


def _headings(text: str) -> Iterator[tuple[int, int, int, str]]:
    """Yield (start, end, level, title) of every heading."""
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
    """Recognises the lines of fenced code blocks; call `hold` for each line of a text in turn."""

    def __init__(self) -> None:
        self._open = ""

    def hold(self, line: str) -> bool:
        """Return whether the next line is within a fenced block, or one of its fences."""
        if self._open:
            if _closes(line, self._open):
                self._open = ""
            return True
        if ("`" in line or "~" in line) and (opening := _FENCE.match(line)) and not _inline(opening):
            self._open = opening[1]
        return bool(self._open)


def _parts(text: str, separator: str) -> Iterator[str]:
    """Yield the items of `text.split(separator)` one at a time: a million lines at once are 60 MB."""
    start = 0
    while (end := text.find(separator, start)) >= 0:
        yield text[start:end]
        start = end + 1
    yield text[start:]


def _inline(opening: re.Match[str]) -> bool:
    """Return whether an apparent fence is inline code: a backtick fence has no backtick in its info string."""
    return opening[1][0] == "`" and "`" in opening[2]


def _closes(line: str, fence: str) -> bool:
    bare = line.strip(" \t>")
    return len(bare) >= len(fence) and not bare.strip(fence[0])


def _title(raw: str) -> str:
    return " ".join(_ESCAPE.sub(r"\1", _MARKS.sub(r"\2", _LINK.sub(r"\1", raw))).split())
