"""Puts the edges of one document together: each edge once, with all its lines, in one order.

The order and the bounds depend on the document alone, so a document always gives the same edges.
"""

from __future__ import annotations

from collections.abc import Iterable

from sluice.contracts.graph.model import Edge, EdgeType, Node, Origin

MOST_EDGES = 20_000
"""Edges of one document that are kept, the first ones. A source file of 10,000 lines has about 6,000; a file with more
is generated, and would weigh more than the rest of the corpus."""
MOST_LINES = 200
"""Lines of one edge that are kept, the first ones: more uses of a name say nothing more."""
MOST_KEY_CHARACTERS = 1_000
"""Most characters of a node's key. No meaningful name or address is longer."""
MOST_DETAIL_CHARACTERS = 100

_Key = tuple[EdgeType, Node, Node, Origin]


def put_together(edges: Iterable[Edge]) -> tuple[Edge, ...]:
    """Merge edges of equal type, ends and origin, with the lines of all and the first detail that is not empty.

    Returns the first `MOST_EDGES` of them, ascending, without those whose key is too long or not printable.
    """
    lines: dict[_Key, set[int]] = {}
    details: dict[_Key, str] = {}
    for edge in edges:
        key = edge.type, edge.source, edge.target, edge.origin
        if key not in lines:
            if len(lines) >= MOST_EDGES:
                continue
            if not (_is_storable(edge.source.key) and _is_storable(edge.target.key)):
                continue
            lines[key] = set()
        lines[key].update(edge.lines)
        if edge.detail and key not in details:
            details[key] = _storable(edge.detail)
    return tuple(
        sorted(Edge(*key, tuple(sorted(found)[:MOST_LINES]), details.get(key, "")) for key, found in lines.items())
    )


def _is_storable(key: str) -> bool:
    return 0 < len(key) <= MOST_KEY_CHARACTERS and key.isprintable()


def _storable(detail: str) -> str:
    words = " ".join(detail.split())[:MOST_DETAIL_CHARACTERS].rstrip()
    return words.encode("utf-8", "replace").decode()
