"""What agents remember, whichever door they come through: record, learn, recall, and blocks for prompts.

The journal of the feature is written first, in one append; what is in it is in the next prompt. Only then is a run
recorded that brings it into the index. Where there is no room for that run, or the process is killed in between, the
journal has what the index lacks, and the reconciler's process sends it later.

Every method takes the caller, whose key must list the corpus of the feature: the name of its collection.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from sluice.contracts.api import RunAccepted
from sluice.contracts.errors import Forbidden, NotFound, Overloaded
from sluice.contracts.event import Body
from sluice.contracts.memory.api import (
    IterationAccepted,
    IterationSubmission,
    LearningPatch,
    LearningRequest,
    LearningResult,
    Learnings,
    PromptBlock,
    Recall,
)
from sluice.contracts.memory.events import IterationRecorded, LearningChanged
from sluice.contracts.memory.learning import FeatureLearning, LearningSource, LearningState
from sluice.contracts.memory.names import MemoryScope
from sluice.contracts.outcome import Next
from sluice.memory.journal.entry import JournalEntry
from sluice.memory.qdrant_schema import collection_name
from sluice.otel import metrics
from sluice.workers.runtime.disk_room import DiskRoom
from sluice.workers.service.memory.search import InstanceIndex

if TYPE_CHECKING:
    from sluice.memory.memory import Memory
    from sluice.workers.context import Context
    from sluice.workers.service.caller import Caller
    from sluice.workers.service.service import Service


class MemoryDesk:
    """The memory of one instance's projects. Safe for threads."""

    def __init__(self, context: Context, service: Service) -> None:
        self._context = context
        self._service = service
        self._room = DiskRoom(context.settings.data_dir)
        by_model = context.memory_model.is_there  # then a worker asks it: no request waits for it
        self.memories = context.open_memories(partial(InstanceIndex, context), derives=not by_model)

    def record(self, submission: IterationSubmission, caller: Caller) -> IterationAccepted:
        """Remember an iteration. The same submission again gives the same entry and the same run.

        `run` is None where the queues have no room: the index follows later.

        Raises:
            Forbidden: the feature is not the caller's.
            InvalidInput: the output is none of its format; names the field.
            DiskFull: the disk is short of room.
        """
        corpus = self._own_corpus(caller, submission.project, submission.feature)
        self._room.require()
        memory = self.memories.founded(submission.project)
        recorded = memory.record(
            submission.feature, submission.data, format=submission.format, context=submission.context
        )
        metrics.MEMORY_ITERATIONS.labels(recorded.record.outcome.value).inc(recorded.is_new)
        told = IterationRecorded(project=submission.project, feature=submission.feature, entry_ids=(recorded.entry_id,))
        run = self._begin(corpus, told, caller, recorded.entry_id)
        return IterationAccepted(
            entry_id=recorded.entry_id,
            is_new=recorded.is_new,
            record=recorded.record,
            stagnating=recorded.stagnating,
            run=run,
        )

    def learn(self, request: LearningRequest, caller: Caller) -> LearningResult:
        """Add a learning: it is new, repeats one, contradicts one, only echoes a prompt, or is refused.

        Raises:
            Forbidden: the feature is not the caller's, or the key may not speak for a person.
            DiskFull: the disk is short of room.
        """
        corpus = self._own_corpus(caller, request.project, request.feature)
        _may_speak_as(request.source, caller)
        self._room.require()
        result = self.memories.founded(request.project).learn(
            request.feature, request.text, request.reason, request.source, request.iteration, request.task_id
        )
        metrics.MEMORY_LEARNINGS.labels(result.verdict).inc()
        if result.learning is None or result.verdict not in ("unique", "conflict"):
            return result
        return result.model_copy(
            update={"run": self._tell_changed(corpus, request.project, request.feature, [result.learning], caller)}
        )

    def patch(
        self, project: str, feature: str, learning_id: str, changes: LearningPatch, caller: Caller
    ) -> FeatureLearning:
        """Change or review one learning.

        Raises:
            Forbidden: the feature is not the caller's, or the key may not speak for a person.
            NotFound: it has no such learning.
            InvalidInput: a change is none.
        """
        corpus = self._own_corpus(caller, project, feature)
        _may_speak_as(changes.source, caller)
        self._room.require()
        memory = self._existing(project, feature)
        before = dict(memory.journal(feature).read().learnings)
        changed = memory.patch(feature, learning_id, changes)
        after = memory.journal(feature).read().learnings
        self._tell_changed(
            corpus, project, feature, [one for name, one in after.items() if before.get(name) != one], caller
        )
        return changed

    def undo(self, project: str, feature: str, entry_id: str, caller: Caller) -> int:
        """Take back that a text was counted as saying the same as a learning; how many entries that made.

        Raises:
            Forbidden: the feature is not the caller's.
            NotFound: no such repetition stands.
        """
        corpus = self._own_corpus(caller, project, feature)
        self._room.require()
        memory = self._existing(project, feature)
        entries, learnings = memory.undo(feature, entry_id), memory.journal(feature).read().learnings
        added = [one.body.learning.id for one in entries if one.body.kind == "learning"]
        self._tell_changed(corpus, project, feature, [learnings[name] for name in added], caller)
        return len(entries)

    def learnings(
        self,
        project: str,
        feature: str,
        caller: Caller,
        *,
        state: LearningState | None = None,
        task_id: int | None = None,
    ) -> Learnings:
        """The learnings of a feature, the newest last: those in one state, or all.

        Raises:
            Forbidden: the feature is not the caller's.
        """
        self._own_corpus(caller, project, feature)
        found = self.memories.of(project).learnings(feature, task_id=task_id, every_state=True)
        chosen = tuple(one for one in found.learnings if state in (None, one.state))
        return found.model_copy(update={"learnings": chosen})

    def recall(
        self, project: str, feature: str, query: str, caller: Caller, *, top_k: int = 8, task_id: int | None = None
    ) -> Recall:
        """What memory holds on a question: by the index, or by the journal's own words where that is away.

        Raises:
            Forbidden: the feature is not the caller's.
        """
        self._own_corpus(caller, project, feature)
        recalled = self.memories.of(project).recall(feature, query, top_k, task_id)
        metrics.MEMORY_RECALL_SECONDS.labels(recalled.searched).observe(recalled.duration_ms / 1e3)
        return recalled

    def prompt(
        self,
        project: str,
        feature: str,
        caller: Caller,
        *,
        iteration_number: int | None = None,
        session_id: str | None = None,
        task_id: int | None = None,
        query: str = "",
        max_tokens: int | None = None,
    ) -> PromptBlock:
        """A block for the next iteration's prompt. What it says is written into the journal, against echoes.

        Raises:
            Forbidden: the feature is not the caller's.
            DiskFull: the disk is short of room.
        """
        self._own_corpus(caller, project, feature)
        self._room.require()
        return self.memories.of(project).prompt(
            feature,
            iteration_number=iteration_number,
            session_id=session_id,
            task_id=task_id,
            query=query,
            max_tokens=max_tokens or self._context.settings.memory.max_prompt_tokens,
        )

    def prune(self, project: str, feature: str, caller: Caller) -> Sequence[FeatureLearning]:
        """Take out of use what nothing came of: automatic, not reviewed, observed once. It can be taken back.

        Raises:
            Forbidden: the feature is not the caller's.
            NotFound: nothing was remembered of it.
        """
        corpus = self._own_corpus(caller, project, feature)
        self._room.require()
        pruned = self._existing(project, feature).prune(feature)
        self._tell_changed(corpus, project, feature, pruned, caller)
        return pruned

    def export(self, project: str, feature: str, caller: Caller) -> Iterator[JournalEntry]:
        """Every entry of a feature's journal, in order.

        Raises:
            Forbidden: the feature is not the caller's.
        """
        self._own_corpus(caller, project, feature)
        return self.memories.of(project).export(feature)

    def require_access(self, scope: MemoryScope, caller: Caller) -> None:
        """Refuse a feature that is not the caller's.

        Raises:
            Forbidden: the key does not list its corpus.
        """
        self._own_corpus(caller, scope.project, scope.feature)

    def _own_corpus(self, caller: Caller, project: str, feature: str) -> str:
        """The corpus of a feature, if it is the caller's. Whether anything is remembered of it is not looked at."""
        corpus = collection_name(project, feature)
        caller.may_touch(corpus)
        return corpus

    def _existing(self, project: str, feature: str) -> Memory:
        memory = self.memories.of(project)
        if feature not in memory.features():
            raise NotFound(f"nothing was remembered of feature {feature!r} of project {project!r} yet")
        return memory

    def _tell_changed(
        self, corpus: str, project: str, feature: str, learnings: Sequence[FeatureLearning], caller: Caller
    ) -> RunAccepted | None:
        """A run of its own for each change: what is taken back and rejected again has to leave the index again."""
        if not learnings:
            return None
        told = LearningChanged(project=project, feature=feature, learning_ids=tuple(one.id for one in learnings))
        return self._begin(corpus, told, caller)

    def _begin(self, corpus: str, body: Body, caller: Caller, key: str | None = None) -> RunAccepted | None:
        """The run that brings what the journal has into the index; None where there is no room for it now.

        A run of the same `key` is begun once.
        """
        name = None if key is None else f"memory:{corpus}:{key}"
        run = self._service.new_run("memory", corpus, owner=caller.owner, idempotency_key=name, fingerprint=key or "")
        try:
            return self._service.begin(replace(run, is_small=True), [Next(body)])
        except Overloaded:
            return None


def _may_speak_as(source: LearningSource, caller: Caller) -> None:
    """Refuse an agent's key the word of a person or of a reviewer, which outranks an agent's."""
    if source.priority > LearningSource.AGENT.priority and caller.role != "operator":
        raise Forbidden(f"this key may not speak as {source}: give source Agent, or use a key with the role operator")
