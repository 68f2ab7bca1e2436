"""Documents of an index at one moment, what each states, and the lag of a corpus's graph behind them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import structlog
from pydantic_core import to_json

from sluice.contracts.document import Chunk, DocumentFacts, sha256_text
from sluice.contracts.errors import Corrupted
from sluice.contracts.event import Gap
from sluice.contracts.graph.model import GraphDocument
from sluice.contracts.trust import Verdict
from sluice.graph.extract.extract import extract_edges, parser_version
from sluice.graph.generations.publish import Generation, current, open_generation
from sluice.index.local.reader import IndexReader
from sluice.index.search.passages import join_chunks
from sluice.ledger.graph.changes import Change
from sluice.ledger.graph.rows import GraphRow, Identity, Standing, Totals

if TYPE_CHECKING:
    from sluice.ledger.graph.store import Graphs
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
