"""Turns chunks into vectors, about a second of work at a time; the next event does the rest.

`apart` parts an event of several documents into an event for each, so that one of them cannot take the others with it.
`fill_fallback` fills a corpus's second index, which answers while the embedding endpoint is down, from its journal.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sluice.contracts import ingest
from sluice.contracts.base import BlobRef
from sluice.contracts.budget import Spend
from sluice.contracts.document import (
    ChunkBatch,
    ChunkedDocument,
    Document,
    DocumentBatch,
    embedding_text,
    inspection_digest,
)
from sluice.contracts.errors import Corrupted, NotFound, Unavailable
from sluice.contracts.event import Body, Done, Event, Next
from sluice.contracts.trust import with_warning
from sluice.index.folder import CorpusLayout
from sluice.index.journal.records import make_facts
from sluice.index.local.reindex import read_live_documents
from sluice.ingest.embed.batching import Portion, end_of_portion
from sluice.ingest.embed.port import Vectors
from sluice.ledger.ledger import Ledger
from sluice.otel import metrics
from sluice.trust.confidence import is_calibrated
from sluice.trust.topic_change import LEAST_CHUNKS, RULE, alien_positions
from sluice.workers.context import Context
from sluice.workers.runtime.blob_store import BlobStore
from sluice.workers.steps.chunk import documents_of_snippets
from sluice.workers.wiring.corpora import CorpusReaders, CorpusWriters, Reader, Writer, has_version
from sluice.workers.wiring.inject import Step, assemble
from sluice.workers.wiring.models import EmbeddingService


def load_chunks(reference: BlobRef, blobs: BlobStore) -> ChunkBatch:
    """Load the chunked documents that an event refers to."""
    return ChunkBatch.model_validate_json(blobs.get(reference))


@dataclass(frozen=True, slots=True)
class ChunkEmbedder(Step):
    """Gives chunks their vectors, portion by portion."""

    readers: CorpusReaders
    embedding: EmbeddingService
    ledger: Ledger
    blobs: BlobStore

    def begin(self, batch: ChunkBatch, reference: BlobRef, event: Event) -> Done:
        """Embed the first portion of a batch, which is kept as `reference`, by the corpus's model.

        With a fallback each of the two models gets an event of its own instead: one goes on while the other waits.
        """
        fallback, texts = self.readers.fallback_model(event.corpus), batch.embedding_texts()
        own, *other = (
            ingest.ChunksPartlyEmbedded(chunks_blob=reference, model_fingerprint=fingerprint, subject=batch.subject)
            for fingerprint in (self.embedding.fingerprint(event.corpus), fallback)
            if fingerprint is not None
        )
        if not other:
            return self.embed_next(own, batch, event)
        return Done(tuple(self.following(one, texts, event) for one in (own, *other)))

    def again(self, embedded: ingest.ChunksEmbedded, batch: ChunkBatch, event: Event, model_fingerprint: str) -> Done:
        """Direct the embedding of the batch by another model."""
        anew = ingest.ChunksPartlyEmbedded(chunks_blob=embedded.chunks_blob, model_fingerprint=model_fingerprint)
        return Done((self.following(anew, batch.embedding_texts(), event),))

    def load(self, embedded: ingest.ChunksEmbedded) -> tuple[ChunkBatch, Vectors]:
        """Load the chunks that an event refers to, and a row for each of them, (n, d)."""
        vectors = vectors_from_bytes(self.blobs.get(embedded.vectors_blob), embedded.dimension)
        return load_chunks(embedded.chunks_blob, self.blobs), vectors

    def embed_next(self, begun: ingest.ChunksPartlyEmbedded, batch: ChunkBatch, event: Event) -> Done:
        """Embed the next portion of `batch`, to which `begun` refers, after the chunks that have their vectors.

        Once every chunk has one, marks passages on another topic than their document's former version and emits
        `ChunksEmbedded`; before that, `ChunksPartlyEmbedded` with what the rest may cost reserved. Raises Unavailable
        (or its children) where the model is out of reach.
        """
        texts = batch.embedding_texts()
        end = _end_of_portion(
            batch, texts, begun.chunk_count, self.embedding.portion(event.corpus, begun.model_fingerprint)
        )
        started = time.perf_counter()
        embedded = self.embedding.embed_by(begun.model_fingerprint, texts[begun.chunk_count : end])
        metrics.EMBEDDING_SECONDS.observe(time.perf_counter() - started)
        metrics.TOKEN_SPEND.labels("embedding").inc(embedded.tokens)
        spend = Spend() if begun.model_fingerprint == self.readers.fallback_model(event.corpus) else embedded.spend
        cache_hits, cost_usd = begun.cache_hits + embedded.cache_hits, begun.cost_usd + embedded.cost_usd
        if end < len(texts):
            partly = ingest.ChunksPartlyEmbedded(
                chunks_blob=begun.chunks_blob,
                vectors_blobs=(*begun.vectors_blobs, self.blobs.put(vectors_to_bytes(embedded.vectors))),
                model_fingerprint=embedded.fingerprint,
                chunk_count=end,
                cache_hits=cache_hits,
                cost_usd=cost_usd,
                subject=batch.subject,
            )
            return Done((self.following(partly, texts[end:], event),), spend=spend)
        dimension = embedded.vectors.shape[1]
        before = [vectors_from_bytes(self.blobs.get(one), dimension) for one in begun.vectors_blobs]
        vectors = np.concatenate([*before, embedded.vectors])
        marked = mark_topic_changes(batch, vectors, event.corpus, embedded.fingerprint, self.readers, self.embedding)
        body = ingest.ChunksEmbedded(
            chunks_blob=begun.chunks_blob if marked is batch else self.blobs.put(marked.model_dump_json().encode()),
            vectors_blob=self.blobs.put(vectors_to_bytes(vectors)),
            model_fingerprint=embedded.fingerprint,
            dimension=dimension,
            chunk_count=len(texts),
            cache_hits=cache_hits,
            cost_usd=cost_usd,
            subject=batch.subject,
        )
        return Done((Next(body),), spend=spend)

    def following(self, body: Body, texts: Sequence[str], event: Event) -> Next:
        """Make the event for the rest, with the most that embedding these texts may cost reserved."""
        model = body.model_fingerprint if isinstance(body, ingest.ChunksPartlyEmbedded) else None
        reserve = self.embedding.reserve(texts, event.corpus, self.ledger.budget_left(event.run_id), model)
        return Next(body, reserve=reserve)


def _end_of_portion(batch: ChunkBatch, texts: Sequence[str], start: int, most: Portion) -> int:
    """Return how many chunks of the batch have a vector once the portion from `start` on is embedded.

    A text that stood before is embedded already, and takes no room: a document may be made of one line a million times.
    """
    chunks = (chunk for document in batch.documents for chunk in document.chunks)
    first = {text: position for position, text in reversed(tuple(enumerate(texts)))}
    sizes = [
        Portion(1, chunk.token_estimate) if first[text] == position else Portion(0, 0)
        for position, (chunk, text) in enumerate(zip(chunks, texts, strict=True))
    ]
    return start + end_of_portion(sizes[start:], most)


def vectors_to_bytes(vectors: NDArray[np.float32]) -> bytes:
    """Return the bytes of an (n, d) float32 matrix."""
    return np.ascontiguousarray(vectors, dtype="<f4").tobytes()


def vectors_from_bytes(raw: bytes, dimension: int) -> NDArray[np.float32]:
    """Return the (n, d) float32 matrix in `raw`. Raises `Corrupted` if the bytes are no whole number of rows."""
    if len(raw) % (4 * dimension):
        raise Corrupted(f"{len(raw)} bytes are no whole number of float32 rows of {dimension}")
    return np.frombuffer(raw, dtype="<f4").reshape(-1, dimension)


def mark_topic_changes(
    batch: ChunkBatch,
    vectors: Vectors,
    corpus: str,
    fingerprint: str,
    readers: CorpusReaders,
    embedding: EmbeddingService,
) -> ChunkBatch:
    """Mark each passage that is like neither its document's former version nor its neighbours with a warning.

    `vectors` has a row for each chunk of the batch. A passage that stays keeps the mark of the former version. Models
    whose cosines have another scale judge nothing, nor does a model that is out of reach for the former version.
    """
    if not is_calibrated(fingerprint):
        return batch
    try:
        reader = readers.existing(corpus)
    except NotFound:
        return batch
    documents: list[ChunkedDocument] = []
    row = 0
    for document in batch.documents:
        own = vectors[row : (row := row + len(document.chunks))]
        documents.append(_judged(document, own, fingerprint, reader, embedding))
    if all(judged is given for judged, given in zip(documents, batch.documents, strict=True)):
        return batch
    return batch.model_copy(update={"documents": tuple(documents)})


def _judged(
    document: ChunkedDocument, vectors: Vectors, fingerprint: str, reader: Reader, embedding: EmbeddingService
) -> ChunkedDocument:
    facts = reader.document(document.document_id)
    if facts is None:
        return document
    former = {chunk.checksum: chunk for chunk in reader.chunks(document.document_id)}
    is_new = [chunk.checksum not in former for chunk in document.chunks]
    alien: set[int] = set()
    if any(is_new) and len(former) >= LEAST_CHUNKS:
        before = [embedding_text(facts.title, chunk) for chunk in former.values()]

        def embed(texts: Sequence[str]) -> Vectors:
            return embedding.embed_by(fingerprint, texts).vectors

        try:
            bare = [chunk.text for chunk in document.chunks]
            found = alien_positions(
                embed(before), vectors, is_new, lambda positions: embed([bare[position] for position in positions])
            )
        except Unavailable:
            return document
        alien.update(found)
    inspected = ((checksum, chunk.inspection) for checksum, chunk in former.items())
    marked_before = {
        one for one, found in inspected if found and any(finding.rule == RULE for finding in found.findings)
    }
    if not alien and not marked_before:
        return document
    chunks = tuple(
        chunk.model_copy(update={"inspection": with_warning(chunk.inspection, RULE, chunk.text)})
        if position in alien or chunk.checksum in marked_before
        else chunk
        for position, chunk in enumerate(document.chunks)
    )
    return document.model_copy(update={"chunks": chunks, "inspection_sha256": inspection_digest(chunks)})


def apart(event: Event, context: Context) -> Done | None:
    """Return an event of the same stage for each document of `event`; None if it has less than two."""
    body, blobs = event.body, context.blobs
    match body:
        case ingest.DocumentsSubmitted():
            batch = DocumentBatch.model_validate_json(blobs.get(body.documents))
            parts = [_submitted(one, blobs) for one in batch.documents]
        case ingest.SearchCompleted(keep_snippets=True):
            parts = [_submitted(one, blobs) for one in documents_of_snippets(body, event.run_id)]
        case ingest.DocumentChunked() | ingest.ChunksPartlyEmbedded() | ingest.ChunksEmbedded():
            parts = list(_chunked(body, event, assemble(ChunkEmbedder, context)))
        case _:
            return None
    return Done(tuple(parts)) if len(parts) > 1 else None


def _submitted(document: Document, blobs: BlobStore) -> Next:
    batch = DocumentBatch(documents=(document,))
    return Next(ingest.DocumentsSubmitted.of(batch, blobs.put(batch.model_dump_json().encode())))


def _chunked(
    body: ingest.DocumentChunked | ingest.ChunksPartlyEmbedded | ingest.ChunksEmbedded,
    event: Event,
    embedder: ChunkEmbedder,
) -> Iterator[Next]:
    done, blobs = 0, embedder.blobs
    batch = load_chunks(body.chunks_blob, blobs)
    for document in batch.documents:
        chunks = {id(chunk) for chunk in document.chunks}
        part = batch.select(lambda chunk, chunks=chunks: id(chunk) in chunks)  # type: ignore[misc]
        blob, texts = blobs.put(part.model_dump_json().encode()), part.embedding_texts()
        match body:
            case ingest.DocumentChunked():
                yield embedder.following(ingest.DocumentChunked.of(part, blob), texts, event)
            case ingest.ChunksPartlyEmbedded(model_fingerprint=model):
                anew = ingest.ChunksPartlyEmbedded(chunks_blob=blob, model_fingerprint=model, subject=part.subject)
                yield embedder.following(anew, texts, event)
            case ingest.ChunksEmbedded():
                rows = vectors_from_bytes(blobs.get(body.vectors_blob), body.dimension)[done : done + len(chunks)]
                vectors = blobs.put(vectors_to_bytes(rows))
                own = {"chunks_blob": blob, "vectors_blob": vectors, "chunk_count": len(chunks)}
                own |= {"subject": part.subject, "cache_hits": 0, "cost_usd": 0.0}
                yield Next(body.model_copy(update=own))
                done += len(chunks)


BATCH_CHUNKS = 128
"""Chunks that are embedded at a time; a kill loses some seconds of work at most."""


def fill_fallback(
    corpus: str, root: Path, readers: CorpusReaders, writers: CorpusWriters, embedding: EmbeddingService
) -> int | None:
    """Bring the second index up to the corpus's journal; return the number of chunks embedded, None if it needs none.

    The corpus's writer is held meanwhile, so that no removal comes in between. A later call goes on where one ended.
    """
    model = readers.fallback_model(corpus)
    if model is None:
        return None
    embedded, batch = 0, list[ChunkedDocument]()
    with writers.both(corpus, begins=True) as (first, other):
        second = other or first
        for document_id, document in read_live_documents(CorpusLayout(root, corpus).journal):
            if not has_version(second.documents([document_id]).get(document_id), make_facts(document)):
                batch.append(document)
            if sum(len(one.chunks) for one in batch) >= BATCH_CHUNKS:
                embedded += _record(batch, model, second, embedding)
                batch = []
        embedded += _record(batch, model, second, embedding)
        second.publish()
    return embedded


def _record(documents: list[ChunkedDocument], model: str, second: Writer, embedding: EmbeddingService) -> int:
    """Record the documents with vectors of that model. A version that was put back may be older than the one held."""
    texts = [text for document in documents for text in document.embedding_texts()]
    if not texts:
        return 0
    vectors = embedding.embed_by(model, texts).vectors
    second.remove([document.document_id for document in documents])
    second.append(ChunkBatch(documents=tuple(documents)), vectors, model)
    return len(texts)
