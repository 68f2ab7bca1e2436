"""From documents to the next event: extracted, chunked, tokenized, and as many as their run can pay to embed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from contracts.document import ChunkBatch, Document, sha256_text
from contracts.errors import InvalidInput, PolicyRefused
from contracts.event import Event, Gap
from contracts.ingest import ChunkFact, DocumentChunked
from contracts.outcome import Done, Next, Outcome
from gate.budget import within
from ingest.chunk.chunk import Tokenized, chunk_and_tokenize
from ingest.chunk.token_ids import chunk_batch, tokenized_texts
from ingest.embed.tokens import tokenizer_sha256
from ingest.extract.extract import extract_document
from ingest.settings import ChunkSettings
from workers.runtime.heartbeat import check_cancelled
from workers.steps.gaps import gap_of

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from ledger.ledger import Ledger
    from workers.runtime.blob_store import BlobStore
    from workers.wiring.embedding import EmbeddingService


def chunk_documents(
    documents: Sequence[Document],
    event: Event,
    settings: ChunkSettings,
    tokenizer: Tokenizer,
    embedding: EmbeddingService,
    ledger: Ledger,
    blobs: BlobStore,
) -> Outcome:
    """Extract and split what can be read, and hand on what its run can pay to embed; a gap for each other document."""
    chunked: list[Tokenized] = []
    gaps: list[Gap] = []
    for document in documents:
        check_cancelled()
        try:
            result = chunk_and_tokenize(document, extract_document(document), settings, tokenizer)
        except (InvalidInput, PolicyRefused) as refusal:
            gaps.append(gap_of(refusal, "chunk", document.source))
            continue
        if result.document.chunks:
            chunked.append(result)
        else:
            gaps.append(Gap(stage="chunk", subject=document.source, reason="no_text"))
    left = ledger.budget_left(event.run_id)
    tokenizer_hash = tokenizer_sha256(tokenizer)
    texts = ((one, tokenized_texts(one, tokenizer_hash)) for one in chunked)
    prices = ((one, embedding.reserve(those, event.corpus, left)) for one, those in texts)
    payable = within(left, prices, stage="embed", subject=_source_of)
    emits: tuple[Next, ...] = ()
    if payable.items:
        batch = chunk_batch(payable.items, tokenizer_hash)
        emits = (Next(_chunked(batch, blobs), reserve=payable.cost),)
    return Done(emits, (*gaps, *payable.gaps))


def _source_of(chunked: Tokenized) -> str:
    document = chunked.document
    return document.url or document.file_path or document.document_id


def _chunked(batch: ChunkBatch, blobs: BlobStore) -> DocumentChunked:
    facts = (
        ChunkFact(chunk_id=chunk.chunk_id, text_sha256=sha256_text(text))
        for document in batch.documents
        for chunk, text in zip(document.chunks, document.embedding_texts(), strict=True)
    )
    return DocumentChunked(
        chunks_blob=blobs.put(batch.model_dump_json().encode()),
        document_ids=tuple(document.document_id for document in batch.documents),
        chunks=tuple(facts),
        token_estimate=sum(chunk.token_estimate for document in batch.documents for chunk in document.chunks),
    )
