"""Memory in a folder of the project, opened by this command: no service is needed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from sluice.contracts.memory.api import (
    IterationAccepted,
    IterationContext,
    LearningPatch,
    LearningRequest,
    LearningResult,
    Learnings,
    MemoryProof,
    PromptBlock,
    RagStatus,
    Recall,
    StreamFormat,
)
from sluice.contracts.memory.learning import FeatureLearning
from sluice.memory import Memory
from sluice.memory.documents import documents_of
from sluice.memory.journal.compare import prove
from sluice.memory.journal.entry import JournalEntry
from sluice.memory.qdrant_schema import collection_name


class FolderMemory:
    """The memory of one project in a folder. Its methods are those of `InstanceMemory`."""

    def __init__(self, memory: Memory, where: str) -> None:
        self._memory = memory
        self.project = memory.project_path
        self.where = where

    def record(self, feature: str, data: Any, format: StreamFormat, context: IterationContext) -> IterationAccepted:
        """Remember an iteration."""
        recorded = self._memory.record(feature, data, format=format, context=context)
        return IterationAccepted(**recorded._asdict())

    def learn(self, request: LearningRequest) -> LearningResult:
        """Add a learning."""
        return self._memory.learn(
            request.feature, request.text, request.reason, request.source, request.iteration, request.task_id
        )

    def patch(self, feature: str, learning_id: str, changes: LearningPatch) -> FeatureLearning:
        """Change or review one learning."""
        return self._memory.patch(feature, learning_id, changes)

    def undo(self, feature: str, entry_id: str) -> int:
        """Take back that a text was counted as a repetition; how many entries that made."""
        return len(self._memory.undo(feature, entry_id))

    def learnings(self, feature: str, task_id: int | None) -> Learnings:
        """Every learning, the newest last."""
        return self._memory.learnings(feature, task_id=task_id, every_state=True)

    def recall(self, feature: str, query: str, top_k: int, task_id: int | None) -> Recall:
        """What memory holds on a question."""
        return self._memory.recall(feature, query, top_k, task_id)

    def prompt(self, feature: str, **wanted: Any) -> PromptBlock:
        """A block for the next iteration's prompt."""
        return self._memory.prompt(feature, **wanted)

    def prune(self, feature: str) -> Iterable[FeatureLearning]:
        """Take out of use what nothing came of."""
        return self._memory.prune(feature)

    def export(self, feature: str) -> Iterator[JournalEntry]:
        """Every entry of the journal."""
        return self._memory.export(feature)

    def features(self) -> Iterable[str]:
        """The features that have a journal."""
        return self._memory.features()

    def status(self) -> RagStatus:
        """How memory fares."""
        return self._memory.status()

    def rebuild(self, feature: str | None) -> list[str]:
        """Bring the index up to date, here and now."""
        self._memory.fill_index(feature)
        return []

    def prove(self, feature: str) -> MemoryProof:
        """Compare what is held with the journal."""
        journal, collection = self._memory.journal(feature), collection_name(self.project, feature)
        proof, documents = prove(journal), list(documents_of(journal.read(), self.project))
        lacking = self._memory.fill_index(feature)
        return MemoryProof(
            feature=feature,
            collection=collection,
            entries=proof.entries,
            state_sha256=proof.sha256,
            documents=len(documents),
            indexed=len(documents) - lacking,
            missing=(f"{lacking} documents",) if lacking else (),
            differences=proof.differences,
            problems=tuple(map(str, proof.problems)),
        )

    def orphans(self) -> tuple[str, ...]:
        """Collections of the index that no journal stands behind."""
        return self._memory.status().orphans

    def remove_orphans(self) -> None:
        """Remove them."""
        self._memory.drop_orphans()
