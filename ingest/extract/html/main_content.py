"""Which of the visible entries of a page are its content: trafilatura decides.

The library judges a marked copy of the page (ingest/extract/html/marked_copy.py). The marks in what it gives back name
the entries that it chose; its own text is thrown away, and ingest/extract/html/write_markdown.py writes the entries
with all their structure.

Promises: only visible entries are chosen. Of a page that is too large for the library, and where it finds nothing, the
visible entries are taken that no element declares to be navigation, banner or side column.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence
from functools import cache
from typing import Any

from sluice.ingest.extract.html.marked_copy import MarkedCopy
from sluice.ingest.extract.html.nodes import BLOCKS, HEADINGS, Nodes
from sluice.ingest.extract.html.visible import counted

SHORT_CHARS = 250
"""Of content: where the library finds less it takes all text of the page, menus too; those are taken out again."""
_STRUCTURE = HEADINGS | {"ul", "ol", "dl", "table", "pre", "blockquote"}
_AROUND = frozenset(("nav", "aside", "menu", "header", "footer"))
_ROLES_AROUND = frozenset(("navigation", "banner", "contentinfo", "search", "complementary", "dialog", "menu", "alert"))


def content_of(nodes: Nodes, visible: Sequence[int], *, is_forum: bool = False) -> list[int]:
    """The entries among `visible` that are content, with the elements around them; in the order of the page."""
    chosen = _chosen(nodes, visible, is_forum=is_forum)
    if sum(len(nodes.texts[node]) for node in chosen) < SHORT_CHARS:
        inside = _without_surroundings(nodes, visible)
        chosen = chosen.intersection(inside)
        if not chosen:
            return inside
    wanted = _with_ancestors(nodes, chosen)
    wanted |= _structure_between(nodes, visible, wanted)
    return _with_spaces(nodes, visible, wanted)


def _with_ancestors(nodes: Nodes, chosen: Iterable[int]) -> set[int]:
    wanted = set(chosen)
    for node in chosen:
        for above in nodes.ancestors(node):
            if above in wanted:
                break
            wanted.add(above)
    return wanted


def _structure_between(nodes: Nodes, visible: Sequence[int], wanted: Collection[int]) -> set[int]:
    """Headings, lists, tables and code that the library left out between blocks that it chose: all that is in them.

    They stand beside the chosen ones in one element, and are not mostly links.
    """
    sizes = counted(nodes, visible)
    left_out: dict[int, list[int]] = {}
    found: set[int] = set()
    for node in visible:
        parent = nodes.parents[node]
        if node in wanted:
            if sizes.chars[node]:
                found.update(left_out.pop(parent, ()))
                left_out[parent] = []
        elif parent in left_out and nodes.tags[node] in _STRUCTURE and sizes.linked[node] * 2 <= sizes.chars[node] > 0:
            left_out[parent].append(node)
    return {part for node in found for part in range(node, nodes.ends[node])}


def _with_spaces(nodes: Nodes, visible: Sequence[int], wanted: Collection[int]) -> list[int]:
    """The entries `wanted`, and those without words that keep their words apart: spaces, line breaks, empty cells."""
    kept: list[int] = []
    inline: set[int] = set()  # elements within the wanted ones that may hold a space
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


def _chosen(nodes: Nodes, visible: Sequence[int], *, is_forum: bool) -> set[int]:
    """The texts that the library takes for content; none where the page is too large for it."""
    copy = MarkedCopy(nodes, visible)
    if not copy.is_whole:
        return set()
    if is_forum:
        copy.mark_as_forum()
    try:
        found = _library().bare_extraction(copy.root, include_comments=False, output_format="txt")
    except Exception:  # noqa: BLE001 - whatever a page makes the library stumble over, the page is read without it
        return set()
    return set() if found is None else copy.entries_in("".join(found.body.itertext()))


@cache
def _library() -> Any:
    """trafilatura, imported where the first page is extracted, as that takes half a second."""
    import trafilatura

    logging.getLogger("trafilatura").setLevel(logging.CRITICAL)  # it warns of each page without content
    return trafilatura


def _without_surroundings(nodes: Nodes, visible: Sequence[int]) -> list[int]:
    """All of `visible` but what elements and roles declare to stand around the content."""
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
