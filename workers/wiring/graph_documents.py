"""Documents of an index at one moment, what each states, the lag of a corpus's graph behind them, and a graph server's.

A graph server is brought up to the ledger's rows of the graph by sending what differs. It records for each corpus up to
where it was fed. If that is not where the ledger is, the hashes of all its documents are compared with the ledger's,
and only what differs is sent: so a server that was away, empty, restored from a backup or fed by two workers at once
comes out the same, and the next pass continues one that was cut short.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np
import structlog
from pydantic_core import to_json

from sluice.contracts.document import Chunk, DocumentFacts, sha256_text
from sluice.contracts.errors import Corrupted
from sluice.contracts.event import Gap
from sluice.contracts.graph.model import CitationRow, GraphDocument
from sluice.contracts.trust import Verdict
from sluice.graph.extract.extract import extract_edges, parser_version
from sluice.graph.generations.publish import Generation, current, open_generation
from sluice.graph.servers.client import portions
from sluice.graph.servers.server import GraphServer
from sluice.graph.servers.statements import Fed, Feed, ServerDocument
from sluice.index.local.reader import IndexReader
from sluice.index.search.passages import join_chunks
from sluice.ledger.graph.reading import FullRow, GraphRow, Identity, Standing, Totals
from sluice.ledger.graph.store import Change, Graphs
from sluice.workers.wiring.corpora import Reader

log = structlog.get_logger(__name__)


class IndexedDocuments:
    """The documents of an index at one moment, and what each of them states."""

    def __init__(self, reader: Reader, journal_offset: int = 0) -> None:
        """Raises `Unavailable` where the index does not cover the offset in time."""
        if isinstance(reader, IndexReader):
            reader.reload()
            reader = reader.pin(journal_offset)
        else:
            reader.chunks("", journal_offset)  # waits until it is covered
        self._reader = reader
        # Taken before anything is read: an engine whose views cannot be held may return later documents than this.
        self.as_of = reader.journal_offset
        self._model = reader.model_fingerprint
        self.gaps: list[Gap] = []

    def change_of(self, standing: dict[str, Standing], document_ids: Iterable[str]) -> Change:
        """Return the change from the graph's rows, as `standing` has them, to the index's state of these documents."""
        replace, keep, remove = [], {}, []
        wanted = tuple(dict.fromkeys(document_ids))
        indexed = self._reader.documents(wanted)
        for document_id in wanted:
            facts, known = indexed.get(document_id), standing.get(document_id)
            if facts is None:
                remove.append(document_id)
                continue
            identity = identity_of(facts, self._model)
            if known is not None and not known.is_tombstone and known.identity == identity:
                keep[document_id] = identity
            else:
                replace.append(self.row_of(facts, identity))
        return Change(self.as_of, replace, keep, remove)

    def identities(self) -> Iterator[tuple[str, Identity]]:
        """Yield every document of the index, and the identity of its row."""
        for facts in self._reader.all_facts():
            yield facts.document_id, identity_of(facts, self._model)

    def rows(self) -> Iterator[GraphRow]:
        """Yield the row of every document of the index, read anew."""
        for facts in self._reader.all_facts():
            yield self.row_of(facts, identity_of(facts, self._model))

    def row_of(self, facts: DocumentFacts, identity: Identity) -> GraphRow:
        """Return a document's row with all that it states; if the parser fails, return it empty and add a gap."""
        document = graph_document(facts, list(self._reader.chunks(facts.document_id)))
        try:
            return GraphRow(facts.document_id, identity, extract_edges(document))
        except Exception as error:
            log.error("document_unread", document_id=facts.document_id, error=repr(error), exc_info=error)
            self.gaps.append(
                Gap(stage="graph", subject=facts.document_id, reason="unread", detail=f"it has no edges: {error!r}")
            )
            return GraphRow(facts.document_id, identity, ())


def graph_document(facts: DocumentFacts, chunks: Sequence[Chunk]) -> GraphDocument:
    """Return a document of the index as the graph reads it, without parts that are not served."""
    served = [chunk for chunk in chunks if not chunk.inspection or chunk.inspection.verdict is not Verdict.BLOCKED]
    return GraphDocument(
        document_id=facts.document_id,
        path=facts.file_path,
        url=facts.url,
        title=facts.title,
        language=facts.language,
        text=join_chunks(chunks).text,
        metadata=facts.metadata,
        links=tuple(dict.fromkeys(link for chunk in served for link in chunk.links)),
    )


def identity_of(facts: DocumentFacts, model: str | None) -> Identity:
    """Return the identity by which a row of these facts is recognised. `model` is that of the corpus's vectors."""
    else_read = (facts.inspection_sha256, facts.language, sorted(facts.metadata.items()))
    return Identity(
        content_sha256=facts.checksum,
        facts_sha256=sha256_text(to_json(else_read).decode()),
        parser_version=parser_version(),
        path=facts.file_path,
        url=facts.url,
        title=facts.title,
        embedding_version=model,
    )


class GraphLag(NamedTuple):
    """Differences between the graph of a corpus and its index."""

    document_ids: Sequence[str]
    """Documents that differ between the graph and the index, or that only one of them has."""
    journal_offset: int
    """Offset of the index that was compared."""
    totals: Totals
    is_ahead: bool
    """Whether the graph was read from a later index, which was then rolled back or restored from a copy."""
    generation: Generation | None
    """The published generation; None if there is none, or its manifest is damaged."""
    problem: str | None = None
    """Defect of the published generation."""

    @property
    def unpublished(self) -> int:
        """Changes that are not published yet; -1 if the published graph is another than the ledger's."""
        if self.generation is None:
            return self.totals.version
        return max(-1, self.totals.version - self.generation.version)

    @property
    def is_there(self) -> bool:
        """Whether documents are to be read, or a generation published."""
        return bool(self.document_ids) or self.unpublished != 0

    @property
    def digest(self) -> str:
        """Hash that identifies the lag."""
        told = "\n".join((f"{self.journal_offset} {self.totals.version} {self.unpublished}", *self.document_ids))
        return hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest()


def measure_lag(corpus: str, reader: Reader, graph: Graphs, folder: Path) -> GraphLag:
    """Compare every document of the index with the graph's rows by their identities; no text is read."""
    read_up_to = graph.totals(corpus).as_of
    indexed = IndexedDocuments(reader)
    with graph.snapshot(corpus) as rows:
        totals = rows.totals
        known = {one.document_id: one.identity for one in rows.standing() if not one.is_tombstone}
    lacking = [name for name, identity in indexed.identities() if known.pop(name, None) != identity]
    generation, problem = published_in(folder, whole=True)
    return GraphLag((*lacking, *known), indexed.as_of, totals, read_up_to > indexed.as_of, generation, problem)


def published_in(folder: Path, *, whole: bool = False) -> tuple[Generation | None, str | None]:
    """Return the current generation of a folder, and its defect. `whole`: its file is read as well."""
    try:
        generation = current(folder)
        if generation is not None and whole:
            open_generation(folder, generation)
    except Corrupted as error:
        return None, str(error)
    return generation, None


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
    with graph.snapshot(corpus) as snapshot:
        standing = {row.document_id: row for row in snapshot.standing()}
        ours = _Ledger(snapshot.totals, standing, tuple(snapshot.citations()))
    dimension = _dimension(ours.standing, reader)
    schema = server.prepare(dimension)
    if schema.dimension not in (None, dimension):
        model = None  # the vector index takes none of these vectors
    pairs = sorted((one.document_id, one.conversation, one.lines) for one in ours.citations)
    citations = hashlib.sha256(repr(pairs).encode()).hexdigest()
    wanted = Feed(ours.totals.version, ours.totals.sha256, model, citations, schema.dimension)
    known = server.read_feed(corpus)
    if known == wanted:
        return FedServer(ours.totals, Fed(), is_level=True)
    theirs, live = server.standing(corpus), {name: row for name, row in standing.items() if not row.is_tombstone}
    changed = [name for name, row in live.items() if theirs.get(name) != (row.sha256, model)]
    gone = sorted(theirs.keys() - live.keys())
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
