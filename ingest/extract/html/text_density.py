"""What a reader could see of a page, and how much of it there is: characters, linked ones and prose.

Hidden text goes, and for a second reason: it is where a page speaks to a machine behind its reader's back. Of what is
left, prose is what stands in long blocks with few links. All is linear in the page.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass

from ingest.extract.css.cascade import Cascade
from ingest.extract.html.nodes import BLOCKS, HEADINGS, Nodes

_NEVER_READ = frozenset(
    [
        *("script", "style", "noscript", "template", "svg", "canvas", "iframe", "object", "embed", "applet", "portal"),
        *("title", "audio", "video", "map", "link", "meta", "base", "dialog", "frame", "frameset", "noembed"),
        *(
            "button",
            "input",
            "select",
            "textarea",
            "datalist",
            "progress",
            "meter",
            "annotation",
            "annotation-xml",
            "rp",
        ),
    ]
)
_SHORTEST_PROSE = 25
"""Characters of a block below which it tells nothing about where the content is (as in Readability)."""
_FULL_PROSE = 80
"""Characters from which a block counts in full: a line of text."""


@dataclass(frozen=True, slots=True)
class Shown:
    """What a reader could see of a page. `chars` and `linked` count, for every entry, the characters before it."""

    nodes: list[int]
    chars: list[int]
    linked: list[int]
    titles: list[int]

    def chars_in(self, start: int, end: int) -> int:
        """Characters of the entries from `start` up to `end`."""
        return self.chars[end] - self.chars[start]

    def unlinked_in(self, start: int, end: int) -> int:
        """As `chars_in`, those of links left out."""
        return self.chars[end] - self.chars[start] - self.linked[end] + self.linked[start]

    def has_title(self, start: int, end: int) -> bool:
        """Whether an `<h1>` with text stands from `start` up to `end`."""
        return bisect_left(self.titles, start) < bisect_left(self.titles, end)


@dataclass(frozen=True, slots=True)
class Measures:
    """Of every entry, summed over what is left in it: characters, linked ones and prose."""

    left: list[int]
    chars: list[int]
    linked: list[int]
    prose: list[float]


def shown_nodes(nodes: Nodes) -> Shown:
    """The entries that a reader could see, in their order.

    Raises InvalidInput where the page's style sheets ask for more work than any honest page's do.
    """
    cascade = Cascade(nodes)
    hides = cascade.hides if cascade.is_needed else None
    tags, ends, texts, attributes = nodes.tags, nodes.ends, nodes.texts, nodes.attributes
    shown: list[int] = []
    titles: list[int] = []
    chars, linked = [0], [0]
    node, count = 0, len(tags)
    total = total_linked = anchored_to = 0
    while node < count:
        tag = tags[node]
        if not tag:
            if hides is None or not hides(node):
                shown.append(node)
                length = len(texts[node].strip())
                if length:
                    total += length + 1
                    if node < anchored_to:
                        total_linked += length + 1
            chars.append(total)
            linked.append(total_linked)
            node += 1
        elif (
            tag in _NEVER_READ or (attributes[node] and _is_marked_hidden(attributes[node])) or (hides and hides(node))
        ):
            chars += [total] * (ends[node] - node)
            linked += [total_linked] * (ends[node] - node)
            node = ends[node]
        else:
            shown.append(node)
            chars.append(total)
            linked.append(total_linked)
            if tag == "a":
                anchored_to = max(anchored_to, ends[node])
            elif tag == "h1":
                titles.append(node)
            node += 1
    return Shown(shown, chars, linked, [title for title in titles if chars[ends[title]] > chars[title]])


def measured(nodes: Nodes, left: list[int]) -> Measures:
    """The measures of `nodes`, of which those in `left` are counted. Two loops: to the nearest block, then upwards."""
    count = len(nodes)
    tags, texts, parents = nodes.tags, nodes.texts, nodes.parents
    chars, linked, blocks = [0] * count, [0] * count, [0] * count
    own, own_linked = [0] * count, [0] * count
    prose = [0.0] * count
    anchored_to = 0
    for node in left:
        tag = tags[node]
        if tag:
            if tag in BLOCKS or parents[node] < 0:
                blocks[node] = node
            else:
                blocks[node] = blocks[parents[node]]
                if tag == "a":
                    anchored_to = nodes.ends[node]
            continue
        length = len(texts[node].strip())
        if length:
            length += 1
            chars[node] = length
            block = blocks[parents[node]]
            own[block] += length
            if node < anchored_to:
                linked[node] = length
                own_linked[block] += length
    for node in reversed(left):
        if not chars[node]:
            continue
        if own[node] >= _SHORTEST_PROSE:
            prose[node] += _prose(tags[node], own[node], own_linked[node])
        parent = parents[node]
        if parent >= 0:
            chars[parent] += chars[node]
            linked[parent] += linked[node]
            prose[parent] += prose[node]
    return Measures(left, chars, linked, prose)


def _is_marked_hidden(attributes: Mapping[str, str]) -> bool:
    # `hidden` hides by being there: `hidden=no` does too.
    return "hidden" in attributes or attributes.get("aria-hidden", "").strip().lower() == "true"


def _prose(tag: str, chars: int, linked: int) -> float:
    """How much of a block's own text reads like prose."""
    if tag in HEADINGS:
        return 0.0
    unlinked = 1.0 - linked / chars
    if tag != "pre":
        unlinked *= min(1.0, chars / _FULL_PROSE)
    return chars * unlinked * unlinked
