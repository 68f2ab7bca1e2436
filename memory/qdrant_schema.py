"""Layout of memory in a search index: a collection for each feature, the payload of its points, and documents.

The names are Qdrant's; the local index keeps the same, with a corpus for a collection. The index is not the truth: all
of it is made from the journals, and may be dropped and made again. Iterations and learnings are documents of one chunk,
which the pipeline of chunk, embed and index takes. A document's id is that of the entry or of the learning; its
checksum is the hash of the embedded text, so the index takes equal text only once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from sluice.contracts.base import Moment, Sha256, Value
from sluice.contracts.document import Chunk, ChunkedDocument, Provenance, Scalar, sha256_text
from sluice.contracts.memory.learning import FeatureLearning, LearningSource, LearningState
from sluice.contracts.memory.model import IterationOutcome, IterationRecord, ModelTier, point_id
from sluice.contracts.memory.names import FeatureName, ProjectPath
from sluice.memory.journal.feature_memory import FeatureMemory

COLLECTION_NAME = re.compile(r"[0-9a-f]{8}-[0-9a-f]{8}")


class RecordType(StrEnum):
    """Kind of a point. Memory writes `Iteration` and `Learning`.

    `FeatureSnapshot` and `Metadata` are names of the same schema for other contents of a collection. A learning is
    neither: it is not the state of a whole feature, and it is searched as iterations are.
    """

    ITERATION = "Iteration"
    LEARNING = "Learning"
    FEATURE_SNAPSHOT = "FeatureSnapshot"
    METADATA = "Metadata"


class CollectionConfig(Value):
    """Settings of building and searching a collection."""

    hnsw_m: Annotated[int, Field(ge=4, le=128)] = 16
    """Edges per node of Qdrant's graph: Qdrant's own default, ample for some thousands of points. The local index
    compares every vector and needs no graph."""
    ef_construct: Annotated[int, Field(ge=16, le=1_000)] = 100
    """Neighbours examined when Qdrant's graph is built: Qdrant's own default."""
    size: Annotated[int, Field(ge=1, le=65_536)] = 384
    """Numbers per vector: those of all-MiniLM-L6-v2."""
    distance: Literal["Cosine"] = "Cosine"
    """Vectors have length 1, so the cosine is their inner product."""
    least_relevance: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Least relevance of a recalled document; 0 leaves the choice to the ranking."""


class MemoryPayload(Value):
    """Payload of a point beside its vector: the fields for searching and filtering.

    Counters (how often a learning was shown, used, of help) stand in the journal: they change with every iteration.
    """

    record_type: RecordType
    project_path: ProjectPath
    feature: FeatureName
    iteration_number: Annotated[int, Field(ge=0)]
    timestamp: Moment
    embedding_hash: Sha256
    """SHA-256 of the embedded text: equal text is not embedded again."""
    embedding_model: str = ""
    """Fingerprint of the model that made the vector; empty if unknown when the payload is made."""
    task_id: Annotated[int, Field(ge=0)] | None = None
    task_title: str = ""
    discipline: str = ""
    outcome: IterationOutcome | None = None
    error_types: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    model_tier: ModelTier | None = None
    source: LearningSource | None = None
    reviewed: bool | None = None

    @classmethod
    def of_record(cls, record: IterationRecord, project_path: str, embedding_model: str = "") -> MemoryPayload:
        """Build the payload of an iteration."""
        return cls(
            record_type=RecordType.ITERATION,
            project_path=project_path,
            feature=record.feature,
            iteration_number=record.iteration_number,
            timestamp=record.timestamp,
            embedding_hash=sha256_text(record.embedding_text()),
            embedding_model=embedding_model,
            task_id=record.task_id,
            task_title=record.task_title,
            discipline=record.discipline,
            outcome=record.outcome,
            error_types=tuple(dict.fromkeys(one.error_type.value for one in record.errors if one.error_type)),
            files=tuple(dict.fromkeys(one.path for one in record.files_touched)),
            model_tier=record.model_tier,
        )

    @classmethod
    def of_learning(cls, learning: FeatureLearning, project_path: str, embedding_model: str = "") -> MemoryPayload:
        """Build the payload of a learning."""
        return cls(
            record_type=RecordType.LEARNING,
            project_path=project_path,
            feature=learning.feature,
            iteration_number=learning.iteration,
            timestamp=learning.timestamp,
            embedding_hash=sha256_text(learning.text),
            embedding_model=embedding_model,
            task_id=learning.task_id,
            source=learning.source,
            reviewed=learning.reviewed,
        )

    def as_metadata(self) -> dict[str, Scalar]:
        """Return the non-empty fields as scalars: lists joined by commas, the moment in ISO 8601."""
        plain = self.model_dump(mode="json", exclude_none=True)
        joined = {name: ",".join(value) if isinstance(value, list) else value for name, value in plain.items()}
        return {name: value for name, value in joined.items() if value != ""}


def collection_name(project_path: str, feature: str) -> str:
    """Return `{project}-{feature}`, eight hexadecimal digits of each name's SHA-256; valid as a corpus name, too.

    64 bits in all: that two features of one project share a collection has a chance of 1 % at 10,000 features. So each
    payload also names its project and its feature in full.
    """
    return f"{sha256_text(project_path)[:8]}-{sha256_text(feature)[:8]}"


def is_memory_corpus(name: str) -> bool:
    """Return whether a corpus has the name of a collection: then it is memory's, which alone writes to it."""
    return COLLECTION_NAME.fullmatch(name) is not None


def expected_collections(project_path: str, features: Iterable[str]) -> frozenset[str]:
    """Return the collections of a project's features."""
    return frozenset(collection_name(project_path, feature) for feature in features)


def orphan_collections(existing: Iterable[str], project_path: str, features: Iterable[str]) -> tuple[str, ...]:
    """Return, sorted, the collections in `existing` of this project that belong to no feature; never another's."""
    expected, own = expected_collections(project_path, features), sha256_text(project_path)[:8]
    found = (name for name in existing if is_memory_corpus(name) and name.startswith(f"{own}-"))
    return tuple(sorted(set(found) - expected))


_CHARACTERS_PER_TOKEN = 4
"""Approximate, for English; used to estimate a chunk's tokens."""


def document_of_record(
    record: IterationRecord, entry_id: str, project_path: str, embedding_model: str = ""
) -> ChunkedDocument:
    """Build the document of an iteration, by the id of its entry in the journal."""
    payload = MemoryPayload.of_record(record, project_path, embedding_model)
    chunk_id = str(record.point_id(project_path))
    return _document(entry_id, chunk_id, record.embedding_text(), record.task_title or None, payload)


def document_of_learning(learning: FeatureLearning, project_path: str, embedding_model: str = "") -> ChunkedDocument:
    """Build the document of a learning, by its id. Index it only if `is_indexed` says so, else remove it."""
    payload = MemoryPayload.of_learning(learning, project_path, embedding_model)
    return _document(
        learning.id, str(point_id(project_path, learning.feature, learning.id)), learning.text, None, payload
    )


def is_indexed(learning: FeatureLearning) -> bool:
    """Return whether a learning belongs in the index: a rejected or pruned one is removed from it."""
    return learning.state is LearningState.ACTIVE


def documents_of(state: FeatureMemory, project_path: str) -> Iterator[ChunkedDocument]:
    """Yield all that the index should hold of a feature: learnings first, then iterations, the newest first."""
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
