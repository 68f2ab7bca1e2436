"""Handlers of the index: they inspect, embed and append chunks, remove documents and publish generations.

A submission never replaces a document that others brought. The one process that writes the corpus checks this right
before it writes, so that nothing comes in between. The rules of handlers stand in `workers.handlers`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from sluice.contracts import ingest
from sluice.contracts.document import ChunkBatch, ChunkedDocument, DocumentFacts, document_id_for
from sluice.contracts.event import Done, Event, Gap, Next, Outcome, Retry
from sluice.contracts.index import DocumentIndexed, SnapshotPublished
from sluice.contracts.operations.forget import ForgottenKind
from sluice.index.journal.records import Vectors
from sluice.index.search.filters import selector
from sluice.ledger.known_pages import PageMemory
from sluice.ledger.ledger import Ledger
from sluice.otel import metrics
from sluice.otel.context import span
from sluice.trust.source_trust import refusal_to_replace, source_trust_of, submission_id_for
from sluice.workers.graph_handlers import erase_from_graph
from sluice.workers.page_handlers import Pages, first_crawled_at
from sluice.workers.runtime.blob_store import BlobStore
from sluice.workers.runtime.claims import check_cancelled
from sluice.workers.runtime.negative_list import batch_without_forgotten, refused_documents
from sluice.workers.runtime.observers import utc_now
from sluice.workers.settings import Settings
from sluice.workers.steps.answer import tell_stale_answers
from sluice.workers.steps.embed import ChunkEmbedder, load_chunks
from sluice.workers.steps.inspect import Inspection
from sluice.workers.transfer import Artefacts, artefacts_with
from sluice.workers.wiring.corpora import Corpora, CorpusWriters, Writer
from sluice.workers.wiring.graphs import GraphArms, graph_directives
from sluice.workers.wiring.index_owner import IndexOwner

BACKED_UP = Retry(5.0, "a backup is being taken, and forgetting would remove what it is to hold", counts=False)
STILL_OPEN_SECONDS = 0.5
"""Pause before the next look for open events of forgotten documents; an event takes about as long."""


def on_document_chunked(event: Event, inspection: Inspection, embedder: ChunkEmbedder) -> Outcome:
    """Inspect a batch, and embed the first portion of what passes. A chunk is held once; a second run costs little.

    A page that is to be shown is recorded as it was inspected; whether it is embedded too, its purpose says.
    """
    chunked = event.body_as(ingest.DocumentChunked)
    inspected = inspection.inspect(chunked, event)
    if inspected.up_to is not None:
        following = ingest.DocumentChunked.of(inspected.batch, inspected.blob, chunked.purpose).model_copy(
            update={"inspected": inspected.up_to}
        )
        texts = () if chunked.purpose == "read" else inspected.batch.embedding_texts()
        return Done((embedder.following(following, texts, event),), inspected.gaps)
    read = () if chunked.purpose == "index" else tuple(_read(inspected.whole, embedder.blobs))
    if chunked.purpose == "read" or not inspected.batch.documents:
        return Done((*read, *inspected.removal), inspected.gaps)
    embedded = embedder.begin(inspected.batch, inspected.blob, event)
    return replace(embedded, emits=(*read, *embedded.emits, *inspected.removal), gaps=inspected.gaps)


def _read(batch: ChunkBatch, blobs: BlobStore) -> Iterator[Next]:
    """Yield the event of each page that was read to be shown."""
    for document in batch.documents:
        blob = blobs.put(ChunkBatch(documents=(document,)).model_dump_json().encode())
        yield Next(ingest.PageRead(url=document.source, document_id=document.document_id, page=blob))


def on_chunks_partly_embedded(event: Event, embedder: ChunkEmbedder) -> Outcome:
    """Embed the next chunks of a batch by the model of the earlier ones. Equal texts give equal vectors."""
    begun = event.body_as(ingest.ChunksPartlyEmbedded)
    return embedder.embed_next(begun, load_chunks(begun.chunks_blob, embedder.blobs), event)


def on_chunks_embedded(
    event: Event, writers: CorpusWriters, embedder: ChunkEmbedder, ledger: Ledger, page_memory: PageMemory
) -> Outcome:
    """Append to the journal, which takes an equal document version only once.

    A submission that may not replace the document with its id is left out, with a gap. If the corpus was given another
    model since the vectors were made, the embed stage makes them again. Vectors of the fallback's model go to the
    second index and are published at once; all else follows from the corpus's own.
    """
    embedded = event.body_as(ingest.ChunksEmbedded)
    batch, vectors = embedder.load(embedded)
    is_second = embedded.model_fingerprint == embedder.readers.fallback_model(event.corpus)
    with writers.both(event.corpus, begins=is_second) as (first, second):
        writer = second if is_second and second is not None else first
        if writer.model and writer.model[0] != embedded.model_fingerprint:
            return embedder.again(embedded, batch, event, writer.model[0])
        refusals = refused_documents(batch, event.corpus, ledger.forgotten)
        kept = [chunk.document_id not in refusals for document in batch.documents for chunk in document.chunks]
        batch, gaps = batch_without_forgotten(batch, "index", refusals)
        if not batch.documents:
            return Done(gaps=gaps)
        admitted = admit(batch, vectors[kept], writer)
        with span("append to the journal", attributes={"sluice.chunks": len(admitted.vectors)}):
            offset = writer.append(admitted.batch, admitted.vectors, embedded.model_fingerprint)
        if admitted.superseded:
            offset = max(offset, writer.remove(admitted.superseded))
        if is_second:
            writer.publish()
            return Done()
    checksums = {document.document_id: document.checksum for document in admitted.batch.documents}
    page_memory.confirm(event.corpus, checksums, run_id=event.run_id)
    ledger.uncheck_citations(event.corpus, admitted.superseded, offset)
    indexed = DocumentIndexed(
        document_ids=tuple(checksums),
        chunk_count=len(admitted.vectors),
        journal_offset=offset,
        crawled_at=first_crawled_at(admitted.batch),
    )
    return Done((Next(indexed),), (*gaps, *admitted.gaps))


def on_document_amended(event: Event, corpora: Corpora) -> Outcome:
    """Append a version with the changed metadata, with the passages and vectors of the one before. A second run finds
    them changed. What was appended and not published yet is published first, so that no version is lost."""
    amended = event.body_as(ingest.DocumentAmended)
    with corpora.writers.both(event.corpus) as both:
        for writer, readers in zip(both, (corpora.readers, corpora.readers.beside), strict=True):
            if writer is None or readers is None or amended.document_id not in writer.documents([amended.document_id]):
                continue
            reader = readers.reader(event.corpus).pin(writer.publish().journal_offset)
            facts, vectors = reader.document(amended.document_id), reader.vectors(amended.document_id)
            if facts is not None and vectors is not None and writer.model is not None:
                changed = facts.metadata | amended.metadata
                metadata = {name: value for name, value in changed.items() if value is not None}
                fields = dict(facts) | {"metadata": metadata, "chunks": reader.chunks(amended.document_id)}
                writer.append(ChunkBatch(documents=(ChunkedDocument(**fields),)), vectors, writer.model[0])
        offset = both[0].journal_offset
    indexed = DocumentIndexed(document_ids=(amended.document_id,), chunk_count=0, journal_offset=offset)
    return Done((Next(indexed),))


def on_forget_directed(event: Event, ledger: Ledger, corpora: Corpora, blobs: BlobStore, settings: Settings) -> Outcome:
    """Find the documents to forget, and direct their removal by ids, so that the events that follow may run twice."""
    if ledger.is_backed_up_now():
        return BACKED_UP
    directed = event.body_as(ingest.ForgetDirected)
    selection, is_written = directed.selection, corpora.readers.exists(event.corpus)
    found: list[DocumentFacts] = []
    if is_written:
        with corpora.writers.both(event.corpus) as both:  # a document may be in the second index alone
            is_meant = selector(selection, source_trust_of(settings.trust), utc_now())
            known = [writer.select(is_meant) for writer in both if writer]
        found = list({facts.document_id: facts for some in known for facts in some}.values())
    if directed.keep_out and selection.named is None:
        ledger.forgotten.add(event.corpus, entries_for(found), directed.operator, directed.note)
    ids = tuple(dict.fromkeys((*(facts.document_id for facts in found), *selection.document_ids)))
    held = ledger.quarantine.of(event.corpus, ids, selection)
    _remove_blobs(filter(None, held.values()), blobs)  # before the rows: a row that is left leads to its blob again
    ledger.quarantine.forget(held)
    parts = [ids[first : first + ingest.IDS_AT_ONCE] for first in range(0, len(ids), ingest.IDS_AT_ONCE)] or [()]
    if not is_written:
        return Done(tuple(Next(ingest.ErasureDirected(document_ids=part, selection=selection)) for part in parts))
    removed = (ingest.DocumentsRemoved(document_ids=part, erase=True, selection=selection) for part in parts)
    return Done(tuple(map(Next, removed)))


def on_erasure_directed(
    event: Event, ledger: Ledger, blobs: BlobStore, artefacts: Artefacts, settings: Settings
) -> Outcome:
    """Remove known pages, blobs and exports of forgotten documents once none of their events is open. May run twice."""
    if ledger.is_backed_up_now():
        return BACKED_UP
    directed = event.body_as(ingest.ErasureDirected)
    meant = event.corpus, directed.document_ids, directed.selection
    left = ledger.erasure.leftovers(*meant, check_cancelled)
    if left.open_events:
        return Retry(STILL_OPEN_SECONDS, "events of forgotten documents are still under way", counts=False)
    _remove_blobs(left.removable, blobs)
    ids, is_meant = frozenset(directed.document_ids), selector(directed.selection, source_trust_of(settings.trust))
    artefacts.remove_unfinished()
    for one in artefacts_with(artefacts, event.corpus, lambda one: one.document_id in ids or is_meant(one)):
        artefacts.remove(one)
    ledger.erasure.forget_pages(*meant)
    ledger.marks.forget(event.corpus, directed.document_ids)
    if not left.parked:
        return Done()
    why = f"{len(left.parked)} blobs of forgotten documents are kept, as dead letters need them"
    lift = "replay or purge the letters (`sluice dead list`), then forget once more"
    return Done(gaps=(Gap(stage="index", subject="blobs", reason="still_needed", detail=why, lifted_by=lift),))


def on_documents_removed(event: Event, writers: CorpusWriters, page_memory: PageMemory) -> Outcome:
    """Append tombstones to the journal. A second removal of the same ids changes nothing."""
    removed = event.body_as(ingest.DocumentsRemoved)
    ids = removed.document_ids
    offset = writers.remove(event.corpus, ids)
    indexed = DocumentIndexed(document_ids=ids, chunk_count=0, journal_offset=offset, erase=removed.erase)
    if removed.selection is not None:  # the erasure forgets the pages, as they lead to their blobs
        return Done((Next(indexed), Next(ingest.ErasureDirected(document_ids=ids, selection=removed.selection))))
    page_memory.forget(event.corpus, ids)  # not before: a page that is indexed meanwhile would stay remembered
    return Done((Next(indexed),))


def on_page_withdrawn(event: Event, ledger: Ledger, writers: CorpusWriters, pages: Pages) -> Outcome:
    """Append tombstones for what the index still holds of the page; a second run finds nothing left.

    Each run has citations of the page checked again: the first one may have been killed after the tombstones.
    """
    page = event.body_as(ingest.PageWithdrawn)
    going = pages.withdrawable(page.document_ids, event.corpus, page.seen_at)
    offset = writers.remove(event.corpus, going)
    ledger.uncheck_citations(event.corpus, page.document_ids, offset)
    pages.page_memory.withdraw(event.corpus, page.document_ids, by=page.by, at=page.seen_at)
    return Done((Next(DocumentIndexed(document_ids=going, chunk_count=0, journal_offset=offset)),))


def on_document_indexed(
    event: Event, ledger: Ledger, corpora: Corpora, index_owner: IndexOwner, graphs: GraphArms, settings: Settings
) -> Outcome:
    """Publish what the journal holds, in the object store too where machines share one; if the current generation
    covers it, only name that generation.

    Measures how long crawled pages took until they are found; a second run measures again. After an erasure only the
    new generation is left, here and in the object store, and the graph holds nothing of the documents. Runs whose
    answers cite changed documents get an event, each once. The graph reads what changed afterwards.
    """
    indexed = event.body_as(DocumentIndexed)
    if indexed.erase and ledger.is_backed_up_now():
        return BACKED_UP
    both, timed = corpora.writers.both(event.corpus), metrics.INDEX_PUBLISH_SECONDS.time()
    with timed, both as (writer, second), span("commit the generation"):
        generation = writer.erase() if indexed.erase else writer.publish()
        if second is not None:
            _ = second.erase() if indexed.erase else second.publish()
    if indexed.crawled_at:
        metrics.CRAWL_INGEST_SECONDS.observe(max(0.0, (utc_now() - indexed.crawled_at).total_seconds()))
    if indexed.erase:
        folder = graphs.folder(event.corpus)
        erase_from_graph(event.corpus, indexed.document_ids, generation.journal_offset, ledger.graph, folder)
    index_owner.publish(event.corpus, alone=indexed.erase)
    is_cited = ledger.uncheck_citations(event.corpus, indexed.document_ids, indexed.journal_offset)
    if is_cited or not indexed.document_ids:
        tell_stale_answers(event.corpus, ledger, corpora.readers, utc_now(), covering=indexed.journal_offset)
    published = SnapshotPublished(
        generation=generation.name,
        journal_offset=generation.journal_offset,
        document_count=generation.document_count,
        chunk_count=generation.chunk_count,
    )
    directed = graph_directives(event.corpus, indexed, settings.graph)
    return Done((Next(published, f"generation:{generation.name}"), *map(Next, directed)))


class Admitted(NamedTuple):
    """The documents to write with their vectors, the ids of those that they supersede, and what was refused."""

    batch: ChunkBatch
    vectors: Vectors
    superseded: tuple[str, ...]
    gaps: tuple[Gap, ...]


def admit(batch: ChunkBatch, vectors: Vectors, writer: Writer) -> Admitted:
    """Return the documents of the batch that may be written, and why others may not."""
    earlier_ids = {document.document_id: _earlier_id(document) for document in batch.documents}
    wanted = [name for pair in earlier_ids.items() for name in pair if name is not None]
    recorded = writer.documents(wanted)
    kept: list[ChunkedDocument] = []
    rows: list[Vectors] = []
    gaps: list[Gap] = []
    row = 0
    for document in batch.documents:
        own = vectors[row : (row := row + len(document.chunks))]
        there = recorded.get(document.document_id)
        refusal = refusal_to_replace(there.provenance, document.provenance) if there else None
        if refusal:
            gaps.append(Gap(stage="index", subject=document.document_id, **refusal._asdict()))
        else:
            kept.append(document)
            rows.append(own)
    superseded = tuple(
        earlier
        for document in kept
        if (earlier := earlier_ids[document.document_id]) in recorded
        and recorded[earlier].provenance.source == "submission"
    )
    if gaps:
        vectors = np.concatenate([vectors[:0], *rows])
        batch = batch.model_copy(update={"documents": tuple(kept), "tokens": None})
    return Admitted(batch, vectors, superseded, tuple(gaps))


def _earlier_id(document: ChunkedDocument) -> str | None:
    """Return the id that versions before 0.4 gave a submission without an id: that of the page at its address."""
    source = document.url or document.file_path
    provenance = document.provenance
    if provenance.source != "submission" or source is None:
        return None
    is_derived = document.document_id == submission_id_for(provenance.submitted_by, source)
    return document_id_for(source) if is_derived else None


def entries_for(found: Iterable[DocumentFacts]) -> list[tuple[ForgottenKind, str]]:
    """Return negative-list entries for documents that a filter chose: their ids, and the addresses of crawled ones."""
    entries: list[tuple[ForgottenKind, str]] = []
    for facts in found:
        entries.append(("document_id", facts.document_id))
        if facts.url is not None and facts.provenance.origin == "crawled":
            entries.append(("url", facts.url))
    return entries


def _remove_blobs(hashes: Iterable[str], blobs: BlobStore) -> None:
    """Remove unused blobs now, however recently they were put."""
    for sha256 in hashes:
        blobs.remove_unused(sha256)
