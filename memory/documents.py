"""Iterations and learnings as documents of one chunk: what the pipeline of chunk, embed and index takes.

A document's id is that of the entry or of the learning. Its checksum is the hash of the text that is embedded, so the
index takes an equal one only once.
"""

from __future__ import annotations

from collections.abc import Iterator

from sluice.contracts.document import Chunk, ChunkedDocument, Provenance, sha256_text
from sluice.contracts.memory.learning import FeatureLearning, LearningState
from sluice.contracts.memory.model import IterationRecord
from sluice.memory.journal.feature_memory import FeatureMemory
from sluice.memory.qdrant_schema import MemoryPayload, learning_point_id

_CHARACTERS_PER_TOKEN = 4
"""About, in English; what a chunk's estimate is made of."""


def document_of_record(
    record: IterationRecord, entry_id: str, project_path: str, embedding_model: str = ""
) -> ChunkedDocument:
    """An iteration, by the id of its entry in the journal."""
    payload = MemoryPayload.of_record(record, project_path, embedding_model)
    chunk_id = str(record.point_id(project_path))
    return _document(entry_id, chunk_id, record.embedding_text(), record.task_title or None, payload)


def document_of_learning(learning: FeatureLearning, project_path: str, embedding_model: str = "") -> ChunkedDocument:
    """A learning, by its id. Index it only where `is_indexed` says so, else remove it."""
    payload = MemoryPayload.of_learning(learning, project_path, embedding_model)
    return _document(learning.id, str(learning_point_id(project_path, learning)), learning.text, None, payload)


def is_indexed(learning: FeatureLearning) -> bool:
    """Whether a learning belongs into the index: a rejected or pruned one is removed from it."""
    return learning.state is LearningState.ACTIVE


def documents_of(state: FeatureMemory, project_path: str) -> Iterator[ChunkedDocument]:
    """All that the index is to hold of a feature: learnings first, then iterations, the newest first."""
    for learning in reversed(state.learnings.values()):
        if is_indexed(learning):
            yield document_of_learning(learning, project_path)
    for iteration in reversed(state.iterations.values()):
        yield document_of_record(iteration.record, iteration.entry_id, project_path)


def _document(document_id: str, chunk_id: str, text: str, title: str | None, payload: MemoryPayload) -> ChunkedDocument:
    chunk = Chunk(
        chunk_id=chunk_id,
        document_id=document_id,
        ordinal=0,
        text=text,
        start_line=1,
        end_line=1 + text.count("\n"),
        token_estimate=len(text) // _CHARACTERS_PER_TOKEN,
        checksum=sha256_text(text),
    )
    return ChunkedDocument(
        document_id=document_id,
        checksum=payload.embedding_hash,
        title=title,
        metadata=payload.as_metadata(),
        provenance=Provenance(source="submission", fetched_at=payload.timestamp),
        chunks=(chunk,),
    )
