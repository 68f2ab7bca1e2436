"""Writes the shown part of a page as Markdown: headings, paragraphs, lists, tables, code with its language, emphasis.

One loop over the entries, without recursion or re-reading the output. Links keep their words; their addresses
are returned beside the text, each with the range of its words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from sluice.ingest.extract.extracted import Anchor, LinkedWords
from sluice.ingest.extract.html.headings import Fragments, Outline
from sluice.ingest.extract.html.markdown_lines import Lines, Table
from sluice.ingest.extract.html.nodes import BLOCKS, HEADINGS, Nodes

_EMPHASIS = {
    **dict.fromkeys(("b", "strong"), "**"),
    **dict.fromkeys(("em", "i", "cite", "dfn"), "*"),
    **dict.fromkeys(("del", "s", "strike"), "~~"),
}
_CODE = frozenset(("code", "kbd", "samp", "tt"))
_LITERAL = frozenset(("pre", "xmp", "listing", "plaintext"))
_LISTS = frozenset(("ul", "ol", "menu", "dir"))
_ALONE = frozenset(
    ("p", "pre", "blockquote", "ul", "ol", "dl", "table", "dd", "dt", "figure", "section", "article", "details")
)
"""Blocks that stand between blank lines."""
_BACKTICKS = re.compile(r"`+")
_LANGUAGE = re.compile(
    r"(?:language|lang|highlight-source|highlight|brush|code|source|syntax)[-:_]([a-z][a-z0-9+#.]{0,29})", re.IGNORECASE
)
_DECLARED_LANGUAGE = re.compile(r"[A-Za-z][A-Za-z0-9+#.-]{0,29}")
_SOURCE_CODE = re.compile(r"(?:^|\s)(?:sourceCode|hljs|src|brush:)\s+([A-Za-z][A-Za-z0-9+#]{0,19})(?:\s|;|$)")
_CLASS_CHARS = 300
_NO_LANGUAGE = frozenset(
    ("default", "none", "text", "plain", "plaintext", "block", "code", "listing", "wrapper", "source", "nohighlight")
)


class Written(NamedTuple):
    """A page as Markdown, with the places of its links and of its fragments' targets."""

    text: str
    linked_words: tuple[LinkedWords, ...]
    anchors: tuple[Anchor, ...]


class Markdown:
    """Writes one page. `resolve` turns a link's reference into an address, or None."""

    def __init__(self, nodes: Nodes, outline: Outline, resolve: Callable[[str | None], str | None]) -> None:
        self._nodes = nodes
        self._outline = outline
        self._resolve = resolve
        self._out = Lines()
        self._ends: list[tuple[int, Callable[[], None]]] = []
        self._numbers: list[int | None] = []
        self._table: Table | None = None
        self._shown: Sequence[int] = ()
        self._fragments = Fragments(nodes)
        self._anchored: list[tuple[int, str]] = []

    def write(self, shown: Sequence[int]) -> Written:
        """Write the entries `shown`; return the text with its links and anchors."""
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
        text = self._out.text()
        anchors = (Anchor(text.rfind("\n", 0, end) + 1, fragment) for end, fragment in self._anchored)
        return Written(text, tuple(self._out.linked), tuple(anchors))

    def _after(self, position: int, end: int) -> int:
        shown = self._shown
        while position < len(shown) and shown[position] < end:
            position += 1
        return position

    def _opened(self, node: int, tag: str, position: int) -> bool:
        """Begin an element; True if its whole content has been written."""
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
        written = self._out.length()
        self._at_end(node, lambda: self._end_heading(node, written))
        return False

    def _end_heading(self, node: int, written: int) -> None:
        self._anchor(node, written)
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
            is_strong, written = out.emphasise("**"), out.length()
            self._at_end(node, lambda: self._end_term(node, written, is_strong=is_strong))
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

    def _end_term(self, node: int, written: int, *, is_strong: bool) -> None:
        if is_strong:
            self._out.end_emphasis()
        self._anchor(node, written)
        self._out.gap(2)

    def _anchor(self, node: int, written: int) -> None:
        """Record the end of `node`'s words, if it wrote any after `written` characters and has a fragment.

        Skips table cells, whose place in the text is not known yet.
        """
        if self._table is None and self._out.length() > written and (fragment := self._fragments.of(node)):
            self._anchored.append((self._out.length(), fragment))

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
            address = self._resolve(self._nodes.attributes[node].get("href"))
            if address and out.link(address):
                self._at_end(node, out.end_emphasis)
        elif tag in ("img", "wbr", "rt"):
            return tag == "rt"
        return False

    def _code_words(self, node: int, position: int) -> bool:
        """Write inline code unchanged; return False if it holds blocks."""
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
        """Return the text up to the entry `end`, with its white space and line breaks."""
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
        """Return the language declared by the block, the code in it or the boxes around it."""
        nodes = self._nodes
        inner = [part for part in range(node + 1, min(nodes.ends[node], node + 4)) if nodes.tags[part] == "code"]
        around = [place for place, _ in zip(nodes.ancestors(node), range(3), strict=False)]
        for place in (node, *inner, *around):
            if attributes := nodes.attributes[place]:
                for name in ("data-lang", "data-language"):
                    if declared := _DECLARED_LANGUAGE.fullmatch(attributes.get(name) or ""):
                        return declared[0].lower()
                if language := _language_in((attributes.get("class") or "")[:_CLASS_CHARS]):
                    return language
        return ""

    def _table_part(self, node: int, tag: str) -> bool:
        out, attributes = self._out, self._nodes.attributes[node]
        if tag == "table" and node not in self._outline.layout and self._table is None:
            out.gap(2)
            self._table = Table(out)
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


@lru_cache(maxsize=1_000)
def _language_in(classes: str) -> str:
    """Return the language that a class names, or an empty string."""
    named = (*map(_LANGUAGE.fullmatch, classes.split()), _SOURCE_CODE.search(classes))
    found = (name[1].lower() for name in named if name is not None)
    return next((language.rstrip(".") for language in found if language not in _NO_LANGUAGE), "")


def _number(written: str | None) -> int:
    return int(written) if written and written.isascii() and written.isdigit() and len(written) < 7 else 1
