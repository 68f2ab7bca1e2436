"""Memory in the configured instance, which this command works with as the HTTP interface does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from sluice.contracts.memory.api import (
    IterationAccepted,
    IterationContext,
    IterationSubmission,
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
from sluice.memory.journal.entry import JournalEntry
from sluice.workers.context import Context
from sluice.workers.service.caller import OWN_MACHINE
from sluice.workers.service.memory.desk import MemoryDesk
from sluice.workers.service.memory.upkeep import MemoryUpkeep
from sluice.workers.service.service import Service


class InstanceMemory:
    """The memory of one project in an instance. Its methods are those of `FolderMemory`."""

    def __init__(self, context: Context, project: str) -> None:
        service = Service(context)
        self.context = context
        self.project = project
        self.where = f"the instance in {context.settings.data_dir}"
        self._desk = MemoryDesk(context, service)
        self._upkeep = MemoryUpkeep(context, service, self._desk.memories)

    def record(self, feature: str, data: Any, format: StreamFormat, context: IterationContext) -> IterationAccepted:
        """Remember an iteration."""
        submission = IterationSubmission(
            project=self.project, feature=feature, format=format, data=data, context=context
        )
        return self._desk.record(submission, OWN_MACHINE)

    def learn(self, request: LearningRequest) -> LearningResult:
        """Add a learning."""
        return self._desk.learn(request, OWN_MACHINE)

    def patch(self, feature: str, learning_id: str, changes: LearningPatch) -> FeatureLearning:
        """Change or review one learning."""
        return self._desk.patch(self.project, feature, learning_id, changes, OWN_MACHINE)

    def undo(self, feature: str, entry_id: str) -> int:
        """Take back that a text was counted as a repetition; how many entries that made."""
        return self._desk.undo(self.project, feature, entry_id, OWN_MACHINE)

    def learnings(self, feature: str, task_id: int | None) -> Learnings:
        """Every learning, the newest last."""
        return self._desk.learnings(self.project, feature, OWN_MACHINE, task_id=task_id)

    def recall(self, feature: str, query: str, top_k: int, task_id: int | None) -> Recall:
        """What memory holds on a question."""
        return self._desk.recall(self.project, feature, query, OWN_MACHINE, top_k=top_k, task_id=task_id)

    def prompt(self, feature: str, **wanted: Any) -> PromptBlock:
        """A block for the next iteration's prompt."""
        return self._desk.prompt(self.project, feature, OWN_MACHINE, **wanted)

    def prune(self, feature: str) -> Iterable[FeatureLearning]:
        """Take out of use what nothing came of."""
        return self._desk.prune(self.project, feature, OWN_MACHINE)

    def export(self, feature: str) -> Iterator[JournalEntry]:
        """Every entry of the journal."""
        return self._desk.export(self.project, feature, OWN_MACHINE)

    def features(self) -> Iterable[str]:
        """The features that have a journal."""
        return self._upkeep.features(self.project, OWN_MACHINE)

    def status(self) -> RagStatus:
        """How memory fares."""
        return self._upkeep.status(self.project, OWN_MACHINE)

    def rebuild(self, feature: str | None) -> list[str]:
        """Send what the index lacks; the ids of the runs that bring it."""
        sent = self._upkeep.rebuild(self.project, OWN_MACHINE, feature)
        return [one.run.run_id for one in sent if one.run is not None]

    def prove(self, feature: str) -> MemoryProof:
        """Compare what is held with the journal."""
        return self._upkeep.prove(self.project, OWN_MACHINE, feature)[0]

    def orphans(self) -> tuple[str, ...]:
        """Collections of the index that no journal stands behind."""
        return self._upkeep.orphans(self.project, OWN_MACHINE)

    def remove_orphans(self) -> None:
        """Remove what they hold."""
        for corpus in self.orphans():
            self._upkeep.remove_orphan(self.project, corpus, OWN_MACHINE)
