"""A Neo4j or Memgraph, kept up to date beside the files: its schema, its data, and searches in it.

A document's edges are deleted by their owner and made anew, each document in one transaction, so feeding it twice
changes nothing. Each document carries `as_of`, the journal offset of the index from which it was read; older data
changes nothing either, and does not bring back a document that left later.

The text of a document is not copied: after a request to forget it, copies would stay in the server's own transaction
logs and backups, which are out of reach from here. Its id leads to the text. So a server has no tf-idf score, by which
the decision record orders equal similarities; they are ordered by id. Words are searched by the index.
"""

from __future__ import annotations

import math
import threading
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import structlog

from sluice.contracts.errors import Unavailable
from sluice.contracts.graph.api import NearDocument, NearestDocuments, NearLink
from sluice.contracts.graph.model import CitationRow, Edge, EdgeType, Node, NodeLabel, Origin
from sluice.graph.servers.client import ROWS_AT_ONCE, BoltClient, CheckAddress, Rows, dicts, portions, run_rows
from sluice.graph.servers.statements import (
    NAMED,
    VECTOR_INDEX,
    Dialect,
    EdgeKind,
    Fed,
    Feed,
    ServerDocument,
    create_edges,
    delete_edges,
    document_row,
    edge_row,
    ends,
    statement,
    statements,
)
from sluice.graph.settings import GraphSettings

if TYPE_CHECKING:
    from neo4j import AsyncManagedTransaction

log = structlog.get_logger(__name__)

MOST_EDGES = 5_000
"""Edges of one transaction's documents, unless a single one has more: some megabytes, and a second or so."""
MOST_DOCUMENTS = 200
MOST_KEY_BYTES = 4_000
"""Limit of a node's id: Neo4j's indexes take some 8 kB for all properties together, and refuse a transaction beyond."""
STANDING_PAGE = 5_000
DEEPER = 4
"""Candidates of the vector index for each result: it spans all corpora, so others' documents are among them."""
MOST_LINKED = 20
_MOST_INDEXES = 100


class SchemaReport(NamedTuple):
    """Result of preparing the schema."""

    dimension: int | None
    """Dimension of the server's vector index; None where it has none."""
    refused: tuple[str, ...] = ()
    """The server's errors on refused statements."""


class GraphServer(BoltClient):
    """A Neo4j or Memgraph. Safe for threads; connects at its first use.

    Every method raises `TimedOut` or `Unavailable` where the server does not answer, `InvalidSetting` where it refuses
    the user or the driver is not installed, and `PolicyRefused` where the rules of egress forbid to reach it.
    """

    def __init__(self, settings: GraphSettings, check_address: CheckAddress) -> None:
        """Raises `InvalidSetting` where the settings name no server. Nothing is opened yet."""
        super().__init__(settings, check_address)
        self._guard = threading.Lock()
        self._schema: SchemaReport | None = None

    def prepare(self, dimension: int | None) -> SchemaReport:
        """Make the missing constraints and indexes, once for this object, with a vector index for `dimension`.

        A vector index of that name with another dimension stays: only its owner drops an index.
        """
        with self._guard:
            if self._schema is None or (self._schema.dimension is None and dimension is not None):
                self._schema = self._prepare(dimension)
            return self._schema

    def upsert(self, corpus: str, documents: Sequence[ServerDocument]) -> Fed:
        """Store documents, in transactions of bounded size; data older than the server's changes nothing.

        Leaves out data that no index of a server takes: an edge with an id longer than `MOST_KEY_BYTES` at an end,
        which a warning reports, and a vector of another dimension than the vector index has.
        """
        dialect, fed = self.dialect(), Fed()
        width = self._schema.dimension if self._schema else None
        fitting = [one if _fits(one, width) else one._replace(embedding=None) for one in documents]
        kept = [one._replace(edges=tuple(edge for edge in one.edges if _is_storable(edge))) for one in fitting]
        left_out = sum(len(one.edges) for one in documents) - sum(len(one.edges) for one in kept)
        if left_out:
            log.warning("graph_server_edges_left_out", corpus=corpus, edges=left_out, most_key_bytes=MOST_KEY_BYTES)
        for group in _groups(kept):
            fed = fed.plus(self.write(partial(_store, dialect=dialect, corpus=corpus, group=group)))
        return fed

    def remove(self, corpus: str, removed: Mapping[str, int]) -> Fed:
        """Remove documents with their edges, each as of a journal offset. Only ids stay, as tombstones."""
        dialect, fed = self.dialect(), Fed()
        for group in portions(removed.items(), ROWS_AT_ONCE):
            fed = fed.plus(self.write(partial(_take_out, dialect=dialect, corpus=corpus, group=group)))
        return fed

    def read_feed(self, corpus: str) -> Feed | None:
        """Return the state up to which the corpus was fed; None: never."""
        found = dicts(self.read(statement("read_feed"), {"corpus": corpus}, 1))
        return Feed(**found[0]) if found else None

    def write_feed(self, corpus: str, feed: Feed) -> None:
        """Record the state up to which the corpus was fed."""
        self.write_all((statement("write_feed"), {"corpus": corpus, **feed._asdict()}))

    def lower_fences(self, corpus: str, ids: Sequence[str]) -> None:
        """Let documents be written as of any offset: for a ledger whose index was set back."""
        for some in portions(ids, ROWS_AT_ONCE):
            self.write_all(*((text, {"corpus": corpus, "ids": some}) for text in statements("lower_fences")))

    def write_citations(self, corpus: str, citations: Sequence[CitationRow]) -> None:
        """Replace the corpus's citations by these."""
        kind = EdgeKind(EdgeType.CITED_BY, NodeLabel.DOCUMENT, NodeLabel.CONVERSATION)
        rows = [
            {
                **ends(Node(kind.source, one.document_id), Node(kind.target, one.conversation)),
                "properties": {"corpus": corpus, "origin": Origin.RUN.value, "lines": list(one.lines), "detail": ""},
            }
            for one in citations
        ]
        created = ((create_edges()[kind], {"corpus": corpus, "edges": some}) for some in portions(rows, ROWS_AT_ONCE))
        self.write_all((statement("delete_citations"), {"corpus": corpus}), *created)

    def standing(self, corpus: str) -> dict[str, tuple[str | None, str | None]]:
        """Return the hash of the row and the embedding's model of every document of the corpus."""
        standing: dict[str, tuple[str | None, str | None]] = {}
        after = ""
        while True:
            wanted = {"corpus": corpus, "after": after, "most": STANDING_PAGE}
            page = dicts(self.read(statement("standing"), wanted, STANDING_PAGE))
            standing |= {row["id"]: (row["sha256"], row["embedding_version"]) for row in page}
            if len(page) < STANDING_PAGE:
                return standing
            after = page[-1]["id"]

    def drop_corpus(self, corpus: str) -> None:
        """Remove everything of a corpus, including its tombstones and the record of its feeding."""
        for text in statements("drop_corpus"):
            while self.write_all((text, {"corpus": corpus, "most": ROWS_AT_ONCE * 10}))[0]["count"]:
                pass

    def retrieve(self, corpus: str, embedding: Sequence[float], embedding_version: str, limit: int) -> NearestDocuments:
        """Return the `limit` documents of a corpus with the highest cosine to `embedding` (d,), and their linked ones.

        Only vectors of the same model count. Where the vector index finds fewer, because it is missing, takes vectors
        of another dimension or is full of other corpora, every vector of the corpus is compared.
        """
        dialect = self.dialect()
        wanted = {
            "corpus": corpus,
            "embedding": list(map(float, embedding)),
            "embedding_version": embedding_version,
            "most": limit,
        }
        found: list[dict[str, Any]] = []
        try:
            found = dicts(self.read(dialect.nearest, {**wanted, "candidates": limit * DEEPER}, limit))
        except Unavailable:
            self.ping()  # raises if the server is away; else only this index is missing
        by_index = len(found) >= limit
        if not by_index:
            found = dicts(self.read(dialect.nearest_exactly, wanted, limit))
        linked = self._linked(corpus, [row["id"] for row in found])
        near = tuple(NearDocument(document_id=row.pop("id"), **row) for row in found)
        return NearestDocuments(documents=near, linked=linked, by_vector_index=by_index)

    def query(self, text: str, parameters: Mapping[str, Any], limit: int, timeout_seconds: float) -> Rows:
        """Return the rows of a Cypher query as JSON, nodes and edges as objects of properties other than `embedding`.

        `text` has passed the guard, which lets no write through and puts the corpus into every pattern. It is sent in
        READ access mode, in a transaction that is rolled back: a hint and a remedy, not the guard itself. Raises
        `InvalidInput` where the server rejects the statement.
        """
        rows = self.read(text, parameters, limit, timeout_seconds, whose="query")
        return rows._replace(rows=tuple(tuple(map(plain, row)) for row in rows.rows))

    def _linked(self, corpus: str, document_ids: Sequence[str]) -> tuple[NearLink, ...]:
        """Return the documents to which these refer or link, those that share most names first."""
        if not document_ids:
            return ()
        wanted = {"corpus": corpus, "ids": list(document_ids), "most": MOST_LINKED}
        return tuple(
            NearLink(from_document_id=row.pop("near_id"), document_id=row.pop("id"), **row)
            for row in dicts(self.read(statement("linked"), wanted, MOST_LINKED))
        )

    def _prepare(self, dimension: int | None) -> SchemaReport:
        self.ping()
        dialect = self.dialect()
        refused = [problem for text in dialect.schema if (problem := self._refusal(text))]
        found = self._index_dimension(dialect.vector_index_info)
        if found is None and dimension is not None:
            problems = []
            for way in dialect.vector_index:
                problem = self._refusal(way.replace("<dimension>", str(int(dimension))))
                if problem is None:
                    break
                problems.append(problem)
            found = self._index_dimension(dialect.vector_index_info)
            refused += problems if found is None else []
        if refused:
            log.warning("graph_server_schema_incomplete", server=self.place, refused=refused)
        return SchemaReport(found, tuple(refused))

    def _refusal(self, text: str) -> str | None:
        """Run a statement of the schema; return the server's objection, if any. An existing object is none."""
        try:
            self.command(text)
        except Unavailable as error:
            self.ping()  # raises if the server is away; else it rejects the statement
            told = str(error)
            return None if "already exist" in told.lower() or "equivalent" in told.lower() else told
        return None

    def _index_dimension(self, info: str) -> int | None:
        try:
            rows = dicts(self.read(info, {}, _MOST_INDEXES))
        except Unavailable:
            self.ping()
            return None
        return next((int(row["dimension"]) for row in rows if row["name"] == VECTOR_INDEX), None)


def _fits(document: ServerDocument, dimension: int | None) -> bool:
    return document.embedding is None or dimension is None or len(document.embedding) == dimension


async def _take_out(
    transaction: AsyncManagedTransaction, dialect: Dialect, corpus: str, group: Sequence[tuple[str, int]]
) -> Fed:
    rows = [{"id": document_id, "as_of": as_of} for document_id, as_of in group]
    said = await run_rows(transaction, statement("remove_documents"), {"corpus": corpus, "documents": rows})
    ids = [row["id"] for row in said]
    touched = await _delete_edges(transaction, corpus, ids)
    await run_rows(transaction, statement("delete_documents"), {"corpus": corpus, "ids": ids})
    await _delete_orphans(transaction, dialect, corpus, touched)
    return Fed(removed=len(ids), outdated=_without([document_id for document_id, _ in group], ids))


async def _store(
    transaction: AsyncManagedTransaction, dialect: Dialect, corpus: str, group: Sequence[ServerDocument]
) -> Fed:
    rows = [document_row(corpus, document) for document in group]
    said = await run_rows(transaction, statement("merge_documents"), {"corpus": corpus, "documents": rows})
    accepted = {row["id"] for row in said}
    touched = await _delete_edges(transaction, corpus, sorted(accepted))
    edges: defaultdict[EdgeKind, list[dict[str, Any]]] = defaultdict(list)
    for document in group:
        if document.document_id in accepted:
            for edge in document.edges:
                kind = EdgeKind(edge.type, edge.source.label, edge.target.label)
                edges[kind].append(edge_row(corpus, document.document_id, edge))
    for kind, text in create_edges().items():
        for some in portions(edges.get(kind, ()), ROWS_AT_ONCE):
            await run_rows(transaction, text, {"corpus": corpus, "edges": some})
    await _delete_orphans(transaction, dialect, corpus, touched)
    return Fed(stored=len(accepted), outdated=_without([one.document_id for one in group], accepted))


async def _delete_edges(transaction: AsyncManagedTransaction, corpus: str, owners: Sequence[str]) -> set[Node]:
    """Delete these documents' edges; return the nodes that lost one."""
    touched: set[Node] = set()
    if owners:
        for text in delete_edges():
            rows = await run_rows(transaction, text, {"corpus": corpus, "owners": list(owners)})
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
    is_known = EdgeKind(edge.type, edge.source.label, edge.target.label) in create_edges()
    return is_known and all(
        len(end.key.encode(errors="replace")) <= MOST_KEY_BYTES for end in (edge.source, edge.target)
    )


def _without(ids: Iterable[str], accepted: Collection[str]) -> tuple[str, ...]:
    return tuple(one for one in ids if one not in accepted)


def _groups(documents: Sequence[ServerDocument]) -> Iterator[list[ServerDocument]]:
    """Yield the documents in their order, in groups that fit a transaction."""
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


def plain(value: Any) -> Any:
    """Convert a value of the driver to JSON."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if hasattr(value, "nodes") and hasattr(value, "relationships"):
        return {"nodes": [plain(one) for one in value.nodes], "edges": [plain(one) for one in value.relationships]}
    if hasattr(value, "element_id"):  # a node or an edge
        shown = {name: plain(one) for name, one in value.items() if name != "embedding"}
        return shown | ({"label": next(iter(value.labels), "")} if hasattr(value, "labels") else {"type": value.type})
    if isinstance(value, Mapping):
        return {str(name): plain(one) for name, one in value.items()}
    if hasattr(value, "iso_format"):
        return value.iso_format()
    return str(value)
