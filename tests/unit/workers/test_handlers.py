"""The embed handler gives every chunk its vector; a batch is what its chunks are."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from sluice.contracts.document import ChunkBatch, Document, Provenance
from sluice.contracts.event import Done, Event
from sluice.contracts.ingest import ChunkFact, ChunksEmbedded, DocumentChunked
from sluice.ingest.chunk.chunk import chunk_document
from sluice.ingest.embed.tokens import load_tokenizer
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


def test_a_batch_gets_a_vector_for_every_chunk_also_one_that_a_former_version_wrote(context: Context) -> None:
    text = "# Heading\n\n" + "Some words about a subject, one after another. " * 60
    document = Document(id="d", media_type="text/markdown", provenance=SOURCE, text=text, title="A title")
    chunked = chunk_document(document, extract_document(document), ChunkSettings(), load_tokenizer(None))
    new = ChunkBatch(documents=(chunked,))
    ids = {"tokenizer_sha256": "0" * 64, "counts": [1] * len(chunked.chunks), "ids": "AAAA"}
    old = ChunkBatch.model_validate_json(json.dumps(json.loads(new.model_dump_json()) | {"tokens": ids}))
    assert old == new
    body, vectors = embedded(old, context)
    assert body.chunk_count == len(vectors) == len(chunked.chunks) > 1
    whole = context.embedder.embed(new.embedding_texts()).vectors
    np.testing.assert_allclose(vectors, whole, atol=1e-5)


def test_chunks_that_are_taken_out_take_a_document_without_others_along() -> None:
    def document(name: str) -> Document:
        parts = [f"# Part {number}\n\n{'word ' * 300}{number}" for number in range(3)]
        return Document(id=name, media_type="text/markdown", provenance=SOURCE, text="\n\n".join(parts))

    documents = [document("one"), document("other")]
    whole = ChunkBatch(
        documents=tuple(
            chunk_document(one, extract_document(one), ChunkSettings(), load_tokenizer(None)) for one in documents
        )
    )
    first = whole.documents[0].chunks[0]
    left = whole.select(lambda chunk: chunk.chunk_id == first.chunk_id)
    assert [one.chunks for one in left.documents] == [(first,)]
    assert whole.select(lambda chunk: True) == whole
