"""Documents into the index without a pipeline: chunked, embedded and appended as the workers do it."""

from __future__ import annotations

from collections.abc import Sequence

from sluice.contracts.document import ChunkBatch, Document
from sluice.index.local.writer import IndexWriter
from sluice.ingest.chunk.chunk import chunk_document
from sluice.ingest.embed.port import Embedder
from sluice.ingest.embed.tokens import shared_tokenizer
from sluice.ingest.extract.extract import extract_document
from sluice.ingest.settings import ChunkSettings

_DOCUMENTS_AT_ONCE = 64


def append_documents(writer: IndexWriter, documents: Sequence[Document], embedder: Embedder) -> None:
    """Append the documents and publish them."""
    for start in range(0, len(documents), _DOCUMENTS_AT_ONCE):
        chunked = [
            chunk_document(one, extract_document(one), ChunkSettings(), shared_tokenizer())
            for one in documents[start : start + _DOCUMENTS_AT_ONCE]
        ]
        texts = [text for one in chunked for text in one.embedding_texts()]
        writer.append(ChunkBatch(documents=tuple(chunked)), embedder.embed(texts).vectors, embedder.fingerprint)
    writer.publish()
