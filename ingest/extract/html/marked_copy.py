"""A copy of what is visible of a page, for trafilatura to judge: only what it judges by, bounded, and marked.

Elements keep their class, id and role; scripts, styles and hidden text are not there. Each text begins with a mark of
two characters, which names its entries in what the library gives back.

Promises: `MOST_ELEMENTS`, `MOST_DEPTHS` and `MOST_CHARS` bound the copy, and so the time that the library takes: some
two seconds of an ordinary core at worst (docs/decisions/0009-extraction.md). Linear in the page.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from lxml import html
from lxml.etree import SubElement
from lxml.etree import _Element as Element

from sluice.ingest.extract.html.nodes import BLOCKS, Nodes

MOST_ELEMENTS = 18_000
"""An article has some 500, the longest page of Python's manual 15,000. The library takes 70 µs for each."""
MOST_DEPTHS = 200_000
"""Of all elements together, each counted by how many are around it: that page has 170,000. It takes 7 µs for each."""
MOST_DEPTH = 100
"""Elements within one another in that tree; what is deeper stands side by side there."""
MOST_CHARS = 1_000_000
"""Of its texts."""
MOST_ATTRIBUTE_CHARS = 200
"""Of a class or an id: what follows is left out."""

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
"""Inline elements that say nothing of what is content: their text is handed over as that of the block around them."""
_BOXES = frozenset(("body", "main", "article", "section", "div", "details", "figcaption", "center"))
"""Blocks that hold others."""


class MarkedCopy:
    """The tree `root`, and the entries behind its marks; `is_whole` is False where the page has more than is copied."""

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

    def mark_as_forum(self) -> None:
        """Say what the library knows forums by: on one the remarks of readers are content."""
        said = self._element(self.root, "script")
        said.set("type", "application/ld+json")
        said.text = '{"@type": "DiscussionForumPosting"}'

    def entries_in(self, text: str) -> set[int]:
        """The texts whose marks stand in `text`."""
        numbers = ((ord(one) - _FIRST_MARK) * _MARKS + ord(other) - _FIRST_MARK for one, other in _MARK.findall(text))
        return {node for number in numbers if number < len(self._runs) for node in self._runs[number]}

    def _add(self, node: int) -> bool:
        """Copy one entry; False where there is no more room."""
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
        """Where the copy of `node` goes: into a paragraph where it stands loose beside blocks.

        The library passes over text that stands in a box and in no paragraph of it.
        """
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
        """Copy a text, with a mark where it begins a run of texts that no element parts."""
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
        """The tag of the copy. The library drops each figure, even one around code or a table."""
        tag = self._nodes.tags[node]
        if tag == "figure" and not {"pre", "table"}.isdisjoint(self._nodes.tags[node : self._nodes.ends[node]]):
            return "div"
        return tag if _NAME.fullmatch(tag) else "span"


def _mark(number: int) -> str:
    one, other = divmod(number, _MARKS)
    return chr(_FIRST_MARK + one) + chr(_FIRST_MARK + other)
