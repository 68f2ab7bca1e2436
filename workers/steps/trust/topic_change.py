"""Marks passages that are on another topic than the document they suddenly stand in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluice.contracts.document import Chunk, ChunkBatch, ChunkedDocument, embedding_text, inspection_digest
from sluice.contracts.errors import NotFound, Unavailable
from sluice.contracts.trust import Finding, Inspection
from sluice.trust.confidence import is_calibrated
from sluice.trust.topic_change import LEAST_CHUNKS, RULE, alien_positions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sluice.ingest.embed.port import Vectors
    from sluice.workers.wiring.corpora import CorpusReaders, Reader
    from sluice.workers.wiring.embedding import EmbeddingService


def mark_topic_changes(
    batch: ChunkBatch,
    vectors: Vectors,
    corpus: str,
    fingerprint: str,
    readers: CorpusReaders,
    embedding: EmbeddingService,
) -> ChunkBatch:
    """The batch with a warning on each passage that is like neither its document's former version nor its neighbours.

    `vectors` has a row for each chunk of the batch. A mark of the former version stays on a passage that stays. Nothing
    is judged by a model whose cosines have another scale, nor where the model is out of reach for the former version.
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
    marked_before = {checksum for checksum, chunk in former.items() if _is_marked(chunk)}
    if not alien and not marked_before:
        return document
    chunks = tuple(
        _mark(chunk) if position in alien or chunk.checksum in marked_before else chunk
        for position, chunk in enumerate(document.chunks)
    )
    return document.model_copy(update={"chunks": chunks, "inspection_sha256": inspection_digest(chunks)})


def _is_marked(chunk: Chunk) -> bool:
    return chunk.inspection is not None and any(finding.rule == RULE for finding in chunk.inspection.findings)


def _mark(chunk: Chunk) -> Chunk:
    finding = Finding(rule=RULE, start=0, end=len(chunk.text))
    return chunk.model_copy(update={"inspection": (chunk.inspection or Inspection()).with_warning(finding)})
