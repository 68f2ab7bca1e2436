"""Writes the shown part of a page as Markdown: headings, paragraphs, lists, tables, code with its language, emphasis.

One loop over the entries, no recursion and no second look at what was written: white space is run together, lines are
begun and marks are put as the words come. Links keep their words; their addresses are returned beside the text, each
with the range of its words.

Text that begins like a heading or a fence is text: a backslash keeps the chunker from seeing structure in it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from ingest.extract.css.bounded_cache import kept_if_short
from ingest.extract.extracted import LinkedWords
from ingest.extract.html.nodes import BLOCKS, HEADINGS, Nodes
from ingest.extract.html.visual_outline import Outline

_EMPHASIS = {
    "b": "**",
    "strong": "**",
    "em": "*",
    "i": "*",
    "cite": "*",
    "dfn": "*",
    "del": "~~",
    "s": "~~",
    "strike": "~~",
}
_CODE = frozenset(("code", "kbd", "samp", "tt"))
_LITERAL = frozenset(("pre", "xmp", "listing", "plaintext"))
_LISTS = frozenset(("ul", "ol", "menu", "dir"))
_ALONE = frozenset(
    ("p", "pre", "blockquote", "ul", "ol", "dl", "table", "dd", "dt", "figure", "section", "article", "details")
)
"""Blocks that stand between blank lines."""
_DEEPEST = 12
"""Levels of lists and quotes that are indented: deeper ones, which only a machine makes, would square the text."""
_MOST_COLUMNS = 200
_READS_AS_MARKUP = re.compile(r"#{1,6}(?:\s|$)|`{3,}|~{3,}|(?:=+|-{2,})\s*$")
_BACKTICKS = re.compile(r"`+")
_LANGUAGE = re.compile(
    r"(?:language|lang|highlight-source|highlight|brush|code|source|syntax)[-:_]([a-z][a-z0-9+#.]{0,29})", re.IGNORECASE
)
_DECLARED_LANGUAGE = re.compile(r"[A-Za-z][A-Za-z0-9+#.-]{0,29}")
_SOURCE_CODE = re.compile(r"(?:^|\s)(?:sourceCode|hljs|src|brush:)\s+([A-Za-z][A-Za-z0-9+#]{0,19})(?:\s|;|$)")
_NO_LANGUAGE = frozenset(
    ("default", "none", "text", "plain", "plaintext", "block", "code", "listing", "wrapper", "source", "nohighlight")
)
_PILCROW = re.compile(r"\s*[¶§🔗#]\s*")


class Markdown:
    """Writes one page. `resolve` makes an address of what a link says, or None."""

    def __init__(self, nodes: Nodes, outline: Outline, resolve: Callable[[str | None], str | None]) -> None:
        self._nodes = nodes
        self._outline = outline
        self._resolve = resolve
        self._out = _Lines()
        self._ends: list[tuple[int, Callable[[], None]]] = []
        self._numbers: list[int | None] = []
        self._table: _Table | None = None
        self._shown: Sequence[int] = ()

    def write(self, shown: Sequence[int]) -> tuple[str, tuple[LinkedWords, ...]]:
        """The text of the entries `shown`, and where in it links stand."""
        self._shown = shown
        tags, texts, ends = self._nodes.tags, self._nodes.texts, self._ends
        position, count = 0, len(shown)
        while position < count:
            node = shown[position]
            while ends and ends[-1][0] <= node:
                ends.pop()[1]()
            tag = tags[node]
            position += 1
            if not tag:
                self._out.words(texts[node])
            elif self._opened(node, tag, position):
                position = self._after(position, self._nodes.ends[node])
        while ends:
            ends.pop()[1]()
        return self._out.text(), tuple(self._out.linked)

    def _after(self, position: int, end: int) -> int:
        shown = self._shown
        while position < len(shown) and shown[position] < end:
            position += 1
        return position

    def _opened(self, node: int, tag: str, position: int) -> bool:
        """Begin an element; True where all that is in it has been written."""
        level = self._outline.levels.get(node, 0) or (int(tag[1]) if tag in HEADINGS else 0)
        if level:
            return self._heading(node, level)
        if tag not in BLOCKS:
            return self._inline(node, tag, position)
        if tag in _LITERAL:
            return self._code_block(node, position)
        if tag in ("table", "tr", "td", "th", "caption", "thead", "tbody", "tfoot"):
            return self._table_part(node, tag)
        self._block(node, tag)
        return False

    def _heading(self, node: int, level: int) -> bool:
        self._out.gap(2)
        self._out.mark("#" * level + " ", "")
        self._out.is_heading = True
        self._at_end(node, self._end_heading)
        return False

    def _end_heading(self) -> None:
        self._out.is_heading = False
        self._out.unmark(0)
        self._out.gap(2)

    def _block(self, node: int, tag: str) -> None:
        out = self._out
        if tag == "li":
            self._item(node)
        elif tag in _LISTS:
            out.gap(1 if self._numbers else 2)
            self._numbers.append(_number(self._nodes.attributes[node].get("start")) if tag == "ol" else None)
            self._at_end(node, self._end_list)
        elif tag == "blockquote":
            out.gap(2)
            width = out.mark("> ", "> ")
            self._at_end(node, lambda: self._end_marked(width, 2))
        elif tag == "dt":
            out.gap(2)
            ended = self._end_term if out.emphasise("**") else lambda: out.gap(2)
            self._at_end(node, ended)
        else:
            gap = 2 if tag in _ALONE else 1
            out.gap(2 if tag == "hr" else gap)
            self._at_end(node, lambda: out.gap(gap))

    def _item(self, node: int) -> None:
        self._out.gap(1)
        number = self._numbers[-1] if self._numbers else None
        mark = "- "
        if number is not None:
            mark = f"{number}. "
            self._numbers[-1] = number + 1
        width = self._out.mark(mark, " " * len(mark))
        self._at_end(node, lambda: self._end_marked(width, 1))

    def _end_marked(self, width: int, gap: int) -> None:
        self._out.unmark(width)
        self._out.gap(gap)

    def _end_list(self) -> None:
        self._numbers.pop()
        self._out.gap(1 if self._numbers else 2)

    def _end_term(self) -> None:
        self._out.end_emphasis()
        self._out.gap(2)

    def _inline(self, node: int, tag: str, position: int) -> bool:
        out = self._out
        if tag == "br":
            out.gap(1)
        elif tag in _EMPHASIS:
            if out.emphasise(_EMPHASIS[tag]):
                self._at_end(node, out.end_emphasis)
        elif tag in _CODE:
            return self._code_words(node, position)
        elif tag == "a":
            if _PILCROW.fullmatch(self._nodes.text(node)) and self._nodes.ends[node] - node < 8:
                return True
            address = self._resolve(self._nodes.attributes[node].get("href"))
            if address and out.link(address):
                self._at_end(node, out.end_emphasis)
        elif tag in ("img", "wbr", "rt"):
            return tag == "rt"
        return False

    def _code_words(self, node: int, position: int) -> bool:
        """Code within a line, as it is; what holds blocks is not that."""
        end = self._nodes.ends[node]
        tags = self._nodes.tags
        if end - node > 200 or any(tags[part] in BLOCKS or tags[part] == "br" for part in range(node + 1, end)):
            return False
        raw = self._raw(position, end)
        words = " ".join(raw.split())
        if words:
            longest = max(map(len, _BACKTICKS.findall(words)), default=0)
            fence = "`" * (longest + 1)
            pad = " " if longest and (words[0] == "`" or words[-1] == "`") else ""
            self._out.code(f"{fence}{pad}{words}{pad}{fence}", opens=raw[:1].isspace(), closes=raw[-1:].isspace())
        elif raw:
            self._out.words(" ")
        return True

    def _raw(self, position: int, end: int) -> str:
        """The text up to the entry `end`, its white space kept, line breaks as such."""
        return "".join(self._raw_pieces(position, end))

    def _raw_pieces(self, position: int, end: int) -> Iterator[str]:
        tags, texts, shown = self._nodes.tags, self._nodes.texts, self._shown
        while position < len(shown) and shown[position] < end:
            tag = tags[shown[position]]
            if tag == "br" or tag in ("div", "p", "li", "tr"):
                yield "\n"
            yield texts[shown[position]]
            position += 1

    def _code_block(self, node: int, position: int) -> bool:
        raw = self._raw(position, self._nodes.ends[node]).replace("\r\n", "\n").strip("\n")
        if raw.strip():
            fence = "`" * max(3, max(map(len, _BACKTICKS.findall(raw)), default=0) + 1)
            lines = [line.rstrip() for line in raw.split("\n")]
            self._out.gap(2)
            self._out.lines([f"{fence}{self._language(node)}", *lines, fence])
            self._out.gap(2)
        return True

    def _language(self, node: int) -> str:
        """What the block, the code in it or the boxes around it say that it is written in."""
        nodes = self._nodes
        inner = [part for part in range(node + 1, min(nodes.ends[node], node + 4)) if nodes.tags[part] == "code"]
        around = [place for place, _ in zip(nodes.ancestors(node), range(3), strict=False)]
        for place in (node, *inner, *around):
            if attributes := nodes.attributes[place]:
                for name in ("data-lang", "data-language"):
                    if declared := _DECLARED_LANGUAGE.fullmatch(attributes.get(name) or ""):
                        return declared[0].lower()
                if language := _language_in(attributes.get("class") or ""):
                    return language
        return ""

    def _table_part(self, node: int, tag: str) -> bool:
        out, attributes = self._out, self._nodes.attributes[node]
        if tag == "table" and node not in self._outline.layout and self._table is None:
            out.gap(2)
            self._table = _Table(out)
            self._at_end(node, self._end_table)
        elif self._table is None:
            out.gap(1)
            self._at_end(node, lambda: out.gap(1))
        elif tag == "tr":
            self._table.rows.append([])
        elif tag in ("td", "th"):
            self._out = self._table.cell(_number(attributes.get("colspan")), _number(attributes.get("rowspan")))
            self._at_end(node, self._end_cell)
        elif tag == "caption":
            self._at_end(node, lambda: out.gap(2))
        return False

    def _end_cell(self) -> None:
        self._out.close()
        if self._table is not None:
            self._out = self._table.out

    def _end_table(self) -> None:
        table, self._table = self._table, None
        if table is not None:
            self._out = table.out
            table.write()

    def _at_end(self, node: int, action: Callable[[], None]) -> None:
        self._ends.append((self._nodes.ends[node], action))


@kept_if_short(1_000)
def _language_in(classes: str) -> str:
    """The language that a class names; empty where none does."""
    named = (*map(_LANGUAGE.fullmatch, classes.split()), _SOURCE_CODE.search(classes))
    found = (name[1].lower() for name in named if name is not None)
    return next((language.rstrip(".") for language in found if language not in _NO_LANGUAGE), "")


def _number(written: str | None) -> int:
    return int(written) if written and written.isascii() and written.isdigit() and len(written) < 7 else 1


class _Lines:
    """The text so far. `gap` asks for line breaks before the next words; marks wait until there are words for them."""

    def __init__(self, *, is_cell: bool = False) -> None:
        self._context: list[str] = []
        self._add = self._context.append
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
        """All of it, without white space at its end."""
        return "".join(self._context)

    def gap(self, lines: int) -> None:
        """Ask for a line break (1) or a blank line (2); in a heading or a cell it is a space."""
        if self._is_cell or self.is_heading:
            self._space = True
            return
        if self._open:
            self._suspend()
        if lines > self._gap:
            self._gap = lines
        self._space = False

    def mark(self, mark: str, prefix: str) -> int:
        """Put `mark` before the next words and `prefix` before the lines after them; the width to give to `unmark`."""
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
        """Put `mark` around the words until `end_emphasis`; False where they are so marked already, or in a heading."""
        if self.is_heading or any(opened[2] == mark for opened in self._open):
            return False
        self._open.append(["", "", mark])
        return True

    def link(self, address: str) -> bool:
        """The words until `end_emphasis` lead to `address`; False within another link."""
        if any(opened[1] for opened in self._open):
            return False
        self._open.append(["", address, ""])
        return True

    def end_emphasis(self) -> None:
        """End the last emphasis or link."""
        if self._open:
            self._end(self._open.pop())

    def words(self, text: str) -> None:
        """Add text, its white space run together."""
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
        """Add a piece of code within a line; `opens` and `closes`: whether space stands at its ends."""
        self._space = self._space or opens
        self._begin("")
        self._add(line.replace("|", "\\|") if self._is_cell else line)
        self._space = closes

    def lines(self, lines: Sequence[str]) -> None:
        """Add whole lines as they are."""
        if self._is_cell:
            self.words(" ".join(lines[1:-1]))
            return
        for line in lines:
            self._begin("")
            self._add(line)
            self._gap = 1

    def close(self) -> None:
        """End what is still open."""
        while self._open:
            self.end_emphasis()

    def add_rows(self, rows: Sequence[tuple[str, Sequence[LinkedWords]]]) -> None:
        """Add lines of a table with the links in them, counted from the start of each line."""
        for line, linked in rows:
            self._begin("")
            start = self._written()
            self._add(line)
            self.linked += [LinkedWords(start + link.start, start + link.end, link.url) for link in linked]
            self._gap = 1
        self._gap = 2

    def _begin(self, line: str) -> None:
        """What stands before the next words: line breaks, the marks of the line, a space, emphasis."""
        if self._gap or not self._context:
            if self._context:
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

    def _written(self) -> int:
        """The characters so far."""
        self._length += sum(map(len, self._context[self._counted :]))
        self._counted = len(self._context)
        return self._length

    def _resume(self) -> None:
        for opened in self._open:
            if opened[0] or (opened[2] and self.is_heading):
                continue
            opened[0] = "begun"
            if opened[1]:
                self._link_start = self._written()
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
            self.linked.append(LinkedWords(self._link_start, self._written(), opened[1]))
        else:
            self._add(opened[2])


class _Table:
    """The rows of a table, each a list of cells; it is written at its end, when its width is known."""

    def __init__(self, out: _Lines) -> None:
        self.out = out
        self.rows: list[list[_Lines]] = []
        self._held: dict[int, int] = {}

    def cell(self, columns: int, rows: int) -> _Lines:
        """A new cell at the end of the last row, that spans `columns` and `rows`."""
        if not self.rows:
            self.rows.append([])
        row = self.rows[-1]
        self._skip_held(row)
        cell = _Lines(is_cell=True)
        width = max(1, min(columns, _MOST_COLUMNS - len(row)))
        if rows > 1:
            self._held.update((len(row) + column, min(rows, 1_000) - 1) for column in range(width))
        row.append(cell)
        row.extend(_Lines(is_cell=True) for _ in range(width - 1))
        return cell

    def _skip_held(self, row: list[_Lines]) -> None:
        """Empty cells where one of a row above reaches down."""
        while self._held.get(len(row), 0) and len(self.rows) > 1 and len(row) < _MOST_COLUMNS:
            self._held[len(row)] -= 1
            row.append(_Lines(is_cell=True))

    def write(self) -> None:
        """Add the table to the text around it; the first row is its head."""
        rows = [row for row in self.rows if any(cell.text() for cell in row)]
        if not rows:
            return
        width = min(max(map(len, rows)), _MOST_COLUMNS)
        lines = [_joined(row, width) for row in rows]
        self.out.gap(2)
        self.out.add_rows([lines[0], ("|" + " --- |" * width, ()), *lines[1:]])


def _joined(row: Sequence[_Lines], width: int) -> tuple[str, list[LinkedWords]]:
    linked: list[LinkedWords] = []
    line = "|"
    for cell in row[:width]:
        line += " "
        linked += [LinkedWords(len(line) + link.start, len(line) + link.end, link.url) for link in cell.linked]
        line += f"{cell.text()} |"
    return line + "  |" * (width - len(row)), linked
