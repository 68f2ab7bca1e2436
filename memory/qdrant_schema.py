"""Layout of memory in a search index: a collection for each feature, and the payload of its points.

The names are Qdrant's; the local index keeps the same, a corpus for a collection. Nothing here is the truth: all of it
is made from the journals, and may be dropped and made again.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from sluice.contracts.base import Moment, Sha256, Value
from sluice.contracts.document import Scalar, sha256_text
from sluice.contracts.memory.learning import FeatureLearning, LearningSource
from sluice.contracts.memory.model import IterationOutcome, IterationRecord, ModelTier, point_id
from sluice.contracts.memory.names import FeatureName, ProjectPath

COLLECTION_NAME = re.compile(r"[0-9a-f]{8}-[0-9a-f]{8}")


class RecordType(StrEnum):
    """What a point stands for. `Iteration` and `Learning` are written here.

    `FeatureSnapshot` and `Metadata` are names of the same schema for what others may keep in a collection. A learning
    is neither: it is not the state of a whole feature, and it is searched as iterations are.
    """

    ITERATION = "Iteration"
    LEARNING = "Learning"
    FEATURE_SNAPSHOT = "FeatureSnapshot"
    METADATA = "Metadata"


class CollectionConfig(Value):
    """How a collection is built and searched."""

    hnsw_m: Annotated[int, Field(ge=4, le=128)] = 16
    """Edges of a node of the graph, of Qdrant alone: its own default, ample for some thousands of points. The local
    index compares every vector and needs no graph."""
    ef_construct: Annotated[int, Field(ge=16, le=1_000)] = 100
    """Neighbours looked at when the graph is built, of Qdrant alone: its own default."""
    size: Annotated[int, Field(ge=1, le=65_536)] = 384
    """Numbers of a vector: those of all-MiniLM-L6-v2."""
    distance: Literal["Cosine"] = "Cosine"
    """Vectors have length 1, so it is their inner product."""
    least_relevance: Annotated[float, Field(ge=0, le=1)] = 0.0
    """What is less relevant is not recalled; 0 leaves that to the ranking."""


class MemoryPayload(Value):
    """What a point carries beside its vector: by what it may be searched and filtered.

    Counters (how often a learning was shown, used, of help) are not here: they change with every iteration, and the
    journal has them.
    """

    record_type: RecordType
    project_path: ProjectPath
    feature: FeatureName
    iteration_number: Annotated[int, Field(ge=0)]
    timestamp: Moment
    embedding_hash: Sha256
    """SHA-256 of the text that is embedded: an equal one is not embedded again."""
    embedding_model: str = ""
    """Fingerprint of the model that made the vector; empty where that is not known when the payload is made."""
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
        """The payload of an iteration."""
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
        """The payload of a learning."""
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
        """The fields that say something, as scalars: lists joined by commas, the moment in ISO 8601."""
        plain = self.model_dump(mode="json", exclude_none=True)
        joined = {name: ",".join(value) if isinstance(value, list) else value for name, value in plain.items()}
        return {name: value for name, value in joined.items() if value != ""}


def collection_name(project_path: str, feature: str) -> str:
    """Eight hexadecimal digits of each name's SHA-256: `{project}-{feature}`. It is a corpus name of an instance too.

    64 bits in all: that two features of one project share a collection has a chance of 1 % at 10,000 features. So each
    payload also names its project and its feature in full.
    """
    return f"{_digits(project_path)}-{_digits(feature)}"


def expected_collections(project_path: str, features: Iterable[str]) -> frozenset[str]:
    """The collections that a project's features have."""
    return frozenset(collection_name(project_path, feature) for feature in features)


def orphan_collections(existing: Iterable[str], project_path: str, features: Iterable[str]) -> tuple[str, ...]:
    """Of `existing`, those of this project that no feature of it stands behind, sorted. Others' are never named."""
    expected, own = expected_collections(project_path, features), _digits(project_path)
    found = (name for name in existing if COLLECTION_NAME.fullmatch(name) and name.startswith(f"{own}-"))
    return tuple(sorted(set(found) - expected))


def learning_point_id(project_path: str, learning: FeatureLearning) -> uuid.UUID:
    """The same id for the same learning of the same project, as `IterationRecord.point_id` gives for an iteration."""
    return point_id(project_path, learning.feature, learning.id)


def _digits(name: str) -> str:
    return sha256_text(name)[:8]
