"""A second opinion on what of a page is its content, for a page whose first opinion is not sure of itself.

The first opinion (ingest/extract/html/main_content.py) believes what a page says of its parts: elements, roles,
names. Of
a page that marks nothing it can only say where most of the prose is, and keeps what stands between. The second believes
none of that. It cuts the text into blocks and judges each by its length and by how much of it is linked; a block that
tells little is judged by those beside it, as text stands beside text and a menu beside a menu (Pomikálek, "Removing
Boilerplate and Duplicate Content from Web Corpora", 2011). Stop words, which that method counts too, are left out: they
would tie it to languages. In their place a block is believed that stands in one element with long ones.

It is not heard on pages with code: references speak in short blocks, and half of their words are links.

Linear in the page. A table of data and a list of plain items are one block each, so that none is torn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from ingest.extract.html.nodes import BLOCKS, HEADINGS, Nodes

_SHORT_CHARS = 70
"""Characters below which a block says nothing of itself: a line of text (as in jusText)."""
_LONG_CHARS = 140
"""Characters from which an unlinked block is content: two lines of text; from 100 to 200 little changes."""
_LINKED_SHARE = 0.5
"""Of the characters of a block: above, it is there to lead elsewhere."""
_FEWEST_SIBLINGS = 2
"""Long blocks in one element that make it a text, to which its short ones belong."""
_LEAST_SHARE = 0.5
"""Of the characters that the first opinion keeps: with less, the second has not understood the page."""
_WHOLE = frozenset(("table", "ul", "ol"))
"""Elements of which all is one block, where they hold nothing that is none of theirs."""
_NO_ITEMS = BLOCKS - {"ul", "ol", "li", "dl", "dt", "dd", "menu", "dir"}


class _Kind(Enum):
    """What a block is: certainly content, likely content, too short to tell, or none."""

    HEADING = auto()
    CONTENT = auto()
    LIKELY = auto()
    SHORT = auto()
    NONE = auto()


@dataclass(slots=True)
class _Block:
    """Text that stands together in the element `home`."""

    home: int
    entries: list[int] = field(default_factory=list)
    chars: int = 0
    linked: int = 0


def second_opinion(nodes: Nodes, inside: Sequence[int], kept: Sequence[int], layout: Collection[int]) -> list[int]:
    """Of the entries `kept`, those in blocks that read like content; all where those are too few or a page has code.

    `inside` are the entries to judge by: `kept`, and what the first opinion has left out of the same element.
    `layout` holds the tables that are no data.
    """
    if any(nodes.tags[node] == "pre" for node in kept):
        return list(kept)
    known = set(kept)
    blocks = [block for block in _blocks(nodes, inside, layout) if block.chars]
    kinds = _judged(nodes, blocks)
    both = [(block, kind) for block, kind in zip(blocks, kinds, strict=True) if block.home in known]
    content = [block for block, kind in both if kind is _Kind.CONTENT]
    if sum(block.chars for block in content) < _LEAST_SHARE * sum(block.chars for block, _ in both):
        return list(kept)
    believed = _with_surroundings(nodes, content)
    return [node for node in kept if node in believed]


def _blocks(nodes: Nodes, inside: Sequence[int], layout: Collection[int]) -> list[_Block]:
    """The blocks in the order of the page, each with everything in it that is no block of its own."""
    tags, texts, parents, ends = nodes.tags, nodes.texts, nodes.parents, nodes.ends
    mixed = _mixed(nodes, inside)
    homes: dict[int, int] = {}
    blocks: list[_Block] = []
    block = _Block(-1)
    whole_to = anchored_to = 0
    for node in inside:
        tag = tags[node]
        home = homes.get(parents[node], -1)
        if home < 0 or (tag in BLOCKS and node >= whole_to):
            homes[node] = node
            if tag in _WHOLE and node not in layout and (tag == "table" or node not in mixed):
                whole_to = ends[node]
            continue
        if home != block.home:
            block = _Block(home)
            blocks.append(block)
        block.entries.append(node)
        if tag:
            homes[node] = home
            if tag == "a":
                anchored_to = ends[node]
        elif chars := len(texts[node].strip()):
            block.chars += chars + 1
            if node < anchored_to:
                block.linked += chars + 1
    return blocks


def _mixed(nodes: Nodes, inside: Sequence[int]) -> set[int]:
    """Elements that hold blocks other than the items of lists."""
    tags, parents = nodes.tags, nodes.parents
    mixed: set[int] = set()
    for node in reversed(inside):
        if node in mixed or tags[node] in _NO_ITEMS:
            mixed.add(parents[node])
    return mixed


def _judged(nodes: Nodes, blocks: Sequence[_Block]) -> list[_Kind]:
    """CONTENT or NONE for each block."""
    if not any(map(_leads_elsewhere, blocks)):  # there is no menu, so what is short is short text
        return [_Kind.CONTENT] * len(blocks)
    alone = [_alone(nodes.tags[block.home], block) for block in blocks]
    kinds = _likely_ones_judged(_short_ones_judged(alone))
    texts = Counter(
        nodes.parents[block.home] for block, kind in zip(blocks, alone, strict=True) if kind is _Kind.CONTENT
    )
    for number, block in enumerate(blocks):
        is_unlinked = alone[number] in (_Kind.SHORT, _Kind.LIKELY)
        if is_unlinked and texts[nodes.parents[block.home]] >= _FEWEST_SIBLINGS:
            kinds[number] = _Kind.CONTENT
    return _headings_judged(blocks, kinds, nodes.tags)


def _headings_judged(blocks: Sequence[_Block], kinds: list[_Kind], tags: Sequence[str]) -> list[_Kind]:
    """A heading is content where some stands below it, or below a lesser heading that follows it."""
    has_content = False
    next_level = 0
    for number in reversed(range(len(kinds))):
        if kinds[number] is _Kind.HEADING:
            level = int(tags[blocks[number].home][1])
            kinds[number] = _Kind.CONTENT if has_content or level < next_level else _Kind.NONE
            next_level = level if kinds[number] is _Kind.CONTENT else next_level
            has_content = False
        elif kinds[number] is _Kind.CONTENT:
            has_content = True
    return kinds


def _leads_elsewhere(block: _Block) -> bool:
    return block.linked > block.chars * _LINKED_SHARE


def _alone(tag: str, block: _Block) -> _Kind:
    """What a block tells by itself."""
    if tag in HEADINGS:
        return _Kind.HEADING
    if _leads_elsewhere(block):
        return _Kind.NONE
    if block.chars >= _LONG_CHARS:
        return _Kind.CONTENT
    return _Kind.LIKELY if block.chars >= _SHORT_CHARS else _Kind.SHORT


def _short_ones_judged(kinds: Sequence[_Kind]) -> list[_Kind]:
    """A short block is content between two that may be; the edges of the page are none."""
    unsure = (_Kind.SHORT, _Kind.HEADING)
    before, after = _beside(kinds, unsure), _beside(kinds[::-1], unsure)[::-1]
    judged = list(kinds)
    for number, kind in enumerate(kinds):
        if kind is _Kind.SHORT:
            judged[number] = _Kind.NONE if _Kind.NONE in (before[number], after[number]) else _Kind.CONTENT
    return judged


def _likely_ones_judged(kinds: Sequence[_Kind]) -> list[_Kind]:
    """A block of a line or two is content beside one that is or may be."""
    unsure = (_Kind.HEADING,)
    before, after = _beside(kinds, unsure), _beside(kinds[::-1], unsure)[::-1]
    judged = list(kinds)
    for number, kind in enumerate(kinds):
        if kind is _Kind.LIKELY:
            judged[number] = _Kind.NONE if before[number] is after[number] is _Kind.NONE else _Kind.CONTENT
    return judged


def _beside(kinds: Sequence[_Kind], unsure: Collection[_Kind]) -> list[_Kind]:
    """For every block the last one before it that is not `unsure`."""
    found: list[_Kind] = []
    last = _Kind.NONE
    for kind in kinds:
        found.append(last)
        if kind not in unsure:
            last = kind
    return found


def _with_surroundings(nodes: Nodes, content: Sequence[_Block]) -> set[int]:
    """The entries of `content` and the elements around them."""
    found: set[int] = set()
    for block in content:
        found.update(block.entries)
        around = block.home
        while around >= 0 and around not in found:
            found.add(around)
            around = nodes.parents[around]
    return found
