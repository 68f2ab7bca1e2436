"""The headings of a page: finds those that its look implies, and the fragments that lead to them.

Three general rules find structure in pages older than semantic HTML and in generated references:

1. A table that only arranges blocks (nested tables, one filled cell per row) is not data: its cells are plain blocks.
2. A short block whose class says `heading`, `headline` or `title`, or a block whose whole text is a
   bold element so named, is a heading. Its level follows from the layout boxes around it.
3. A term of a definition list that can be linked to (it has an id or an anchor) is a heading of its
   definition: that is how reference manuals write functions and methods.

Linear in the page: each rule is one loop, and candidates for headings are short.

A fragment (`https://example.org/guide#install`) leads to the first element with that `id`, else to the first `<a name>`
(HTML, section 7.4.6.3). A heading is reached by its own id; by that of an element in it; by that of an empty element
directly before it, or of one around it that begins with it; and by that of the permalink behind it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from sluice.ingest.extract.html.nodes import BLOCKS, HEADINGS, Nodes, readable

_HEADING_CLASS = re.compile(
    r"(?:^|[\s_-])(?<!admonition-)(?:heading|headline|title|bigsection|section-?title)(?:$|\s)", re.IGNORECASE
)
"""The title of an admonition (`Note`, `Warning`) is not a heading: text after the box does not belong to it."""
_BLOCK_CANDIDATES = frozenset(("p", "div", "td", "th", "caption", "summary"))
_BOLD = frozenset(("strong", "b", "font", "big", "span"))
_BREAKS_TABLE = frozenset(("table", "dl", "pre", "h1", "h2", "h3", "hr"))
_TABLE_PARTS = frozenset(("table", "thead", "tr", "td", "th", "caption")) | _BREAKS_TABLE
_HEADING_CHARS = 160
_TERM_CHARS = 300
_MOST_PARTS = 100
"""Most entries in one heading or term; a signature with every type linked has some thirty."""


@dataclass(frozen=True, slots=True)
class Outline:
    """Layout tables, and the levels of headings that are found by their look."""

    layout: frozenset[int] = frozenset()
    levels: dict[int, int] = field(default_factory=dict)


def outline_of(nodes: Nodes, shown: Sequence[int], chars: Sequence[int]) -> Outline:
    """Return the outline of the entries `shown`, which hold `chars` visible characters each."""
    tags = nodes.tags
    tables = [node for node in shown if tags[node] in _TABLE_PARTS]
    layout = _layout_tables(nodes, tables, chars) if any(tags[node] == "table" for node in tables) else frozenset()
    return Outline(layout, _levels(nodes, shown, chars, layout))


class _Table:
    """Counts about a table before its end."""

    def __init__(self, node: int, *, is_broken: bool) -> None:
        self.node = node
        self.is_broken = is_broken
        self.has_header = False
        self.rows = self.full_rows = self.cells = 0

    def end_row(self) -> None:
        self.full_rows += self.cells >= 2
        self.cells = 0

    def is_layout(self) -> bool:
        self.end_row()
        if self.is_broken:
            return True
        return not self.has_header and (self.rows < 2 or self.full_rows * 2 < self.rows)


def _layout_tables(nodes: Nodes, parts: Sequence[int], chars: Sequence[int]) -> frozenset[int]:
    """Apply rule 1, in one loop with a stack, so that nesting costs nothing."""
    layout: set[int] = set()
    opened: list[_Table] = []
    for node in parts:
        while opened and nodes.ends[opened[-1].node] <= node:
            if (ended := opened.pop()).is_layout():
                layout.add(ended.node)
        tag = nodes.tags[node]
        if opened and tag in _BREAKS_TABLE:
            opened[-1].is_broken = True
        if tag == "table":
            role = nodes.attributes[node].get("role")
            opened.append(_Table(node, is_broken=role in ("presentation", "none")))
        elif opened:
            _see(opened[-1], tag, is_filled=chars[node] > 0)
    layout.update(table.node for table in opened if table.is_layout())
    return frozenset(layout)


def _see(table: _Table, tag: str, *, is_filled: bool) -> None:
    if tag in ("th", "thead", "caption"):
        table.has_header = True
        table.cells += tag == "th"
    elif tag == "td":
        table.cells += is_filled
    elif tag == "tr":
        table.end_row()
        table.rows += 1


def _levels(nodes: Nodes, shown: Sequence[int], chars: Sequence[int], layout: frozenset[int]) -> dict[int, int]:
    """Apply rules 2 and 3 in document order, so that the headings above each one are known."""
    tags, attributes = nodes.tags, nodes.attributes
    levels: dict[int, int] = {}
    real_level = last_level = inside = 0
    has_title = any(tags[node] == "h1" and chars[node] for node in shown)
    boxes: list[int] = []
    lists: list[int] = []
    tables: list[int] = []
    for node in shown:
        tag = tags[node]
        if not tag:
            continue
        if tag in ("table", "dl"):
            around = lists if tag == "dl" else boxes if node in layout else tables
            _depth(around, node)
            around.append(nodes.ends[node])
        elif node < inside:
            continue
        elif tag in HEADINGS:
            real_level = last_level = int(tag[1])
        elif tag == "dt":
            if chars[node] <= _TERM_CHARS and _is_linked_term(nodes, node):
                levels[node] = min(last_level + max(_depth(lists, node), 1), 6)
                inside = nodes.ends[node]
        elif attributes[node] and _is_named_heading(nodes, node, chars) and not _depth(tables, node):
            last_level = max(real_level, 1) + max(_depth(boxes, node), 1) if has_title else 1
            has_title = True
            levels[node] = min(last_level, 6)
            inside = nodes.ends[node]
    return levels


def _depth(ends: list[int], node: int) -> int:
    """Return how many of the parts that end at `ends` contain `node`; drops those that have ended."""
    while ends and ends[-1] <= node:
        ends.pop()
    return len(ends)


def _is_named_heading(nodes: Nodes, node: int, chars: Sequence[int]) -> bool:
    tag = nodes.tags[node]
    is_block = tag in _BLOCK_CANDIDATES
    if not (is_block or tag in _BOLD) or not _HEADING_CLASS.search(nodes.attributes[node].get("class") or ""):
        return False
    if not 0 < chars[node] <= _HEADING_CHARS or nodes.ends[node] - node > _MOST_PARTS:
        return False
    if any(part in BLOCKS for part in nodes.tags[node + 1 : nodes.ends[node]]):
        return False
    parent = nodes.parents[node]
    return is_block or (nodes.tags[parent] in _BLOCK_CANDIDATES and chars[parent] == chars[node])


def _is_linked_term(nodes: Nodes, node: int) -> bool:
    end = nodes.ends[node]
    if end - node > _MOST_PARTS or any(part in BLOCKS for part in nodes.tags[node + 1 : end]):
        return False
    if nodes.attributes[node].get("id"):
        return True
    inner = (nodes.attributes[part] for part in range(node + 1, end) if nodes.tags[part] == "a")
    return any(attributes.get("name") or attributes.get("id") for attributes in inner)


MOST_CHARACTERS = 100
"""Longest fragment: a longer one is not a name."""
_BEFORE = 6
"""Entries before a heading that are searched: a target, and the boxes around it."""
_TOP = frozenset(("html", "body"))
_WHITE_SPACE = re.compile(r"\s")


class Fragments:
    """The fragments of one page; read when the first heading needs them."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes

    def of(self, node: int) -> str | None:
        """Return the fragment that leads to the heading or term `node`, or None."""
        return next(self._leading_to(node), None)

    def _leading_to(self, node: int) -> Iterator[str]:
        nodes = self._nodes
        for place in range(node, nodes.ends[node]):
            if (name := self._name(place)) is not None:
                yield name
        if nodes.tags[node] == "dt":
            return
        yield from self._directly_before(node)
        behind = nodes.ends[node]
        if behind < len(nodes) and nodes.tags[behind] == "a" and nodes.parents[behind] == nodes.parents[node]:
            href = nodes.attributes[behind].get("href") or ""
            if href.startswith("#") and (name := self._name(behind)) is not None:
                yield name

    def _directly_before(self, node: int) -> Iterator[str]:
        nodes = self._nodes
        for place in range(node - 1, max(-1, node - 1 - _BEFORE), -1):
            if nodes.texts[place].strip() or nodes.tags[place] in _TOP:
                return
            if (name := self._name(place)) is not None:
                yield name

    def _name(self, place: int) -> str | None:
        """Return the element's id or name, if that fragment leads to this element."""
        name = _name_of(self._nodes, place)
        return name if name is not None and self._first[name] == place else None

    @cached_property
    def _first(self) -> dict[str, int]:
        """The first element of each name; an id goes before an `<a name>`."""
        nodes = self._nodes
        named = [(name, place) for place in range(len(nodes)) if (name := _name_of(nodes, place)) is not None]
        ids = [(name, place) for name, place in named if "id" in nodes.attributes[place]]
        return dict((*reversed(named), *reversed(ids)))


def _name_of(nodes: Nodes, place: int) -> str | None:
    attributes = nodes.attributes[place]
    name = (
        (attributes.get("id") or (attributes.get("name") if nodes.tags[place] == "a" else None)) if attributes else ""
    )
    is_usable = name and len(name) <= MOST_CHARACTERS and not _WHITE_SPACE.search(name) and readable(name) == name
    return name if is_usable else None
