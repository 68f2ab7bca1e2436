"""Folds the rows of the ledger into the arrays of one generation of the graph.

The same rows in any order give the same bytes. Names are resolved here and not before: a row holds the statements of
its document, whatever else is indexed.

Steps lead from the place of a reference to its meaning, and back. A vertex is a node, or a definition (numbered after
the nodes). A reference inside a definition begins there, so a walk goes from function to function; any other begins at
its document. A name without a definition in the corpus is a node, so two places that use it are two steps apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sluice.contracts.graph.model import CitationRow, DocumentRow, EdgeType, Node, NodeLabel, Origin
from sluice.graph.generations.definitions import Definition, How, is_made, is_unknown, name_of
from sluice.graph.generations.resolution import Resolver
from sluice.graph.generations.stated import LABEL_CODES, ORIGINS, TYPE_CODES, Arrays, Stated, state

_MOST_LINES = 2_000_000
"""Most lines of one document. No indexed text has more."""


class Places:
    """The innermost definition around a line; the document where there is none.

    Places are numbered as the vertices of the walk: nodes first, of which documents come first, then definitions.
    """

    def __init__(self, definitions: Sequence[Definition], documents: int, nodes: int) -> None:
        """`definitions` ascend by document."""
        self._first = np.zeros(documents + 1, np.int64)
        spans: dict[int, list[tuple[int, int, int]]] = {}
        for place, definition in enumerate(definitions):
            if definition.first > 0:
                last = min(max(definition.last, definition.first), _MOST_LINES)
                spans.setdefault(definition.document, []).append((definition.first, -last, place))
        painted: list[NDArray[np.int32]] = []
        for document in range(documents):
            own = sorted(spans.get(document, ()))
            lines = np.full(1 + max((-last for _, last, _ in own), default=0), document, np.int32)
            for first, last, place in own:
                lines[first : 1 - last] = nodes + place
            painted.append(lines)
            self._first[document + 1] = self._first[document] + len(lines)
        self._lines = np.concatenate(painted) if painted else np.zeros(0, np.int32)

    def around(self, documents: NDArray[np.int32], lines: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the vertex of each line; line 0 stands in the document itself."""
        lengths = self._first[documents + 1] - self._first[documents]
        inside = (lines > 0) & (lines < lengths)
        found = documents.astype(np.int32).copy()
        found[inside] = self._lines[(self._first[documents] + lines)[inside]]
        return found


STEPS_OF_VERTEX = 256
"""Steps kept of one vertex, the likeliest: more would only make a walk through a hub long."""
MOST_USERS = 64
"""Most places that name an undefined symbol; one with more (`numpy`) connects nothing."""
_LEAST_SHARE = 1 / 16
"""Meanings with a smaller share give no steps: a reference to over 16 equally likely definitions has none."""
_INNER_WEIGHT = 0.1
"""Weight of the step from a definition to its document."""
_LEAST_TOTAL = 0.2
"""A vertex's weights are divided by their sum, or by this if larger: a single doubtful step stays doubtful."""
_WEIGHTS = {Origin.NAME: 0.5, Origin.MENTION: 0.7, Origin.RUN: 0.3}
"""Weight of a step by the origin of its edge; 1 for all others."""

Numbers = NDArray[np.int32]


def walk_steps(stated: Stated, resolver: Resolver, documents: int) -> Arrays:
    """Return arrays of steps, each vertex's likeliest first, and the number of definitions that each edge can mean."""
    nodes = len(stated.nodes)
    places = Places(resolver.definitions, documents, nodes)
    edge, first, last, place = _references(stated, places)
    candidates, offsets, vertex, how, share = _meanings(stated, resolver, edge)
    group, found = _expanded(offsets, edge)
    edges = edge[group]
    forward: Arrays = {
        "source": place[group],
        "target": vertex[found],
        "edge": edges,
        "first": first[group],
        "last": last[group],
        "how": how[found],
        "weight": _origin_weights(stated.arrays["edge_origin"])[edges] * share[found],
    }
    users = np.bincount(forward["target"][forward["how"] == How.OUTSIDE], minlength=nodes)
    kept = forward["source"] != forward["target"]
    kept &= (forward["how"] != How.OUTSIDE) | (users[np.minimum(forward["target"], nodes - 1)] <= MOST_USERS)
    forward = {name: column[kept] for name, column in forward.items()}
    backward = forward | {"source": forward["target"], "target": forward["source"]}
    inner = _inner_steps(stated, resolver)
    arrays: Arrays = {"edge_candidates": candidates}
    return arrays | _ordered([(forward, False), (backward, True), (inner, False)], nodes + len(resolver.definitions))


def _references(stated: Stated, places: Places) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """Return each referring edge by the places of its references: edge, first and last line there, place."""
    arrays = stated.arrays
    referring = (EdgeType.REFERS_TO, EdgeType.LINKS_TO, EdgeType.CITED_BY, EdgeType.INHERITS, EdgeType.HAS_TYPE)
    edges = np.flatnonzero(np.isin(arrays["edge_type"], [TYPE_CODES[kind] for kind in referring])).astype(np.int32)
    counts = (arrays["line_offsets"][1:] - arrays["line_offsets"][:-1])[edges]
    bare = edges[counts == 0]
    numbers = np.repeat(edges, counts)
    starts = np.repeat(arrays["line_offsets"][edges], counts)
    within = np.arange(len(numbers)) - np.repeat(np.cumsum(counts) - counts, counts)
    lines = np.concatenate([arrays["lines"][starts + within], np.zeros(len(bare), np.int32)]).astype(np.int32)
    numbers = np.concatenate([numbers, bare]).astype(np.int32)
    owners = arrays["edge_owner"].astype(np.int32)[numbers]
    around = places.around(owners, lines)
    order = np.lexsort((lines, around, numbers))
    numbers, lines, around = numbers[order], lines[order], around[order]
    is_first = np.ones(len(numbers), bool)
    is_first[1:] = (numbers[1:] != numbers[:-1]) | (around[1:] != around[:-1])
    heads = np.flatnonzero(is_first)
    tails = np.append(heads[1:], len(numbers)) - 1 if len(heads) else heads
    return numbers[heads], lines[heads], lines[tails], around[heads]


def _meanings(
    stated: Stated, resolver: Resolver, referring: Numbers
) -> tuple[Numbers, NDArray[np.int64], Numbers, NDArray[np.uint8], NDArray[np.float32]]:
    """Return the meanings of each stated edge: their number, and rows of (vertex, how, share) at the edge's offset."""
    nodes = len(stated.nodes)
    owners = stated.arrays["edge_owner"].tolist()
    targets = stated.arrays["edge_target"].tolist()
    vertices: list[int] = []
    ways: list[int] = []
    shares: list[float] = []
    counts = np.zeros(len(stated.edges), np.int64)
    candidates = np.ones(len(stated.edges), np.int32)
    for number in np.unique(referring).tolist():
        target = stated.edges[number].target
        before = len(vertices)
        number_found = 0
        if target.label is NodeLabel.URL:
            reached = resolver.addressed(target.key, owners[number])
            number_found = len(reached)
            for document in reached:
                vertices.append(document)
                ways.append(How.EXACT)
                shares.append(1 / len(reached))
        elif target.label in (NodeLabel.SYMBOL, NodeLabel.TOOL):
            found = resolver.found(target.key, owners[number])
            number_found = len(found)
            for place, how, share in resolver.meanings(found, owners[number], _LEAST_SHARE):
                definition = resolver.definitions[place]
                vertices.append(nodes + place if definition.first > 0 else definition.document)
                ways.append(how)
                shares.append(share)
        candidates[number] = max(1, number_found)
        if not number_found and not is_made(target.key):
            vertices.append(targets[number])
            ways.append(How.OUTSIDE)
            shares.append(1.0)
        counts[number] = len(vertices) - before
    offsets = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    return candidates, offsets, np.array(vertices, np.int32), np.array(ways, np.uint8), np.array(shares, np.float32)


def _expanded(offsets: NDArray[np.int64], edge: Numbers) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Pair each reference with each of its meanings: places in the references, places in the meanings."""
    counts = (offsets[1:] - offsets[:-1])[edge]
    group = np.repeat(np.arange(len(edge)), counts)
    within = np.arange(len(group)) - np.repeat(np.cumsum(counts) - counts, counts)
    return group, offsets[edge][group] + within


def _origin_weights(origins: NDArray[Any]) -> NDArray[np.float32]:
    weights = np.array([_WEIGHTS.get(origin, 1.0) for origin in ORIGINS], np.float32)
    return weights[origins.astype(np.int64)]


def _inner_steps(stated: Stated, resolver: Resolver) -> Arrays:
    """Return steps from each definition to its document, by the edge that defines it."""
    nodes = len(stated.nodes)
    defining = {
        (edge.source.key, owner): number
        for number, (edge, owner) in enumerate(zip(stated.edges, stated.arrays["edge_owner"].tolist(), strict=True))
        if edge.type is EdgeType.DEFINED_IN
    }
    held = [
        (nodes + place, entry.document, defining[entry.key, entry.document], entry.first, entry.last)
        for place, entry in enumerate(resolver.definitions)
        if entry.first > 0
    ]
    columns = np.array(held, np.int32).reshape(-1, 5).T
    inner: Arrays = dict(zip(("source", "target", "edge", "first", "last"), columns, strict=True))
    inner["how"] = np.full(len(held), How.EXACT, np.uint8)
    inner["weight"] = np.full(len(held), _INNER_WEIGHT, np.float32)
    return inner


def _ordered(parts: list[tuple[Arrays, bool]], vertices: int) -> Arrays:
    """Return one table of all steps by source, hubs damped, weights as shares of the source's sum."""
    table = {name: np.concatenate([part[name] for part, _ in parts]) for name in parts[0][0]}
    table["is_reverse"] = np.concatenate([np.full(len(part["source"]), back, bool) for part, back in parts])
    degrees = np.bincount(table["target"].astype(np.int64), minlength=vertices)
    weights = table["weight"] / np.log2(2 + degrees[table["target"].astype(np.int64)])
    order = np.lexsort((table["first"], table["is_reverse"], table["edge"], table["target"], -weights, table["source"]))
    sources = table["source"][order].astype(np.int64)
    starts = np.searchsorted(sources, np.arange(vertices + 1))
    kept = np.arange(len(order)) - starts[sources] < STEPS_OF_VERTEX
    order, sources = order[kept], sources[kept]
    weights = weights[order]
    totals = np.maximum(np.bincount(sources, weights, minlength=vertices), _LEAST_TOTAL)
    return {
        "step_offsets": np.searchsorted(sources, np.arange(vertices + 1)).astype(np.int64),
        "step_target": table["target"][order].astype(np.int32),
        "step_share": (weights / totals[sources]).astype(np.float32),
        "step_edge": table["edge"][order].astype(np.int32),
        "step_first": table["first"][order].astype(np.int32),
        "step_last": table["last"][order].astype(np.int32),
        "step_how": (table["how"][order] | (table["is_reverse"][order] * REVERSE)).astype(np.uint8),
    }


REVERSE = 0x80
"""Flag in `step_how`: the step goes from the definition to a reference."""


def fold(documents: Iterable[DocumentRow], citations: Iterable[CitationRow]) -> Arrays:
    """Return the arrays of a generation, by name; `graph.generations.view` describes them."""
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
    """Return symbols and tools in the order of their short names."""
    named = [
        (name_of(node.label, node.key).encode(errors="replace"), place)
        for node, place in nodes.items()
        if node.label in (NodeLabel.SYMBOL, NodeLabel.TOOL) and not is_unknown(node.key)
    ]
    return np.array([place for _, place in sorted(named)], np.int32)


def _node(definition: Definition) -> Node:
    return Node(definition.label, definition.key)
