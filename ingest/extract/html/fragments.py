"""The fragments by which a page's headings are addressed: `https://example.org/guide#install`.

A fragment leads to the first element with that `id`, else to the first `<a name>` (HTML, section 7.4.6.3). A heading is
reached by its own id; by that of an element in it; by that of an empty element directly before it, or of one around it
that begins with it; and by that of the permalink behind it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property

from sluice.ingest.extract.html.nodes import Nodes, readable

MOST_CHARACTERS = 100
"""Of a fragment: a longer one is no name."""
_BEFORE = 6
"""How many entries before a heading are looked at: a target, and the boxes around it."""
_TOP = frozenset(("html", "body"))
_WHITE_SPACE = re.compile(r"\s")


class Fragments:
    """The fragments of one page; nothing is read before the first heading asks."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes

    def of(self, node: int) -> str | None:
        """The fragment that leads to the heading or term `node`; None where none does."""
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
        """The element's id or name, if a fragment of it leads to this element."""
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
