"""Brings a graph server up to the ledger's rows of the graph, by sending what differs.

The server records for each corpus up to where it was fed. If that is not where the ledger is, the hashes of all its
documents are compared with the ledger's, and only what differs is sent: so a server that was away, empty, restored from
a backup or fed by two workers at once comes out the same, and the next pass continues one that was cut short.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sluice.graph.servers.client import portions
from sluice.graph.servers.feed import Fed, Feed, ServerDocument

if TYPE_CHECKING:
    from sluice.contracts.graph.model import CitationRow
    from sluice.graph.servers.server import GraphServer
    from sluice.ledger.graph.reading import FullRow
    from sluice.ledger.graph.rows import Standing, Totals
    from sluice.ledger.graph.store import Graphs
    from sluice.workers.wiring.corpora import Reader

DOCUMENTS_AT_ONCE = 200
"""Documents read from ledger and index and sent at once: some megabytes with their vectors."""


class FedServer(NamedTuple):
    """Result of one pass."""

    totals: Totals
    """The ledger's totals when the pass began."""
    fed: Fed
    is_level: bool
    """Whether the server holds everything in `totals`."""


class _Ledger(NamedTuple):
    totals: Totals
    standing: Mapping[str, Standing]
    citations: Sequence[CitationRow]


def feed_server(
    corpus: str,
    server: GraphServer,
    graph: Graphs,
    reader: Reader,
    *,
    seconds: float,
    clock: Callable[[], float] = time.monotonic,
    before_portion: Callable[[], None] = lambda: None,
) -> FedServer:
    """Send the server what it lacks of a corpus, for about as long as `seconds`.

    `before_portion` is called before each portion of some hundred documents. Raises what `GraphServer` does, and
    `Unavailable` where the ledger or the index does not answer.
    """
    until = clock() + seconds
    model = reader.model_fingerprint
    ours = _read(graph, corpus)
    dimension = _dimension(ours.standing, reader)
    schema = server.prepare(dimension)
    if schema.dimension not in (None, dimension):
        model = None  # the vector index takes none of these vectors
    citations = _citations_sha256(ours.citations)
    wanted = Feed(ours.totals.version, ours.totals.sha256, model, citations, schema.dimension)
    known = server.read_feed(corpus)
    if known == wanted:
        return FedServer(ours.totals, Fed(), is_level=True)
    changed, gone = _differences(ours, server.standing(corpus), model)
    fed = Fed()
    for portion in [*portions(gone, DOCUMENTS_AT_ONCE), *portions(changed, DOCUMENTS_AT_ONCE)]:
        before_portion()
        if clock() >= until:
            return FedServer(ours.totals, fed, is_level=False)
        fed = fed.plus(_send(corpus, portion, server, graph, reader, model, ours.totals.as_of))
    if fed.outdated and graph.totals(corpus) == ours.totals:  # the server is ahead: the index was set back
        server.lower_fences(corpus, fed.outdated)
        for portion in portions(fed.outdated, DOCUMENTS_AT_ONCE):
            fed = fed.plus(_send(corpus, portion, server, graph, reader, model, ours.totals.as_of))
    if known is None or known.citations_sha256 != wanted.citations_sha256:
        server.write_citations(corpus, ours.citations)
    server.write_feed(corpus, wanted)
    return FedServer(ours.totals, fed, is_level=True)


def mean_vector(vectors: np.ndarray[tuple[int, ...], np.dtype[np.float32]] | None) -> tuple[float, ...] | None:
    """Return a document's vector: the mean of its chunks' (n, d), of length 1; None if the mean has no direction.

    The mean and not the first chunk's, so that a document is also found by what stands in its midst.
    """
    if vectors is None or not len(vectors):
        return None
    mean = vectors.mean(axis=0, dtype=np.float64)
    length = float(np.linalg.norm(mean))
    return tuple((mean / length).tolist()) if length > 0 else None


def _read(graph: Graphs, corpus: str) -> _Ledger:
    with graph.snapshot(corpus) as snapshot:
        standing = {row.document_id: row for row in snapshot.standing()}
        return _Ledger(snapshot.totals, standing, tuple(snapshot.citations()))


def _differences(
    ours: _Ledger, theirs: Mapping[str, tuple[str | None, str | None]], model: str | None
) -> tuple[list[str], list[str]]:
    """Return the documents that the server lacks or holds otherwise, and those that only the server holds."""
    live = {name: row for name, row in ours.standing.items() if not row.is_tombstone}
    changed = [name for name, row in live.items() if theirs.get(name) != (row.sha256, model)]
    return changed, sorted(theirs.keys() - live.keys())


def _send(
    corpus: str,
    document_ids: Sequence[str],
    server: GraphServer,
    graph: Graphs,
    reader: Reader,
    model: str | None,
    as_of: int,
) -> Fed:
    """Make the server hold these documents as the ledger does now. `as_of` is of those without a row."""
    rows = {row.standing.document_id: row for row in graph.rows_of(corpus, document_ids)}
    live = [_document(row, reader, model) for row in rows.values() if not row.standing.is_tombstone]
    gone = {
        name: rows[name].standing.as_of if name in rows else as_of
        for name in document_ids
        if name not in rows or rows[name].standing.is_tombstone
    }
    fed = server.remove(corpus, gone) if gone else Fed()
    return fed.plus(server.upsert(corpus, live)) if live else fed


def _document(row: FullRow, reader: Reader, model: str | None) -> ServerDocument:
    known = row.standing
    facts = reader.document(known.document_id)
    return ServerDocument(
        document_id=known.document_id,
        as_of=known.as_of,
        sha256=known.sha256,
        path=known.identity.path,
        url=known.identity.url,
        title=known.identity.title,
        language=facts.language if facts else None,
        content_hash=known.identity.content_sha256,
        updated_at=datetime.fromtimestamp(row.updated_at, UTC).isoformat(),
        edges=row.edges,
        embedding_version=model,
        embedding=mean_vector(reader.vectors(known.document_id)) if model else None,
    )


def _dimension(standing: Mapping[str, Standing], reader: Reader) -> int | None:
    """Return the dimension of the corpus's vectors, from the first document that has any."""
    for name, row in standing.items():
        vectors = None if row.is_tombstone else reader.vectors(name)
        if vectors is not None and len(vectors):
            return int(vectors.shape[1])
    return None


def _citations_sha256(citations: Sequence[CitationRow]) -> str:
    pairs = sorted((one.document_id, one.conversation, one.lines) for one in citations)
    return hashlib.sha256(repr(pairs).encode()).hexdigest()
