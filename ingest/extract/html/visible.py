"""Finds the visible text of a page, and its length in each part of the page.

Text that does not surely show is removed: pages use hidden text to address machines covertly. So are marks that
a page prints beside its text: line numbers of code, the sign of a link to a heading. Linear in the page.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from sluice.ingest.extract.css.cascade import Cascade
from sluice.ingest.extract.html.nodes import Nodes

_NEVER_READ = frozenset(
    [
        *("script", "style", "noscript", "template", "svg", "canvas", "iframe", "object", "embed", "applet", "portal"),
        *("title", "audio", "video", "map", "link", "meta", "base", "frame", "frameset", "noembed", "button"),
        *("input", "select", "textarea", "datalist", "progress", "meter", "annotation", "annotation-xml", "rp"),
        *("option", "optgroup", "noframes", "marquee", "mphantom", "maction", "fencedframe", "permission"),
    ]
)
_FOR_SCREEN_READERS = frozenset(
    ("sr-only", "visually-hidden", "visuallyhidden", "screen-reader-text", "screen-reader-only", "u-visually-hidden")
)
"""Classes of the common style sheets, which mostly lie elsewhere, for text that is heard and not seen."""
_HIDING = frozenset(("d-none", "hidden", "invisible", "opacity-0", "text-transparent", "is-hidden", "u-hidden"))
"""Classes of the common style sheets, which mostly lie elsewhere, that hide an element."""
_SHOWN_AGAIN = re.compile(r"d-(?:sm|md|lg|xl|xxl)-(?!none)|\S+:(?!hidden|invisible|opacity-0)")
"""A class beside them that shows an element on wide windows, or after an event."""


@dataclass(frozen=True, slots=True)
class Counted:
    """For every entry, the characters of text in it, and how many of them are in links."""

    chars: Sequence[int]
    linked: Sequence[int]


def visible_nodes(nodes: Nodes, *, trusts_body: bool = False) -> list[int]:
    """Return the entries that a reader surely sees, in order. Raises InvalidInput if style sheets are too long.

    With `trusts_body`, what hides the whole page is ignored: a script takes it away when the page is loaded.
    """
    cascade = Cascade(nodes, trusts_body=trusts_body)
    tags, ends, attributes = nodes.tags, nodes.ends, nodes.attributes
    seen: list[int] = []
    covers: list[int] = []
    replaced = _replaced_by_shadow(nodes)
    node, count = 0, len(tags)
    while node < count:
        tag = tags[node]
        if replaced and nodes.parents[node] in replaced:
            node = max(ends[node], node + 1)
            continue
        if not tag:
            if cascade.around(node).shows_text:
                seen.append(node)
            node += 1
            continue
        if tag in _NEVER_READ or (attributes[node] and _is_marked_hidden(attributes[node])):
            node = ends[node]
            continue
        place = cascade.place(node)
        if place.covers:
            covers.append(node)
        if tag in ("col", "colgroup") and (
            place.is_hidden or place.look != cascade.around(node).look
        ):  # what it says holds of all cells below
            table = next((above for above in nodes.ancestors(node) if tags[above] == "table"), node)
            node = ends[table]
            continue
        if place.is_hidden or (tag == "details" and not _says_what_it_holds(nodes, node)):
            node = ends[node]
            continue
        seen.append(node)
        node += 1
    return _uncovered(nodes, seen, covers) if covers else seen


def _uncovered(nodes: Nodes, seen: Sequence[int], covers: Iterable[int]) -> list[int]:
    """Return `seen` without the text that may lie beneath one of the elements `covers`.

    That is the text of the element around; where this holds half of the page, that of the elements beside it.
    """
    chars = counted(nodes, seen).chars
    most = max(chars)
    is_covered = bytearray(len(nodes))
    by_parent: dict[int, set[int]] = {}
    for node in covers:
        by_parent.setdefault(nodes.parents[node], set()).add(node)
    for parent, tops in by_parent.items():
        beside = list(nodes.children(parent)) if parent >= 0 else []
        if chars[parent] * 2 > most:
            pairs = [*pairwise(beside), *pairwise(reversed(beside))]
            beside = [other for node, other in pairs if node in tops]
        for other in beside:
            if other not in tops or len(tops) > 1:
                is_covered[other : nodes.ends[other]] = b"\x01" * (nodes.ends[other] - other)
    return [node for node in seen if nodes.tags[node] or not is_covered[node]]


def blank_hidden(nodes: Nodes, visible: Iterable[int]) -> None:
    """Blank the words that are not `visible` in the arrays, so that no title and no link can hold them."""
    is_visible = bytearray(len(nodes))
    for node in visible:
        is_visible[node] = 1
    texts = nodes.texts
    for node, seen in enumerate(is_visible):
        if not seen and texts[node]:
            texts[node] = ""


def counted(nodes: Nodes, visible: Sequence[int]) -> Counted:
    """Count the characters of the entries `visible`, summed over their ancestors."""
    count = len(nodes)
    chars, linked = [0] * count, [0] * count
    anchored_to = 0
    for node in visible:
        if nodes.tags[node] == "a":
            anchored_to = max(anchored_to, nodes.ends[node])
        elif length := len(nodes.texts[node].strip()):
            chars[node] = length + 1
            linked[node] = chars[node] if node < anchored_to else 0
    for node in reversed(visible):
        parent = nodes.parents[node]
        if parent >= 0 and chars[node]:
            chars[parent] += chars[node]
            linked[parent] += linked[node]
    return Counted(chars, linked)


def _replaced_by_shadow(nodes: Nodes) -> frozenset[int]:
    """Return the elements that show a shadow tree, declared in a template, and may not show their content in it."""
    found: set[int] = set()
    for node, tag in enumerate(nodes.tags):
        if tag == "template" and "shadowrootmode" in nodes.attributes[node]:
            within = [inner for inner in range(node + 1, nodes.ends[node]) if nodes.tags[inner]]
            is_plain = not any(nodes.attributes[inner] or nodes.tags[inner] in _NEVER_READ for inner in within)
            if not (is_plain and any(nodes.tags[inner] == "slot" for inner in within)):
                found.add(nodes.parents[node])
    return frozenset(found)


def _says_what_it_holds(nodes: Nodes, details: int) -> bool:
    """Return whether `<details>` is open, or has a title with words by which a reader may open it."""
    titles = (child for child in nodes.children(details) if nodes.tags[child] == "summary")
    return "open" in nodes.attributes[details] or any(map(nodes.text, titles))


def _is_marked_hidden(attributes: Mapping[str, str]) -> bool:
    # Text for the eyes alone is what an icon stands for, or a formula a second time.
    if attributes.get("aria-hidden", "").strip().lower() == "true":
        return True
    names = attributes.get("class")
    if names is None:
        return False
    classes = names.split()
    if not _FOR_SCREEN_READERS.isdisjoint(classes):
        return True
    return not _HIDING.isdisjoint(classes) and not any(map(_SHOWN_AGAIN.match, classes))


_LINE_NUMBERS = re.compile(r"(?:^|[\s_-])(?:linenos?|linenumbers?|line-?numbers?|gutter)(?=$|[\s_-])", re.IGNORECASE)
"""Names of line numbers in a class or an id, within code."""
_GUTTER = re.compile(rf"{_LINE_NUMBERS.pattern}|(?:^|[\s_-])lines(?=$|[\s_-])", re.IGNORECASE)
"""The same for a cell or a block beside the code."""
_NAME_CHARS = 300
_PERMALINK = re.compile(r"\s*[¶§🔗#]\s*")
_MOST_PARTS = 8
"""Most entries in a permalink: its sign, and elements that style it."""
_CODE = frozenset(("pre", "code", "samp", "kbd", "xmp", "listing"))


def without_page_marks(nodes: Nodes, visible: Sequence[int]) -> list[int]:
    """Return `visible` without permalinks, line numbers and the cells that hold nothing else."""
    kept: list[int] = []
    code_to = skipped_to = 0
    for node in visible:
        if node < skipped_to:
            continue
        tag, attributes = nodes.tags[node], nodes.attributes[node]
        numbers = _LINE_NUMBERS if node < code_to else _GUTTER if tag in ("td", "pre") else None
        if tag == "a" and _is_permalink(nodes, node):
            skipped_to = nodes.ends[node]
            continue
        is_gutter = bool(attributes and numbers and _is_named(attributes, numbers))  # code may have such a name too
        if is_gutter and all(word.strip(".:|").isdigit() for word in nodes.text(node).split()):
            skipped_to = nodes.ends[node]
            continue
        if tag in _CODE:
            code_to = max(code_to, nodes.ends[node])
        kept.append(node)
    return kept


def _is_named(attributes: Mapping[str, str], pattern: re.Pattern[str]) -> bool:
    return any(pattern.search((attributes.get(name) or "")[:_NAME_CHARS]) for name in ("class", "id"))


def _is_permalink(nodes: Nodes, node: int) -> bool:
    is_short = nodes.ends[node] - node < _MOST_PARTS
    return is_short and _PERMALINK.fullmatch(nodes.text(node)) is not None
