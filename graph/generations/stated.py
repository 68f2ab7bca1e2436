"""The nodes of a graph, and its edges as documents state them, as arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sluice.contracts.graph.model import Edge, EdgeType, Node, NodeLabel, Origin, document_node
from sluice.contracts.graph.rows import CitationRow, DocumentRow
from sluice.graph.generations.codes import LABEL_CODES, ORIGIN_CODES, TYPE_CODES
from sluice.graph.generations.strings import packed

Arrays = dict[str, NDArray[Any]]


class Stated(NamedTuple):
    """Edges in ascending order of (source, target, type, origin, owner); `nodes` gives the place of each node.

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
    """Where the rows of each node begin, of edges counted by node."""
    offsets = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(nodes, minlength=count), out=offsets[1:])
    return offsets
