"""Gives an HTML page the structure that its look implies, before it becomes Markdown.

Three general rules, for pages older than semantic HTML and for generated references:

1. A table that only arranges blocks (nested tables, one filled cell per row) is not data: its cells
   become plain blocks.
2. A short block whose class says `heading`, `headline` or `title`, or a block whose whole text is a
   bold element so named, is a heading. Its level follows from the layout boxes around it.
3. A term of a definition list that can be linked to (it has an id or an anchor) is a heading of its
   definition: that is how reference manuals write functions and methods.

Works in place on an lxml tree, without recursion, and in time that grows with the tree: what could be a heading is
short, so no more of an element is read than a heading may hold.
"""

from __future__ import annotations

import re

from lxml import etree
from lxml.html import HtmlElement

_HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
_HEADING_CLASS = re.compile(r"(?:^|[\s_-])(?:heading|headline|title|bigsection|section-?title)(?:$|\s)", re.IGNORECASE)
_BLOCK_CANDIDATES = frozenset(("p", "div", "td", "th", "caption", "summary"))
_BOLD = frozenset(("strong", "b", "font", "big", "span"))
_BLOCKS = frozenset(
    [
        *("table", "p", "div", "ul", "ol", "dl", "pre", "blockquote", "section", "article", "hr", "form"),
        *("h1", "h2", "h3", "h4", "h5", "h6"),
    ]
)
_BREAKS_TABLE = frozenset(("table", "dl", "pre", "h1", "h2", "h3", "hr"))
_HEADING_CHARS = 160
_TERM_CHARS = 300
_MOST_PARTS = 50
"""Elements in one heading or term; a signature with every type linked has a dozen."""
_MOST_SPACE = 20
"""Characters of source per character of text: indentation and line breaks."""
_LITERAL_HASHES = re.compile(r"^(\s*)(#{1,6})(?=\s|$)")
_LITERAL_FENCE = re.compile(r"^(\s*)(`{3,}|~{3,})")
ESCAPED = "\ue000"
"""Stands before characters that Markdown would misread; the converter leaves it alone."""


def reveal_outline(root: HtmlElement) -> None:
    """Apply the three rules to `root`."""
    layout = _layout_tables(root)
    _promote(root, layout)
    _open_tables(layout)
    _open_definitions(root)
    _protect_text(root)


def plain(node: HtmlElement) -> str:
    """The text of `node` on one line, line breaks read as spaces."""
    if node.find(".//br") is None:
        return " ".join(node.text_content().split())
    parts: list[str] = []
    for event, part in etree.iterwalk(node, events=("start", "end")):
        if event == "start":
            parts.append(part.text or "")
        elif part is not node:
            parts.append(" " if part.tag == "br" else "")
            parts.append(part.tail or "")
    return " ".join("".join(parts).split())


def _layout_tables(root: HtmlElement) -> set[HtmlElement]:
    """Rule 1. One pass with a stack, so nesting costs nothing."""
    layout: set[HtmlElement] = set()
    stack: list[_Table] = []
    texts = 0
    for event, node in etree.iterwalk(root, events=("start", "end")):
        if event == "start":
            if node.tag == "table":
                if stack:
                    stack[-1].broken = True
                stack.append(_Table())
            elif node.tag == "td" and stack:
                stack[-1].texts_before_cell = texts
            texts += _says_something(node.text)
            continue
        if node.tag == "table":
            if stack.pop().is_layout(node):
                layout.add(node)
        elif stack:
            stack[-1].see(node, texts)
        texts += _says_something(node.tail)
    return layout


def _says_something(text: str | None) -> bool:
    return text is not None and text.strip() != ""


class _Table:
    """What is known of a table once its end is reached."""

    def __init__(self) -> None:
        self.broken = False
        self.has_header = False
        self.rows = self.full_rows = self.cells = 0
        self.texts_before_cell = 0

    def see(self, node: HtmlElement, texts: int) -> None:
        """Take note of a part at its end; `texts` counts the pieces of text so far."""
        if node.tag in _BREAKS_TABLE:
            self.broken = True
        elif node.tag in ("th", "thead", "caption"):
            self.has_header = True
            self.cells += node.tag == "th"
        elif node.tag == "td":
            self.cells += texts > self.texts_before_cell
        elif node.tag == "tr":
            self.rows += 1
            self.full_rows += self.cells >= 2
            self.cells = 0

    def is_layout(self, node: HtmlElement) -> bool:
        if self.broken or node.get("role") in ("presentation", "none"):
            return True
        return not self.has_header and (self.rows < 2 or self.full_rows * 2 < self.rows)


def _promote(root: HtmlElement, layout: set[HtmlElement]) -> None:
    """Rules 2 and 3, in document order, so that each heading knows what stands above it."""
    outline = _Outline(has_title=root.find(".//h1") is not None)
    promoted: list[tuple[HtmlElement, int]] = []
    inside: HtmlElement | None = None
    for event, node in etree.iterwalk(root, events=("start", "end")):
        if node in layout or node.tag == "dl":
            outline.enter(node.tag, 1 if event == "start" else -1)
        if event == "end":
            inside = None if node is inside else inside
        elif inside is None:
            level = outline.level_of(node, layout)
            if level:
                promoted.append((node, level))
            inside = node if level else None
    for node, level in promoted:  # changing the tree while it is walked would lose events
        _become_heading(node, level)


class _Outline:
    """The levels of the headings met so far."""

    def __init__(self, *, has_title: bool) -> None:
        self._has_title = has_title
        self._real_level = self._last_level = self._boxes = self._lists = 0
        self._texts_of_blocks: dict[HtmlElement, str | None] = {}

    def enter(self, tag: str, step: int) -> None:
        if tag == "dl":
            self._lists += step
        else:
            self._boxes += step

    def level_of(self, node: HtmlElement, layout: set[HtmlElement]) -> int:
        """The level that `node` deserves as a heading; 0 if it is none, or one already."""
        if node.tag in _HEADINGS:
            self._real_level = self._last_level = int(node.tag[1])
            return 0
        if self._is_named_heading(node) and not _in_data_table(node, layout):
            level = max(self._real_level, 1) + max(self._boxes, 1) if self._has_title else 1
            self._has_title = True
            self._last_level = level
            return level
        return self._last_level + max(self._lists, 1) if _is_linked_term(node) else 0

    def _is_named_heading(self, node: HtmlElement) -> bool:
        if node.tag not in _BLOCK_CANDIDATES | _BOLD or not _HEADING_CLASS.search(node.get("class", "")):
            return False
        text = _short_text(node, _HEADING_CHARS)
        return bool(text) and (node.tag in _BLOCK_CANDIDATES or text == self._text_of_block(node.getparent()))

    def _text_of_block(self, block: HtmlElement | None) -> str | None:
        """The text around a bold element, read once however many of them there are."""
        if block is None or block.tag not in _BLOCK_CANDIDATES:
            return None
        if block not in self._texts_of_blocks:
            self._texts_of_blocks[block] = _short_text(block, _HEADING_CHARS, may_hold_blocks=True)
        return self._texts_of_blocks[block]


def _is_linked_term(node: HtmlElement) -> bool:
    if node.tag != "dt" or not _short_text(node, _TERM_CHARS):
        return False
    return bool(node.get("id")) or any(anchor.get("name") or anchor.get("id") for anchor in node.iter("a"))


def _short_text(node: HtmlElement, most_chars: int, *, may_hold_blocks: bool = False) -> str | None:
    """The text of `node` where a heading could be it; None where there is too much in it, or blocks."""
    chars = 0
    for number, part in enumerate(node.iter()):
        is_block = part is not node and part.tag in _BLOCKS and not may_hold_blocks
        chars += len(part.text or "") + (len(part.tail or "") if part is not node else 0)
        if is_block or number > _MOST_PARTS or chars > most_chars * _MOST_SPACE:
            return None
    text = plain(node)
    return text if len(text) <= most_chars else None


def _in_data_table(node: HtmlElement, layout: set[HtmlElement]) -> bool:
    table = next(node.iterancestors("table"), None)
    return table is not None and table not in layout


def _become_heading(node: HtmlElement, level: int) -> None:
    text, tail = plain(node), node.tail
    if node.tag in ("td", "th", "caption"):
        for child in list(node):
            node.remove(child)
        node.text = None
        node = etree.SubElement(node, "h6")
        tail = None
    node.clear()
    node.tag, node.text, node.tail = f"h{min(level, 6)}", text, tail


def _open_tables(layout: set[HtmlElement]) -> None:
    outermost = [table for table in layout if not any(outer in layout for outer in table.iterancestors("table"))]
    for table in outermost:
        for part in table.iter("tr", "td", "th", "tbody", "thead", "tfoot", "caption"):
            part.tag = "div"
    for table in layout:
        table.tag = "div"


def _open_definitions(root: HtmlElement) -> None:
    for node in list(root.iter("dl", "dt", "dd")):
        if node.tag == "dt":
            text, tail = node.text, node.tail
            children = list(node)
            node.tag = "p"
            strong = etree.Element("strong")
            strong.text = text
            strong.extend(children)
            node.text, node.tail = None, tail
            node.append(strong)
        else:
            node.tag = "div"


def _protect_text(root: HtmlElement) -> None:
    """Text that begins with `#` or a fence is text: mark it, so that the chunker sees no heading there."""
    pre_depth = 0
    for event, node in etree.iterwalk(root, events=("start", "end")):
        literal = node.tag in ("pre", "textarea")
        if event == "start":
            pre_depth += literal
            if not pre_depth and node.text:
                node.text = _protected(node.text)
        else:
            pre_depth -= literal
            if not pre_depth and node.tail:
                node.tail = _protected(node.tail)


def _protected(text: str) -> str:
    text = _LITERAL_HASHES.sub(lambda found: found[1] + ESCAPED + found[2], text)
    return _LITERAL_FENCE.sub(lambda found: found[1] + ESCAPED + found[2], text)
