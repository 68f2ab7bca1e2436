"""What can be done with the memory of one project, wherever it is kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

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


class MemoryPort(Protocol):
    """The memory of one project. `sluice.memory.Memory` keeps it in a folder, `cli.memory` reaches one in an instance.

    Every method names a feature, and concerns that feature alone. Besides the errors that a method names:
    `InvalidInput` where the feature is no name, `Unavailable` where the journal cannot be read or written; of an
    instance also `Forbidden` where the feature is not the caller's, and `DiskFull`.
    """

    project_path: str
    where: str
    """Where it is kept, in words for people."""

    def record(
        self,
        feature: str,
        data: str | dict[str, Any] | list[Any],
        *,
        format: StreamFormat = "auto",
        context: IterationContext | None = None,
    ) -> IterationAccepted:
        """Remember an iteration: the agent's output in one of the formats. The same output again adds nothing.

        Raises:
            InvalidInput: the output is in none of the formats; names the remedy.
        """
        ...

    def learn(
        self,
        feature: str,
        text: str,
        reason: str,
        source: LearningSource = LearningSource.AGENT,
        iteration: int = 0,
        task_id: int | None = None,
    ) -> LearningResult:
        """Add a learning; one that says the same as an earlier one is counted there, an opposite is kept beside it.

        Raises:
            InvalidInput: the text or the reason is empty or too long.
        """
        ...

    def patch(self, feature: str, learning_id: str, change: LearningPatch) -> FeatureLearning:
        """Change or review one learning. There is no way to replace them all at once.

        Raises:
            NotFound: the feature has no such learning.
            InvalidInput: the change says nothing, or does not fit.
        """
        ...

    def undo(self, feature: str, entry_id: str) -> Sequence[FeatureLearning]:
        """Take back that a text was counted as saying the same as a learning: it becomes one of its own.

        Returns the learning that this added; nothing where an equal one stands already.

        Raises:
            NotFound: no such repetition stands.
        """
        ...

    def prune(self, feature: str) -> Sequence[FeatureLearning]:
        """Put aside learnings that nothing came of: found by rule, once, and looked at by nobody. Returns them."""
        ...

    def learnings(
        self, feature: str, *, task_id: int | None = None, state: LearningState | None = LearningState.ACTIVE
    ) -> Learnings:
        """The learnings of a feature, the newest last: those in one state, or with None all.

        `task_id` leaves out those that are about another task.
        """
        ...

    def recall(self, feature: str, query: str, top_k: int | None = None, task_id: int | None = None) -> Recall:
        """What memory holds on a question, of this feature alone, the best first."""
        ...

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
        """The block for the next iteration's prompt, made from the journal alone, so it knows the last iteration.

        What it says is recorded: an agent that only repeats it has learned nothing new.
        """
        ...

    def export(self, feature: str) -> Iterator[str]:
        """Every entry of a feature's journal as a line of JSON, the oldest first."""
        ...

    def features(self) -> Sequence[str]:
        """The features that have a journal, sorted."""
        ...

    def status(self) -> RagStatus:
        """Whether index and embedder are there, what is remembered, and how far the index is behind."""
        ...

    def rebuild(self, feature: str | None = None) -> Sequence[RunAccepted]:
        """Bring the index up to date, of one feature or of all.

        A folder's is so when this returns. Of an instance's it returns the runs that do so.

        Raises:
            NotFound: an instance remembers nothing of that feature.
        """
        ...

    def prove(self, feature: str) -> MemoryProof:
        """Compare what is held of a feature, in memory and in the index, with its journal."""
        ...

    def drop_orphans(self) -> Sequence[str]:
        """Remove collections of the project's index that no journal stands behind; returns their names."""
        ...
