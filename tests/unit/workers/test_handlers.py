"""The embed handler gives every chunk its vector, whether its token ids came along or not."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from sluice.contracts.document import ChunkBatch, Document, Provenance
from sluice.contracts.event import Done, Event
from sluice.contracts.ingest import ChunkFact, ChunksEmbedded, DocumentChunked
from sluice.ingest.chunk.chunk import chunk_and_tokenize, chunk_batch
from sluice.ingest.embed.tokens import load_tokenizer, tokenizer_sha256
from sluice.ingest.extract.extract import extract_document
from sluice.ingest.settings import ChunkSettings
from sluice.workers.context import Context
from sluice.workers.handlers import HANDLERS
from sluice.workers.settings import Settings
from sluice.workers.steps.embed import vectors_from_bytes
from tests.support.repository import MODELS

SOURCE = Provenance(source="file", fetched_at=datetime(2024, 1, 1, tzinfo=UTC))


@pytest.fixture
def context(tmp_path: Path) -> Context:
    return Context(Settings.model_validate({"data_dir": tmp_path, "embed": {"model_dir": MODELS}}))


def embedded(batch: ChunkBatch, context: Context) -> tuple[ChunksEmbedded, np.ndarray]:
    facts = tuple(ChunkFact(chunk_id=c.chunk_id, text_sha256=c.checksum) for d in batch.documents for c in d.chunks)
    blob = context.blobs.put(batch.model_dump_json().encode())
    chunked = DocumentChunked(chunks_blob=blob, document_ids=("d",), chunks=facts, token_estimate=1)
    event = Event.of(chunked, run_id="run_1", corpus="new")
    outcome = HANDLERS[event.kind](event, context)
    while True:
        assert isinstance(outcome, Done)
        [following] = outcome.emits
        body = following.body
        if isinstance(body, ChunksEmbedded):
            break
        next_step = Event.of(body, run_id="run_1", corpus="new", cause=event)
        outcome = HANDLERS[next_step.kind](next_step, context)
    return body, vectors_from_bytes(context.blobs.get(body.vectors_blob), body.dimension)


def test_a_batch_with_token_ids_and_an_old_one_without_get_the_same_vectors(context: Context) -> None:
    tokenizer = load_tokenizer(None)
    text = "# Heading\n\n" + "Some words about a subject, one after another. " * 60
    document = Document(id="d", media_type="text/markdown", provenance=SOURCE, text=text, title="A title")
    new = chunk_batch(
        [chunk_and_tokenize(document, extract_document(document), ChunkSettings(), tokenizer)],
        tokenizer_sha256(tokenizer),
    )
    old = ChunkBatch(documents=new.documents)
    assert new.tokens is not None
    assert min(new.tokens.counts) > 0
    (with_ids, vectors), (without, same) = embedded(new, context), embedded(old, context)
    np.testing.assert_allclose(vectors, same, atol=1e-5)
    assert with_ids.chunk_count == without.chunk_count == len(vectors) == len(new.documents[0].chunks) > 1
    assert with_ids.model_fingerprint == without.model_fingerprint
