"""Memory in a running instance, over HTTP. Where it does not run, `workers.service.memory` is used on its data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

from pydantic import TypeAdapter

from sluice.cli.connection import given
from sluice.contracts.api import RunAccepted
from sluice.contracts.memory.api import (
    IterationAccepted,
    IterationContext,
    LearningPatch,
    LearningResult,
    Learnings,
    MemoryProof,
    PromptBlock,
    RagStatus,
    Recall,
    StreamFormat,
)
from sluice.contracts.memory.learning import FeatureLearning, LearningSource, LearningState
from sluice_client import SluiceClient

Answer = TypeVar("Answer")


class InstanceMemory:
    """A `MemoryPort` of one project, kept by the instance that the client speaks to."""

    def __init__(self, client: SluiceClient, project: str) -> None:
        """`client` answers with JSON objects, as `cli.connection.connected` gives one."""
        self.project_path = project
        self.where = f"the instance at {client.base_url}"
        self.client = client

    def record(
        self,
        feature: str,
        data: str | dict[str, Any] | list[Any],
        *,
        format: StreamFormat = "auto",
        context: IterationContext | None = None,
    ) -> IterationAccepted:
        """As `MemoryPort.record`."""
        told = context or IterationContext()
        answer = self.client.record_iteration(data, self.project_path, feature, format=format, context=told)
        return _as(IterationAccepted, answer)

    def learn(
        self,
        feature: str,
        text: str,
        reason: str,
        source: LearningSource = LearningSource.AGENT,
        iteration: int = 0,
        task_id: int | None = None,
    ) -> LearningResult:
        """As `MemoryPort.learn`."""
        fields = given(source=source, iteration=iteration, task_id=task_id)
        return _as(LearningResult, self.client.add_learning(text, self.project_path, feature, reason=reason, **fields))

    def patch(self, feature: str, learning_id: str, change: LearningPatch) -> FeatureLearning:
        """As `MemoryPort.patch`."""
        changes = change.model_dump(mode="json", exclude_none=True)
        return _as(FeatureLearning, self.client.change_learning(learning_id, self.project_path, feature, **changes))

    def undo(self, feature: str, entry_id: str) -> list[FeatureLearning]:
        """As `MemoryPort.undo`."""
        return _as(list[FeatureLearning], self.client.undo_repetition(entry_id, self.project_path, feature))

    def prune(self, feature: str) -> list[FeatureLearning]:
        """As `MemoryPort.prune`."""
        return _as(list[FeatureLearning], self.client.prune_learnings(self.project_path, feature))

    def learnings(
        self, feature: str, *, task_id: int | None = None, state: LearningState | None = LearningState.ACTIVE
    ) -> Learnings:
        """As `MemoryPort.learnings`."""
        return _as(Learnings, self.client.learnings(self.project_path, feature, state=state, task_id=task_id))

    def recall(self, feature: str, query: str, top_k: int | None = None, task_id: int | None = None) -> Recall:
        """As `MemoryPort.recall`."""
        wanted = given(top_k=top_k, task_id=task_id)
        return _as(Recall, self.client.recall(query, self.project_path, feature, **wanted))

    def prompt(
        self,
        feature: str,
        *,
        iteration_number: int | None = None,
        session_id: str | None = None,
        task_id: int | None = None,
        query: str = "",
        max_tokens: int | None = None,
    ) -> PromptBlock:
        """As `MemoryPort.prompt`."""
        answer = self.client.memory_prompt(
            self.project_path,
            feature,
            iteration=iteration_number,
            session=session_id,
            task_id=task_id,
            query=query,
            max_tokens=max_tokens,
        )
        return _as(PromptBlock, answer)

    def export(self, feature: str) -> Iterator[str]:
        """As `MemoryPort.export`."""
        return (line for line in self.client.memory_export(self.project_path, feature).split("\n") if line)

    def features(self) -> list[str]:
        """As `MemoryPort.features`."""
        return self.client.memory_features(self.project_path)

    def status(self) -> RagStatus:
        """As `MemoryPort.status`."""
        return _as(RagStatus, self.client.memory_status(self.project_path))

    def rebuild(self, feature: str | None = None) -> list[RunAccepted]:
        """As `MemoryPort.rebuild`."""
        return _as(list[RunAccepted], self.client.rebuild_memory(self.project_path, feature))

    def prove(self, feature: str) -> MemoryProof:
        """As `MemoryPort.prove`."""
        return _as(MemoryProof, self.client.prove_memory(self.project_path, feature))

    def drop_orphans(self) -> list[str]:
        """As `MemoryPort.drop_orphans`."""
        return self.client.drop_memory_orphans(self.project_path)


def _as(kind: type[Answer], answer: Any) -> Answer:
    """A JSON object as the value that the server made it of."""
    return TypeAdapter(kind).validate_python(answer)
