"""Handlers of what is indexed: chunks are inspected, embedded and appended; documents go, generations are published.

The rules of handlers stand in `workers.handlers`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sluice.contracts.event import Event
from sluice.contracts.index import DocumentIndexed, SnapshotPublished
from sluice.contracts.ingest import (
    ChunksEmbedded,
    ChunksPartlyEmbedded,
    DocumentChunked,
    DocumentsRemoved,
    ErasureDirected,
    ForgetDirected,
    PageWithdrawn,
)
from sluice.contracts.outcome import Done, Next, Outcome, Retry
from sluice.otel import metrics
from sluice.workers.runtime.negative_list import batch_without_forgotten, refused_documents
from sluice.workers.steps.citations import tell_stale_answers
from sluice.workers.steps.corpus_changes import (
    admit,
    entries_for,
    erase_leftovers,
    erase_quarantine,
    ids_meant,
    select_documents,
)
from sluice.workers.steps.embed import ChunkEmbedder, load_chunks
from sluice.workers.steps.graph.publish import erase_from_graph
from sluice.workers.steps.inspect import Inspection
from sluice.workers.steps.pages import Pages, first_crawled_at
from sluice.workers.wiring.corpora import Corpora
from sluice.workers.wiring.graph.directives import graph_directives
from sluice.workers.wiring.observers import utc_now

if TYPE_CHECKING:
    from sluice.index.journal.document_facts import DocumentFacts
    from sluice.ledger.known_pages import PageMemory
    from sluice.ledger.ledger import Ledger
    from sluice.workers.runtime.blob_store import BlobStore
    from sluice.workers.settings import Settings
    from sluice.workers.wiring.corpora import CorpusWriters
    from sluice.workers.wiring.graph.graphs import GraphArms
    from sluice.workers.wiring.snapshot_upload import Shipper


STILL_OPEN_SECONDS = 0.5
"""Until events of forgotten documents are looked for again: an event takes about as long."""


def on_document_chunked(event: Event, inspection: Inspection, embedder: ChunkEmbedder) -> Outcome:
    """Inspect a batch, and embed the first of what is let through. A chunk is held once; a second run costs little."""
    inspected = inspection.inspect(event.body_as(DocumentChunked), event)
    if not inspected.batch.documents:
        return Done(inspected.removal, inspected.gaps)
    embedded = embedder.begin(inspected.batch, inspected.blob, event)
    return replace(embedded, emits=(*embedded.emits, *inspected.removal), gaps=inspected.gaps)


def on_chunks_partly_embedded(event: Event, embedder: ChunkEmbedder) -> Outcome:
    """Embed the next chunks of a batch, by the model of those before. Vectors follow from the texts."""
    begun = event.body_as(ChunksPartlyEmbedded)
    return embedder.embed_next(begun, load_chunks(begun.chunks_blob, embedder.blobs), event)


def on_chunks_embedded(
    event: Event, writers: CorpusWriters, embedder: ChunkEmbedder, ledger: Ledger, page_memory: PageMemory
) -> Outcome:
    """Append to the journal, which takes an equal document version only once.

    A submission that may not replace what has its id is left out and told. Where the corpus was given another model
    since the vectors were made, the embed stage makes them again.
    """
    embedded = event.body_as(ChunksEmbedded)
    batch, vectors = embedder.load(embedded)
    with writers.writing(event.corpus) as writer:
        if writer.model and writer.model[0] != embedded.model_fingerprint:
            return embedder.again(embedded, batch, event, writer.model[0])
        refusals = refused_documents(batch, event.corpus, ledger.forgotten)
        kept = [chunk.document_id not in refusals for document in batch.documents for chunk in document.chunks]
        batch, gaps = batch_without_forgotten(batch, "index", refusals)
        if not batch.documents:
            return Done(gaps=gaps)
        admitted = admit(batch, vectors[kept], writer)
        offset = writer.append(admitted.batch, admitted.vectors, embedded.model_fingerprint)
        if admitted.superseded:
            offset = max(offset, writer.remove(admitted.superseded))
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


def on_forget_directed(event: Event, ledger: Ledger, corpora: Corpora, blobs: BlobStore) -> Outcome:
    """Find what is to be forgotten, and direct its removal by ids: so a second run of what follows means the same."""
    directed = event.body_as(ForgetDirected)
    found: list[DocumentFacts] = []
    if corpora.readers.exists(event.corpus):
        with corpora.writers.writing(event.corpus) as writer:
            found = select_documents(directed.selection, writer)
    if directed.keep_out and directed.selection.named is None:
        ledger.forgotten.add(event.corpus, entries_for(found), directed.operator, directed.note)
    ids = ids_meant(directed.selection, found)
    erase_quarantine(event.corpus, ids, directed.selection, ledger, blobs)
    if not corpora.readers.exists(event.corpus):
        return Done((Next(ErasureDirected(document_ids=ids, selection=directed.selection)),))
    return Done((Next(DocumentsRemoved(document_ids=ids, erase=True, selection=directed.selection)),))


def on_erasure_directed(event: Event, ledger: Ledger, blobs: BlobStore) -> Outcome:
    """Remove known pages and blobs of what is forgotten, once no event of theirs is under way. Twice does no harm."""
    directed = event.body_as(ErasureDirected)
    is_open, gaps = erase_leftovers(event.corpus, directed.document_ids, directed.selection, ledger, blobs)
    if is_open:
        return Retry(STILL_OPEN_SECONDS, "events of forgotten documents are still under way", counts=False)
    return Done(gaps=gaps)


def on_documents_removed(event: Event, writers: CorpusWriters, page_memory: PageMemory) -> Outcome:
    """Append tombstones to the journal. A second removal of the same ids changes nothing."""
    removed = event.body_as(DocumentsRemoved)
    ids = removed.document_ids
    with writers.writing(event.corpus) as writer:
        offset = writer.remove(ids)
    indexed = DocumentIndexed(document_ids=ids, chunk_count=0, journal_offset=offset, erase=removed.erase)
    if removed.selection is not None:  # the erasure forgets the pages, as they lead to their blobs
        return Done((Next(indexed), Next(ErasureDirected(document_ids=ids, selection=removed.selection))))
    page_memory.forget(event.corpus, ids)  # not before: a page that is indexed meanwhile would stay remembered
    return Done((Next(indexed),))


def on_page_withdrawn(event: Event, ledger: Ledger, writers: CorpusWriters, pages: Pages) -> Outcome:
    """Append tombstones for what the index still holds of the page. A second time there is nothing left of it.

    What answers cite of it is unchecked both times: the first one may have been killed behind the tombstones.
    """
    page = event.body_as(PageWithdrawn)
    going = pages.withdrawable(page.document_ids, event.corpus, page.seen_at)
    with writers.writing(event.corpus) as writer:
        offset = writer.remove(going)
    ledger.uncheck_citations(event.corpus, page.document_ids, offset)
    pages.page_memory.withdraw(event.corpus, page.document_ids, by=page.by, at=page.seen_at)
    return Done((Next(DocumentIndexed(document_ids=going, chunk_count=0, journal_offset=offset)),))


def on_document_indexed(
    event: Event, ledger: Ledger, corpora: Corpora, shipper: Shipper, graphs: GraphArms, settings: Settings
) -> Outcome:
    """Publish what the journal holds; where the current generation covers it, only say which that is.

    How long crawled pages took until they are found is counted here, and again in a second run. Where something is to
    be erased, nothing but the new generation is left, here and in the object store, and nothing of it in the graph.
    Answers that cite what is no longer so are told, each once. The graph reads what changed afterwards.
    """
    indexed = event.body_as(DocumentIndexed)
    with metrics.INDEX_PUBLISH_SECONDS.time(), corpora.writers.writing(event.corpus) as writer:
        generation = writer.erase() if indexed.erase else writer.publish()
    if indexed.crawled_at:
        metrics.CRAWL_INGEST_SECONDS.observe(max(0.0, (utc_now() - indexed.crawled_at).total_seconds()))
    if indexed.erase:
        folder = graphs.folder(event.corpus)
        erase_from_graph(event.corpus, indexed.document_ids, generation.journal_offset, ledger.graph, folder)
    shipper.ship(event.corpus, generation.name, alone=indexed.erase)
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
