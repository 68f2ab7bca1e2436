"""Up to where a server was fed, and the rows that it is fed with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from sluice.contracts.graph.model import CitationRow, Edge, EdgeType, Node, NodeLabel, Origin
from sluice.graph.schema import named
from sluice.graph.servers.client import ROWS_AT_ONCE, BoltClient, dicts, portions, run_rows
from sluice.graph.servers.statements import (
    CREATE_EDGES,
    DELETE_CITATIONS,
    DROP_CORPUS,
    LOWER_FENCES,
    READ_FEED,
    STANDING,
    WRITE_FEED,
    EdgeKind,
)

if TYPE_CHECKING:
    from neo4j import AsyncManagedTransaction


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


def document_row(corpus: str, document: ServerDocument) -> dict[str, Any]:
    """A document of `MERGE_DOCUMENTS`."""
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


def edge_row(corpus: str, owner: str, edge: Edge) -> dict[str, Any]:
    """An edge of `CREATE_EDGES`."""
    properties = {
        "corpus": corpus,
        "owner": owner,
        "origin": edge.origin.value,
        "lines": list(edge.lines),
        "detail": edge.detail,
        **({"line": edge.lines[0]} if edge.lines else {}),
    }
    return {**ends(edge.source, edge.target), "properties": properties}


def ends(source: Node, target: Node) -> dict[str, Any]:
    """Between which nodes an edge is, and what their ids say."""
    return {
        "source": source.key,
        "target": target.key,
        "source_named": named(source),
        "target_named": named(target),
    }


STANDING_PAGE = 5_000


class Feed(NamedTuple):
    """Up to where a corpus was fed: the ledger's count of changes, its hash of the whole graph, the vectors' model."""

    version: int
    sha256: str
    embedding_version: str | None = None
    citations_sha256: str | None = None
    """Of the citations, which are no part of the graph's hash."""
    dimension: int | None = None
    """Of the server's vector index."""


async def read_feed(client: BoltClient, corpus: str) -> Feed | None:
    """Up to where the server says that the corpus was fed; None: never. Raises as `BoltClient.ping`."""
    found = dicts(await client.read(READ_FEED, {"corpus": corpus}, 1))
    return Feed(**found[0]) if found else None


async def write_feed(client: BoltClient, corpus: str, feed: Feed) -> None:
    """Say up to where the corpus was fed. Raises as `BoltClient.ping`."""

    async def note(transaction: AsyncManagedTransaction) -> None:
        await run_rows(transaction, WRITE_FEED, {"corpus": corpus, **feed._asdict()})

    await client.write(note)


async def read_standing(client: BoltClient, corpus: str) -> dict[str, tuple[str | None, str | None]]:
    """The hash of the row and the embedding's model of every document that the server has of a corpus."""
    standing: dict[str, tuple[str | None, str | None]] = {}
    after = ""
    while True:
        asked = {"corpus": corpus, "after": after, "most": STANDING_PAGE}
        page = dicts(await client.read(STANDING, asked, STANDING_PAGE))
        standing |= {row["id"]: (row["sha256"], row["embedding_version"]) for row in page}
        if len(page) < STANDING_PAGE:
            return standing
        after = page[-1]["id"]


async def lower_fences(client: BoltClient, corpus: str, ids: Sequence[str]) -> None:
    """Let documents be written as of any offset: for a ledger whose index was set back. Raises as `BoltClient.ping`."""
    for some in portions(ids, ROWS_AT_ONCE):

        async def lower(transaction: AsyncManagedTransaction, some: list[str] = some) -> None:
            for statement in LOWER_FENCES:
                await run_rows(transaction, statement, {"corpus": corpus, "ids": some})

        await client.write(lower)


async def write_citations(client: BoltClient, corpus: str, citations: Sequence[CitationRow]) -> None:
    """Have the corpus cited by these and no others. Raises as `BoltClient.ping`."""
    kind = EdgeKind(EdgeType.CITED_BY, NodeLabel.DOCUMENT, NodeLabel.CONVERSATION)
    rows = [
        {
            **ends(Node(kind.source, one.document_id), Node(kind.target, one.conversation)),
            "properties": {"corpus": corpus, "origin": Origin.RUN.value, "lines": list(one.lines), "detail": ""},
        }
        for one in citations
    ]

    async def replace(transaction: AsyncManagedTransaction) -> None:
        await run_rows(transaction, DELETE_CITATIONS, {"corpus": corpus})
        for some in portions(rows, ROWS_AT_ONCE):
            await run_rows(transaction, CREATE_EDGES[kind], {"corpus": corpus, "edges": some})

    await client.write(replace)


async def drop_corpus(client: BoltClient, corpus: str) -> None:
    """Remove everything of a corpus, tombstones and the note of its feeding too. Raises as `BoltClient.ping`."""
    for statement in DROP_CORPUS:
        count = 1
        while count:

            async def drop(transaction: AsyncManagedTransaction, statement: str = statement) -> int:
                rows = await run_rows(transaction, statement, {"corpus": corpus, "most": ROWS_AT_ONCE * 10})
                return int(rows[0]["count"])

            count = await client.write(drop)
