"""The nodes of a graph, and its edges as documents state them, as arrays of numbers and packed texts."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sluice.contracts.graph.model import (
    CitationRow,
    DocumentRow,
    Edge,
    EdgeType,
    Node,
    NodeLabel,
    Origin,
    document_node,
)

LABELS, TYPES, ORIGINS = tuple(NodeLabel), tuple(EdgeType), tuple(Origin)
"""Files hold the place of each member: a new one comes last in its enumeration."""
LABEL_CODES = {label: code for code, label in enumerate(LABELS)}
TYPE_CODES = {kind: code for code, kind in enumerate(TYPES)}
ORIGIN_CODES = {origin: code for code, origin in enumerate(ORIGINS)}


def packed(texts: Iterable[str]) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Return the offset of each text (and one past the last), and the UTF-8 bytes of all."""
    encoded = [text.encode(errors="replace") for text in texts]
    offsets = np.zeros(len(encoded) + 1, np.int64)
    np.cumsum([len(text) for text in encoded], out=offsets[1:])
    return offsets, np.frombuffer(b"".join(encoded), np.uint8)


class Texts(Sequence[str]):
    """Texts that lie in two arrays. An entry is decoded on access."""

    def __init__(self, offsets: NDArray[np.int64], content: NDArray[np.uint8]) -> None:
        self._offsets = offsets
        self._content = content

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, place):  # type: ignore[no-untyped-def]
        return self.raw(place).decode()

    def raw(self, place: int) -> bytes:
        """Return the UTF-8 bytes of an entry."""
        return self._content[int(self._offsets[place]) : int(self._offsets[place + 1])].tobytes()

    def place(self, wanted: bytes, first: int, end: int) -> int:
        """Return the position of the bytes, or where they belong, between two places; entries ascend by their bytes."""
        return first + bisect_left(range(first, end), wanted, key=self.raw)

    def find(self, text: str, first: int, end: int) -> int | None:
        """Return the place of a text between two places, where entries ascend; None: it is missing."""
        wanted = text.encode(errors="replace")
        found = self.place(wanted, first, end)
        return found if found < end and self.raw(found) == wanted else None


Arrays = dict[str, NDArray[Any]]


class Stated(NamedTuple):
    """Edges in ascending order of (source, target, type, origin, owner); `nodes` maps each node to its place.

    Documents come first among the nodes, so a document's place is also its node's.
    """

    arrays: Arrays
    nodes: dict[Node, int]
    edges: list[Edge]


def state(documents: Sequence[DocumentRow], citations: Iterable[CitationRow]) -> Stated:
    """Number the nodes in the order of their labels and keys, and put edges, lines and details into arrays.

    `documents` ascend by their id. Citations of other documents than these are left out.
    """
    live = {row.document_id for row in documents}
    owned = [
        (edge, place)
        for place, row in enumerate(documents)
        for edge in row.edges
        if (edge.source.label is not NodeLabel.DOCUMENT or edge.source.key in live)
        and (edge.target.label is not NodeLabel.DOCUMENT or edge.target.key in live)
    ]
    owned += _cited(documents, citations)
    nodes = _numbered(documents, owned)
    count = len(owned)
    columns: Arrays = {
        "edge_source": np.fromiter((nodes[edge.source] for edge, _ in owned), np.int32, count),
        "edge_target": np.fromiter((nodes[edge.target] for edge, _ in owned), np.int32, count),
        "edge_type": np.fromiter((TYPE_CODES[edge.type] for edge, _ in owned), np.uint8, count),
        "edge_origin": np.fromiter((ORIGIN_CODES[edge.origin] for edge, _ in owned), np.uint8, count),
        "edge_owner": np.fromiter((place for _, place in owned), np.int32, count),
    }
    order = np.lexsort(tuple(reversed(columns.values())))
    arrays: Arrays = {name: column[order] for name, column in columns.items()}
    edges = [owned[place][0] for place in order.tolist()]
    details = sorted({edge.detail for edge in edges} | {""})
    codes = {detail: code for code, detail in enumerate(details)}
    arrays["edge_detail"] = np.fromiter((codes[edge.detail] for edge in edges), np.int32, count)
    arrays["detail_offsets"], arrays["detail_bytes"] = packed(details)
    arrays["line_offsets"] = np.zeros(count + 1, np.int64)
    np.cumsum(np.fromiter((len(edge.lines) for edge in edges), np.int64, count), out=arrays["line_offsets"][1:])
    arrays["lines"] = np.fromiter((line for edge in edges for line in edge.lines), np.int32)
    arrays["out_offsets"] = _offsets(arrays["edge_source"], len(nodes))
    arrays["in_edges"] = np.argsort(arrays["edge_target"], kind="stable").astype(np.int32)
    arrays["in_offsets"] = _offsets(arrays["edge_target"], len(nodes))
    arrays["node_label"] = np.fromiter((LABEL_CODES[node.label] for node in nodes), np.uint8, len(nodes))
    arrays["key_offsets"], arrays["key_bytes"] = packed(node.key for node in nodes)
    for name in ("path", "url", "title"):
        arrays[f"{name}_offsets"], arrays[f"{name}_bytes"] = packed(getattr(row, name) or "" for row in documents)
    return Stated(arrays, nodes, edges)


def _numbered(documents: Sequence[DocumentRow], owned: Iterable[tuple[Edge, int]]) -> dict[Node, int]:
    found = {document_node(row.document_id) for row in documents}
    for edge, _ in owned:
        found.add(edge.source)
        found.add(edge.target)
    order = sorted(found, key=lambda node: (LABEL_CODES[node.label], node.key))
    return {node: place for place, node in enumerate(order)}


def _cited(documents: Sequence[DocumentRow], citations: Iterable[CitationRow]) -> list[tuple[Edge, int]]:
    places = {row.document_id: place for place, row in enumerate(documents)}
    lines: dict[tuple[str, str], set[int]] = {}
    for row in citations:
        if row.document_id in places:
            lines.setdefault((row.document_id, row.conversation), set()).update(row.lines)
    return [
        (
            Edge(
                EdgeType.CITED_BY,
                document_node(document_id),
                Node(NodeLabel.CONVERSATION, conversation),
                Origin.RUN,
                tuple(sorted(cited)),
            ),
            places[document_id],
        )
        for (document_id, conversation), cited in sorted(lines.items())
    ]


def _offsets(nodes: NDArray[Any], count: int) -> NDArray[np.int64]:
    """Return the offset of each node's rows among edges sorted by node."""
    offsets = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(nodes, minlength=count), out=offsets[1:])
    return offsets
