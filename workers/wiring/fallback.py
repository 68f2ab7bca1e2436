"""Fills a corpus's second index, which answers while the embedding endpoint is down, from the corpus's journal."""

from __future__ import annotations

from pathlib import Path

from sluice.contracts.document import ChunkBatch, ChunkedDocument
from sluice.index.folder import CorpusLayout
from sluice.index.journal.records import make_facts
from sluice.index.local.reindex import read_live_documents
from sluice.workers.wiring.corpora import CorpusReaders, CorpusWriters, Writer, has_version
from sluice.workers.wiring.models import EmbeddingService

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
