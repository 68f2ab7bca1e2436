"""Selects the entries of a page that are its content, by trafilatura.

The library judges a copy of the visible part, with only the features that it uses: elements keep their class, id and
role; scripts, styles and hidden text are left out. Each text begins with a mark of two characters, which identifies
its entries in the library's result; the result's own text is discarded, and ingest/extract/html/write_markdown.py
writes the entries with all their structure.

Promises: only visible entries are chosen. If a page is too large for the library, or the library finds nothing, the
content is all visible entries outside declared navigation, banners and side columns. `MOST_ELEMENTS`,
`MOST_DEPTHS` and `MOST_CHARS` bound the copy, and so the time that the library takes: some two seconds of an ordinary
core at worst (docs/decisions/0009-extraction.md). Linear in the page.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterable, Sequence
from functools import cache
from typing import Any

from lxml import html
from lxml.etree import SubElement
from lxml.etree import _Element as Element

from sluice.ingest.extract.html.nodes import BLOCKS, HEADINGS, Nodes
from sluice.ingest.extract.html.visible import counted

SHORT_CHARS = 250
"""Content length below which the library takes all text of the page, menus too; those are removed again."""
_OPENING_CHARS = 90
"""Least length of a paragraph between title and text; a date, a name or a category is shorter."""
_STRUCTURE = HEADINGS | {"ul", "ol", "dl", "table", "pre", "blockquote"}
_PARAGRAPHS = BLOCKS - HEADINGS
_AROUND = frozenset(("nav", "aside", "menu", "header", "footer"))
_ROLES_AROUND = frozenset(("navigation", "banner", "contentinfo", "search", "complementary", "dialog", "menu", "alert"))


def content_of(nodes: Nodes, visible: Sequence[int], title: str = "") -> list[int]:
    """Return the entries among `visible` that are content, with the elements around them; in page order.

    `title` is the document's, which need not be repeated.
    """
    chosen = _chosen(nodes, visible)
    if sum(len(nodes.texts[node]) for node in chosen) < SHORT_CHARS:
        inside = _without_surroundings(nodes, visible)
        chosen = chosen.intersection(inside)
        if not chosen:
            return inside
    wanted = _with_ancestors(nodes, chosen | _opening(nodes, visible, chosen, title))
    wanted |= _structure_between(nodes, visible, wanted)
    return _with_spaces(nodes, visible, wanted)


def _opening(nodes: Nodes, visible: Sequence[int], chosen: set[int], title: str) -> set[int]:
    """Return the last `<h1>` before the first chosen paragraph, if `title` does not hold it, and paragraphs between.

    News set the opening apart (`teaser`, `intro`, `<header>`), so that the library takes it for one of another page.
    Captions stay out, and what is mostly links.
    """
    sizes = counted(nodes, visible)
    around_blocks: set[int] = set()
    for node in reversed(visible):
        if nodes.tags[node] in BLOCKS or node in around_blocks:
            around_blocks.add(nodes.parents[node])
    opening: set[int] = set()
    has_title, skipped_to = False, 0
    for node in visible:
        tag, part = nodes.tags[node], range(node, nodes.ends[node])
        if tag == "h1" and sizes.chars[node]:
            has_title, opening = True, set(() if nodes.text(node) in title else part)
        elif tag == "figure":
            skipped_to = nodes.ends[node]
        elif tag in _PARAGRAPHS and node >= skipped_to and node not in around_blocks:
            if sizes.chars[node] * 2 >= _OPENING_CHARS and not chosen.isdisjoint(part):
                return opening
            if has_title and sizes.chars[node] >= max(_OPENING_CHARS, 4 * sizes.linked[node]):
                opening.update(part)
    return set()


def _with_ancestors(nodes: Nodes, chosen: Iterable[int]) -> set[int]:
    wanted = set(chosen)
    for node in chosen:
        for above in nodes.ancestors(node):
            if above in wanted:
                break
            wanted.add(above)
    return wanted


def _structure_between(nodes: Nodes, visible: Sequence[int], wanted: Collection[int]) -> set[int]:
    """Return headings, lists, tables and code that the library left out between chosen blocks, with their content.

    They are siblings of the chosen blocks, and are not mostly links. A list of definitions is whole where a part of
    it is chosen, and so is one with paragraphs in some items alone: the library drops those without, and terms above.
    """
    sizes = counted(nodes, visible)
    left_out: dict[int, list[int]] = {}
    found: set[int] = set()
    whole_to = 0
    for node in visible:
        parent = nodes.parents[node]
        if node in wanted:
            is_list = nodes.tags[node] == "dl" or (nodes.tags[node] in ("ul", "ol") and _is_mixed(nodes, node))
            if is_list and node >= whole_to and sizes.linked[node] * 2 <= sizes.chars[node]:
                whole_to = nodes.ends[node]
                found.update(range(node, whole_to))
            if sizes.chars[node]:
                found.update(left_out.pop(parent, ()))
                left_out[parent] = []
        elif parent in left_out and nodes.tags[node] in _STRUCTURE and sizes.linked[node] * 2 <= sizes.chars[node] > 0:
            left_out[parent].append(node)
    return {part for node in found for part in range(node, nodes.ends[node])}


def _is_mixed(nodes: Nodes, node: int) -> bool:
    """Return whether some items of a list begin with a paragraph, and others with words."""
    first = {nodes.tags[item + 1] for item in nodes.children(node) if nodes.ends[item] > item + 1}
    return "p" in first and "" in first


def _with_spaces(nodes: Nodes, visible: Sequence[int], wanted: Collection[int]) -> list[int]:
    """Return the entries `wanted` and the wordless entries that separate them: spaces, line breaks, empty cells."""
    kept: list[int] = []
    inline: set[int] = set()  # elements inside the wanted ones that may hold a space
    for node in visible:
        tag, parent = nodes.tags[node], nodes.parents[node]
        if node in wanted:
            kept.append(node)
        elif parent in wanted or parent in inline:
            if tag in ("br", "hr", "td", "th") or nodes.texts[node].isspace():
                kept.append(node)
            elif tag and tag not in BLOCKS:
                inline.add(node)
    return kept


def _chosen(nodes: Nodes, visible: Sequence[int]) -> set[int]:
    """Return the texts that the library judges to be content; empty if the page is too large for it."""
    copy = MarkedCopy(nodes, visible)
    if not copy.is_whole:
        return set()
    try:
        found = _library().bare_extraction(copy.root, include_comments=False, output_format="txt")
    except Exception:  # noqa: BLE001 - whatever a page makes the library stumble over, the page is read without it
        return set()
    return set() if found is None else copy.entries_in("".join(found.body.itertext()))


@cache
def _library() -> Any:
    """Import trafilatura when the first page is extracted, as that takes half a second."""
    import trafilatura

    logging.getLogger("trafilatura").setLevel(logging.CRITICAL)  # it warns of each page without content
    return trafilatura


def _without_surroundings(nodes: Nodes, visible: Sequence[int]) -> list[int]:
    """Return `visible` without elements whose tag or role puts them around the content."""
    kept: list[int] = []
    skipped_to = content_to = 0
    for node in visible:
        if node < skipped_to:
            continue
        tag = nodes.tags[node]
        if tag in ("main", "article", "section"):
            content_to = max(content_to, nodes.ends[node])
        is_edge = tag in ("header", "footer")
        is_around = tag in _AROUND and not (is_edge and node < content_to)
        if is_around or (tag and nodes.attributes[node].get("role") in _ROLES_AROUND):
            skipped_to = nodes.ends[node]
        else:
            kept.append(node)
    return kept


MOST_ELEMENTS = 18_000
"""An article has some 500, the longest page of Python's manual 15,000. The library takes 70 µs for each."""
MOST_DEPTHS = 200_000
"""Sum of the depths of all elements: that page has 170,000. The library takes 7 µs for each."""
MOST_DEPTH = 100
"""Deepest nesting in the copy; deeper elements become siblings."""
MOST_CHARS = 1_000_000
"""Most characters of its texts."""
MOST_ATTRIBUTE_CHARS = 200
"""Longest class or id; the rest is cut off."""

_FIRST_MARK = 0x12000
_MARKS = 0x380
"""Cuneiform signs: letters that no filter of the library drops and that hardly any page has."""
_MARK = re.compile(f"([{chr(_FIRST_MARK)}-{chr(_FIRST_MARK + _MARKS - 1)}])" * 2)
_ANY_MARK = re.compile(f"[{chr(_FIRST_MARK)}-{chr(_FIRST_MARK + _MARKS - 1)}]")
_NO_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NAME = re.compile(r"[a-z][a-z0-9-]*")
_JUDGED_BY = ("class", "id", "role", "itemprop")
_UNWRAPPED = frozenset(
    [
        *("b", "i", "em", "strong", "u", "font", "big", "small", "s", "strike", "del", "sub", "sup", "cite", "dfn"),
        *("var", "mark", "abbr", "acronym", "bdi", "bdo", "wbr", "ins", "tt", "kbd", "samp"),
    ]
)
"""Inline elements that are irrelevant to the judgement: their text goes to the block around them."""
_BOXES = frozenset(("body", "main", "article", "section", "div", "details", "figcaption", "center"))
"""Blocks that hold others."""


class MarkedCopy:
    """A copy `root` of the page, and the entries behind its marks; `is_whole` is False if the page exceeds a bound."""

    def __init__(self, nodes: Nodes, visible: Sequence[int]) -> None:
        self.root: Element = html.Element("html")
        self._nodes = nodes
        self._runs: list[list[int]] = []
        self._copies: dict[int, tuple[Element, int]] = {-1: (self.root, 0)}
        self._paragraphs: dict[Element, Element] = {}
        self._with_blocks = {nodes.parents[node] for node in visible if nodes.tags[node] in BLOCKS}
        self._elements = self._depths = self._chars = self._whole_to = 0
        self._parent: Element | None = None  # of the texts that are not in the tree yet
        self._texts: list[str] = []
        self._is_marked = False
        self.is_whole = all(map(self._add, visible))
        self._end_run()

    def entries_in(self, text: str) -> set[int]:
        """Return the texts whose marks occur in `text`."""
        numbers = ((ord(one) - _FIRST_MARK) * _MARKS + ord(other) - _FIRST_MARK for one, other in _MARK.findall(text))
        return {node for number in numbers if number < len(self._runs) for node in self._runs[number]}

    def _add(self, node: int) -> bool:
        """Copy one entry; False if a bound is reached."""
        parent, depth = self._copies[self._nodes.parents[node]]
        parent = self._home(node, parent)
        tag = self._nodes.tags[node]
        if not tag:
            self._add_text(node, parent)
        elif tag in _UNWRAPPED or node < self._whole_to or node == 0:
            self._copies[node] = (parent, depth)
        else:
            copy = self._element(parent, self._name(node))
            for name in _JUDGED_BY:
                if value := self._nodes.attributes[node].get(name):
                    copy.set(name, _NO_XML.sub(" ", value[:MOST_ATTRIBUTE_CHARS]))
            self._copies[node] = (copy, depth + 1) if depth < MOST_DEPTH else (parent, depth)
            self._depths += depth
            if tag == "pre":
                self._whole_to = self._nodes.ends[node]
        is_small = self._elements <= MOST_ELEMENTS and self._depths <= MOST_DEPTHS and self._chars <= MOST_CHARS
        return is_small and len(self._runs) < _MARKS * _MARKS

    def _home(self, node: int, parent: Element) -> Element:
        """Return the parent for the copy of `node`: a paragraph if it stands loose, where the library ignores text."""
        tag = self._nodes.tags[node]
        if parent.tag not in _BOXES or self._nodes.parents[node] not in self._with_blocks:
            return parent
        if tag in BLOCKS:
            self._paragraphs.pop(parent, None)
            return parent
        if parent not in self._paragraphs:
            if tag == "br" or self._nodes.texts[node].isspace():
                return parent
            self._paragraphs[parent] = self._element(parent, "p")
        return self._paragraphs[parent]

    def _element(self, parent: Element, name: str) -> Element:
        self._end_run()
        self._elements += 1
        return SubElement(parent, name)

    def _add_text(self, node: int, parent: Element) -> None:
        """Copy a text, with a mark if it begins a run of texts that no element interrupts."""
        text = _ANY_MARK.sub(" ", _NO_XML.sub(" ", self._nodes.texts[node]))
        self._chars += len(text)
        if parent is not self._parent:
            self._end_run()
            self._parent = parent
        if text and not text.isspace():
            if self._is_marked:
                self._runs[-1].append(node)
            else:
                start = len(text) - len(text.lstrip())
                text = f"{text[:start]}{_mark(len(self._runs))}{text[start:]}"
                self._runs.append([node])
                self._is_marked = True
        self._texts.append(text)

    def _end_run(self) -> None:
        """Put the texts since the last element into the tree, as one."""
        if self._parent is not None:
            text = "".join(self._texts)
            last = next(self._parent.iterchildren(reversed=True), None)
            if last is not None:
                last.tail = (last.tail or "") + text
            else:
                self._parent.text = (self._parent.text or "") + text
        self._texts.clear()
        self._parent, self._is_marked = None, False

    def _name(self, node: int) -> str:
        """Return the tag of the copy. The library drops each figure, even one around code or a table."""
        tag = self._nodes.tags[node]
        if tag == "figure" and not {"pre", "table"}.isdisjoint(self._nodes.tags[node : self._nodes.ends[node]]):
            return "div"
        return tag if _NAME.fullmatch(tag) else "span"


def _mark(number: int) -> str:
    one, other = divmod(number, _MARKS)
    return chr(_FIRST_MARK + one) + chr(_FIRST_MARK + other)
