"""Folds the rows of the ledger into the arrays of one generation of the graph.

The same rows in any order give the same bytes. What a name means is found here and not before: a row says what its
document says, whatever else is indexed.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from sluice.contracts.graph.model import Node, NodeLabel
from sluice.contracts.graph.rows import CitationRow, DocumentRow
from sluice.graph.generations.codes import LABEL_CODES
from sluice.graph.generations.definitions import Definition, is_unknown, name_of
from sluice.graph.generations.resolution import Resolver
from sluice.graph.generations.stated import Arrays, Stated, state
from sluice.graph.generations.steps import walk_steps


def fold(documents: Iterable[DocumentRow], citations: Iterable[CitationRow]) -> Arrays:
    """The arrays of a generation, by name; `graph.generations.view` says what each holds."""
    rows = sorted(documents, key=lambda row: row.document_id)
    stated = state(rows, citations)
    resolver = Resolver(rows)
    return stated.arrays | _definition_arrays(stated, resolver) | walk_steps(stated, resolver, len(rows))


def _definition_arrays(stated: Stated, resolver: Resolver) -> Arrays:
    definitions = resolver.definitions
    nodes = stated.nodes
    table = np.array(
        [(entry.document, nodes[_node(entry)], entry.first, entry.last) for entry in definitions], np.int32
    ).reshape(-1, 4)
    arrays: Arrays = {
        "definition_document": np.ascontiguousarray(table[:, 0]),
        "definition_node": np.ascontiguousarray(table[:, 1]),
        "definition_first": np.ascontiguousarray(table[:, 2]),
        "definition_last": np.ascontiguousarray(table[:, 3]),
    }
    documents = int(np.count_nonzero(stated.arrays["node_label"] == LABEL_CODES[NodeLabel.DOCUMENT]))
    arrays["definition_offsets"] = np.searchsorted(table[:, 0], np.arange(documents + 1)).astype(np.int64)
    arrays["definitions_by_node"] = np.argsort(table[:, 1], kind="stable").astype(np.int32)
    return arrays | {"nodes_by_name": _by_name(nodes)}


def _by_name(nodes: dict[Node, int]) -> NDArray[np.int32]:
    """Symbols and tools in the order of what people call them."""
    named = [
        (name_of(node.label, node.key).encode(errors="replace"), place)
        for node, place in nodes.items()
        if node.label in (NodeLabel.SYMBOL, NodeLabel.TOOL) and not is_unknown(node.key)
    ]
    return np.array([place for _, place in sorted(named)], np.int32)


def _node(definition: Definition) -> Node:
    return Node(definition.label, definition.key)
