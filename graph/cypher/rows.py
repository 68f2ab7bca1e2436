"""A published generation as the rows of the engine's tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from sluice.contracts.graph.model import EdgeType, NodeLabel, Origin
from sluice.graph.cypher.engine_file import EdgeRow, NodeRow
from sluice.graph.generations.found import How
from sluice.graph.generations.view import GraphView
from sluice.graph.schema import named


class DocumentFacts(NamedTuple):
    """What a generation does not hold of a document. Each may be None."""

    language: str | None = None
    content_hash: str | None = None
    embedding_version: str | None = None
    updated_at: str | None = None
    """ISO 8601 in UTC."""


def node_rows(view: GraphView, corpus: str, facts: Mapping[str, DocumentFacts]) -> Iterator[NodeRow]:
    """Every node of the generation. `facts` are by a document's id; one that is missing leaves its properties null."""
    unknown = DocumentFacts()
    for place in range(view.nodes):
        node = view.node(place)
        values: Iterable[str | None] = named(node).values()
        if node.label is NodeLabel.DOCUMENT:
            values = view.path(place), view.title(place), view.url(place), *facts.get(node.key, unknown)
        yield NodeRow(node.label, (node.key, corpus, *values))


def edge_rows(view: GraphView) -> Iterator[EdgeRow]:
    """Every edge of the generation, as its document states it, and those that follow from them all.

    A name that is defined under another one (imported as `shop.cart`, in `src/shop/cart.py`) leads to where it is
    defined too: `detail` says by which rule. So a pattern need not know how names are resolved.
    """
    stated: set[tuple[int, int]] = set()
    for number in range(view.edges):
        edge = view.edge(number)
        source, target = view.node(edge.source), view.node(edge.target)
        first = edge.lines[0] if edge.lines else None
        values = (edge.origin, first, edge.lines, edge.candidates, edge.detail)
        yield EdgeRow(edge.type, source.label, source.key, target.label, target.key, values)
        if edge.type in _ADDED.values():
            stated.add((edge.source, edge.target))
    for meant in view.meant():
        if (meant.name, meant.document) in stated:
            continue
        stated.add((meant.name, meant.document))
        name, document = view.node(meant.name), view.node(meant.document)
        lines = tuple(dict.fromkeys(line for line in (meant.first, meant.last) if line))
        told = (Origin.NAME, lines[0] if lines else None, lines, meant.candidates, _RULES[meant.how])
        yield EdgeRow(_ADDED[name.label], name.label, name.key, document.label, document.key, told)


_ADDED = {NodeLabel.SYMBOL: EdgeType.DEFINED_IN, NodeLabel.URL: EdgeType.RESOLVES_TO}
_RULES = {How.EXACT: "by path", How.SUFFIX: "by path", How.ALIAS: "by re-export", How.INHERITED: "by inheritance"}
