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

from contracts.graph.model import Edge, EdgeType, Node, NodeLabel, Origin
from contracts.graph.rows import CitationRow
from graph.servers.client import BoltClient, dicts, portions, run_rows
from graph.servers.dialect import NAMED, Dialect, EdgeKind

if TYPE_CHECKING:
    from neo4j import AsyncManagedTransaction

log = structlog.get_logger(__name__)

MOST_EDGES = 5_000
"""Of the documents of one transaction, unless a single one has more: some megabytes, and a second or so."""
MOST_DOCUMENTS = 200
ROWS_AT_ONCE = 1_000
"""Rows of one statement."""
STANDING_PAGE = 5_000
MOST_KEY_BYTES = 4_000
"""Of a node's id: Neo4j's indexes take some 8 kB for all properties together, and refuse the transaction beyond."""


class ServerDocument(NamedTuple):
    """A document as a graph server gets it."""

    document_id: str
    as_of: int
    """The journal offset of the index that it was read from."""
    sha256: str
    """Of its row in the ledger: equal rows are not fed again."""
    path: str | None
    url: str | None
    title: str | None
    language: str | None
    content_hash: str
    updated_at: str
    """When its row was written, in ISO 8601 and UTC."""
    edges: tuple[Edge, ...]
    embedding_version: str | None = None
    """The model of `embedding`."""
    embedding: tuple[float, ...] | None = None
    """Of length 1."""


class Feed(NamedTuple):
    """Up to where a corpus was fed: the ledger's count of changes, its hash of the whole graph, the vectors' model."""

    version: int
    sha256: str
    embedding_version: str | None = None
    citations_sha256: str | None = None
    """Of the citations, which are no part of the graph's hash."""
    dimension: int | None = None
    """Of the server's vector index."""


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
    kept = [one._replace(edges=tuple(edge for edge in one.edges if _is_storable(dialect, edge))) for one in documents]
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
            said = await run_rows(transaction, dialect.remove_documents, {"corpus": corpus, "documents": rows})
            ids = [row["id"] for row in said]
            touched = await _delete_edges(transaction, dialect, corpus, ids)
            await run_rows(transaction, dialect.delete_documents, {"corpus": corpus, "ids": ids})
            await _delete_orphans(transaction, dialect, corpus, touched)
            return Fed(removed=len(ids), outdated=_without([document_id for document_id, _ in group], ids))

        fed = fed.plus(await client.write(take_out))
    return fed


async def read_feed(client: BoltClient, corpus: str) -> Feed | None:
    """Up to where the server says that the corpus was fed; None: never. Raises as `BoltClient.ping`."""
    dialect = await client.dialect()
    found = dicts(await client.read(dialect.feed, {"corpus": corpus}, 1))
    return Feed(**found[0]) if found else None


async def write_feed(client: BoltClient, corpus: str, feed: Feed) -> None:
    """Say up to where the corpus was fed. Raises as `BoltClient.ping`."""
    dialect = await client.dialect()

    async def note(transaction: AsyncManagedTransaction) -> None:
        await run_rows(transaction, dialect.set_feed, {"corpus": corpus, **feed._asdict()})

    await client.write(note)


async def read_standing(client: BoltClient, corpus: str) -> dict[str, tuple[str | None, str | None]]:
    """The hash of the row and the embedding's model of every document that the server has of a corpus."""
    dialect = await client.dialect()
    standing: dict[str, tuple[str | None, str | None]] = {}
    after = ""
    while True:
        asked = {"corpus": corpus, "after": after, "most": STANDING_PAGE}
        page = dicts(await client.read(dialect.standing, asked, STANDING_PAGE))
        standing |= {row["id"]: (row["sha256"], row["embedding_version"]) for row in page}
        if len(page) < STANDING_PAGE:
            return standing
        after = page[-1]["id"]


async def lower_fences(client: BoltClient, corpus: str, ids: Sequence[str]) -> None:
    """Let documents be written as of any offset: for a ledger whose index was set back. Raises as `BoltClient.ping`."""
    dialect = await client.dialect()
    for some in portions(ids, ROWS_AT_ONCE):

        async def lower(transaction: AsyncManagedTransaction, some: list[str] = some) -> None:
            for statement in dialect.lower_fences:
                await run_rows(transaction, statement, {"corpus": corpus, "ids": some})

        await client.write(lower)


async def write_citations(client: BoltClient, corpus: str, citations: Sequence[CitationRow]) -> None:
    """Have the corpus cited by these and no others. Raises as `BoltClient.ping`."""
    dialect = await client.dialect()
    kind = EdgeKind(EdgeType.CITED_BY, NodeLabel.DOCUMENT, NodeLabel.CONVERSATION)
    rows = [
        {
            **_ends(Node(kind.source, one.document_id), Node(kind.target, one.conversation)),
            "properties": {"corpus": corpus, "origin": Origin.RUN.value, "lines": list(one.lines), "detail": ""},
        }
        for one in citations
    ]

    async def replace(transaction: AsyncManagedTransaction) -> None:
        await run_rows(transaction, dialect.delete_citations, {"corpus": corpus})
        for some in portions(rows, ROWS_AT_ONCE):
            await run_rows(transaction, dialect.create_edges[kind], {"corpus": corpus, "edges": some})

    await client.write(replace)


async def drop_corpus(client: BoltClient, corpus: str) -> None:
    """Remove everything of a corpus, tombstones and the note of its feeding too. Raises as `BoltClient.ping`."""
    dialect = await client.dialect()
    for statement in dialect.drop_corpus:
        count = 1
        while count:

            async def drop(transaction: AsyncManagedTransaction, statement: str = statement) -> int:
                rows = await run_rows(transaction, statement, {"corpus": corpus, "most": ROWS_AT_ONCE * 10})
                return int(rows[0]["count"])

            count = await client.write(drop)


async def _store(
    transaction: AsyncManagedTransaction, dialect: Dialect, corpus: str, group: Sequence[ServerDocument]
) -> Fed:
    rows = [_document_row(corpus, document) for document in group]
    said = await run_rows(transaction, dialect.merge_documents, {"corpus": corpus, "documents": rows})
    accepted = {row["id"] for row in said}
    touched = await _delete_edges(transaction, dialect, corpus, sorted(accepted))
    edges: defaultdict[EdgeKind, list[dict[str, Any]]] = defaultdict(list)
    for document in group:
        if document.document_id in accepted:
            for edge in document.edges:
                kind = EdgeKind(edge.type, edge.source.label, edge.target.label)
                edges[kind].append(_edge_row(corpus, document.document_id, edge))
    for kind, statement in dialect.create_edges.items():
        for some in portions(edges.get(kind, ()), ROWS_AT_ONCE):
            await run_rows(transaction, statement, {"corpus": corpus, "edges": some})
    await _delete_orphans(transaction, dialect, corpus, touched)
    return Fed(stored=len(accepted), outdated=_without([one.document_id for one in group], accepted))


async def _delete_edges(
    transaction: AsyncManagedTransaction, dialect: Dialect, corpus: str, owners: Sequence[str]
) -> set[Node]:
    """Take back what these documents said; the nodes that lost an edge by it."""
    touched: set[Node] = set()
    if owners:
        for statement in dialect.delete_edges:
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


def _is_storable(dialect: Dialect, edge: Edge) -> bool:
    is_known = EdgeKind(edge.type, edge.source.label, edge.target.label) in dialect.create_edges
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


def _document_row(corpus: str, document: ServerDocument) -> dict[str, Any]:
    properties = {
        "corpus": corpus,
        "id": document.document_id,
        "as_of": document.as_of,
        "sha256": document.sha256,
        "path": document.path,
        "url": document.url,
        "title": document.title,
        "language": document.language,
        "updated_at": document.updated_at,
        "content_hash": document.content_hash,
        "embedding_version": document.embedding_version,
        "embedding": list(document.embedding) if document.embedding else None,
    }
    return {
        "id": document.document_id,
        "as_of": document.as_of,
        "properties": {name: value for name, value in properties.items() if value is not None},
    }


def _edge_row(corpus: str, owner: str, edge: Edge) -> dict[str, Any]:
    properties = {
        "corpus": corpus,
        "owner": owner,
        "origin": edge.origin.value,
        "lines": list(edge.lines),
        "detail": edge.detail,
        **({"line": edge.lines[0]} if edge.lines else {}),
    }
    return {**_ends(edge.source, edge.target), "properties": properties}


def _ends(source: Node, target: Node) -> dict[str, Any]:
    return {
        "source": source.key,
        "target": target.key,
        "source_named": named(source),
        "target_named": named(target),
    }


def named(node: Node) -> dict[str, str]:
    """What the id of a node that stands for a name says, by property."""
    match node.label:
        case NodeLabel.SYMBOL:
            language, _, qualified = node.key.partition(":")
            name = qualified.rpartition(".")[2] or qualified
            return {"name": name, "qualified_name": qualified, "language": language}
        case NodeLabel.URL:
            return {"url": node.key}
        case NodeLabel.TOOL:
            server, _, name = node.key.rpartition("/")
            return {"name": name, "server": server}
        case _:
            return {}
