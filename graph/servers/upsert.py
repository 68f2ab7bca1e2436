"""What is fed to a graph server: documents with the edges that they own, each document in one transaction.

A document's edges are taken back by their owner and made anew, so feeding it twice changes nothing. Each document
carries `as_of`, the journal offset of the index that it was read from; what is older than that changes nothing either,
and neither does it bring back a document that left later.

The text of a document is not copied: what is to be forgotten would stay in the server's own transaction logs and
backups, which are out of reach from here. Its id leads to the text.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import structlog

from sluice.contracts.graph.model import Edge, Node, NodeLabel
from sluice.graph.servers.client import ROWS_AT_ONCE, BoltClient, portions, run_rows
from sluice.graph.servers.dialect import NAMED, Dialect
from sluice.graph.servers.feed import ServerDocument, document_row, edge_row
from sluice.graph.servers.statements import (
    CREATE_EDGES,
    DELETE_DOCUMENTS,
    DELETE_EDGES,
    MERGE_DOCUMENTS,
    REMOVE_DOCUMENTS,
    EdgeKind,
)

if TYPE_CHECKING:
    from neo4j import AsyncManagedTransaction

log = structlog.get_logger(__name__)

MOST_EDGES = 5_000
"""Of the documents of one transaction, unless a single one has more: some megabytes, and a second or so."""
MOST_DOCUMENTS = 200
MOST_KEY_BYTES = 4_000
"""Of a node's id: Neo4j's indexes take some 8 kB for all properties together, and refuse the transaction beyond."""


class Fed(NamedTuple):
    """What became of documents."""

    stored: int = 0
    removed: int = 0
    outdated: tuple[str, ...] = ()
    """Ids of those of which the server has something later."""

    def plus(self, other: Fed) -> Fed:
        """Both together."""
        return Fed(self.stored + other.stored, self.removed + other.removed, self.outdated + other.outdated)


async def upsert(client: BoltClient, corpus: str, documents: Sequence[ServerDocument]) -> Fed:
    """Store documents, as many at once as fit a transaction. Raises as `BoltClient.ping`.

    What no index of a server takes is left out and told: an edge whose end has a longer name than `MOST_KEY_BYTES`.
    """
    dialect, fed = await client.dialect(), Fed()
    kept = [one._replace(edges=tuple(edge for edge in one.edges if _is_storable(edge))) for one in documents]
    left_out = sum(len(one.edges) for one in documents) - sum(len(one.edges) for one in kept)
    if left_out:
        log.warning("graph_server_edges_left_out", corpus=corpus, edges=left_out, most_key_bytes=MOST_KEY_BYTES)
    for group in _groups(kept):

        async def store(transaction: AsyncManagedTransaction, group: list[ServerDocument] = group) -> Fed:
            return await _store(transaction, dialect, corpus, group)

        fed = fed.plus(await client.write(store))
    return fed


async def remove(client: BoltClient, corpus: str, removed: Mapping[str, int]) -> Fed:
    """Remove documents, each as of a journal offset. Ids alone stay, as tombstones. Raises as `BoltClient.ping`."""
    dialect, fed = await client.dialect(), Fed()
    for group in portions(removed.items(), ROWS_AT_ONCE):

        async def take_out(transaction: AsyncManagedTransaction, group: list[tuple[str, int]] = group) -> Fed:
            rows = [{"id": document_id, "as_of": as_of} for document_id, as_of in group]
            said = await run_rows(transaction, REMOVE_DOCUMENTS, {"corpus": corpus, "documents": rows})
            ids = [row["id"] for row in said]
            touched = await _delete_edges(transaction, corpus, ids)
            await run_rows(transaction, DELETE_DOCUMENTS, {"corpus": corpus, "ids": ids})
            await _delete_orphans(transaction, dialect, corpus, touched)
            return Fed(removed=len(ids), outdated=_without([document_id for document_id, _ in group], ids))

        fed = fed.plus(await client.write(take_out))
    return fed


async def _store(
    transaction: AsyncManagedTransaction, dialect: Dialect, corpus: str, group: Sequence[ServerDocument]
) -> Fed:
    rows = [document_row(corpus, document) for document in group]
    said = await run_rows(transaction, MERGE_DOCUMENTS, {"corpus": corpus, "documents": rows})
    accepted = {row["id"] for row in said}
    touched = await _delete_edges(transaction, corpus, sorted(accepted))
    edges: defaultdict[EdgeKind, list[dict[str, Any]]] = defaultdict(list)
    for document in group:
        if document.document_id in accepted:
            for edge in document.edges:
                kind = EdgeKind(edge.type, edge.source.label, edge.target.label)
                edges[kind].append(edge_row(corpus, document.document_id, edge))
    for kind, statement in CREATE_EDGES.items():
        for some in portions(edges.get(kind, ()), ROWS_AT_ONCE):
            await run_rows(transaction, statement, {"corpus": corpus, "edges": some})
    await _delete_orphans(transaction, dialect, corpus, touched)
    return Fed(stored=len(accepted), outdated=_without([one.document_id for one in group], accepted))


async def _delete_edges(transaction: AsyncManagedTransaction, corpus: str, owners: Sequence[str]) -> set[Node]:
    """Take back what these documents said; the nodes that lost an edge by it."""
    touched: set[Node] = set()
    if owners:
        for statement in DELETE_EDGES:
            rows = await run_rows(transaction, statement, {"corpus": corpus, "owners": list(owners)})
            touched |= {Node(NodeLabel(row["label"]), row["id"]) for row in rows}
    return touched


async def _delete_orphans(
    transaction: AsyncManagedTransaction, dialect: Dialect, corpus: str, touched: set[Node]
) -> None:
    for label in NAMED:
        ids = sorted(node.key for node in touched if node.label is label)
        for some in portions(ids, ROWS_AT_ONCE):
            await run_rows(transaction, dialect.delete_orphans[label], {"corpus": corpus, "ids": some})


def _is_storable(edge: Edge) -> bool:
    is_known = EdgeKind(edge.type, edge.source.label, edge.target.label) in CREATE_EDGES
    return is_known and all(
        len(end.key.encode(errors="replace")) <= MOST_KEY_BYTES for end in (edge.source, edge.target)
    )


def _without(ids: Iterable[str], accepted: Collection[str]) -> tuple[str, ...]:
    return tuple(one for one in ids if one not in accepted)


def _groups(documents: Sequence[ServerDocument]) -> Iterator[list[ServerDocument]]:
    """The documents in the order that they have, by what fits a transaction."""
    group: list[ServerDocument] = []
    edges = 0
    for document in documents:
        if group and (edges + len(document.edges) > MOST_EDGES or len(group) == MOST_DOCUMENTS):
            yield group
            group, edges = [], 0
        group.append(document)
        edges += len(document.edges)
    if group:
        yield group
