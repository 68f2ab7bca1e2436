"""The operations on the memory of one project, independent of its storage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from sluice.contracts.api import RunAccepted
from sluice.contracts.memory import api
from sluice.contracts.memory.learning import FeatureLearning, LearningSource, LearningState


class MemoryPort(Protocol):
    """The memory of one project. `sluice.memory.Memory` keeps it in a folder, `cli.agent` reaches one in an instance.

    A method with a `feature` concerns that feature alone. Besides the errors that a method names, it raises
    `InvalidInput` for an invalid feature name, `Unavailable` if the journal cannot be read or written; for an instance
    also `Forbidden` if the feature is not the caller's, and `DiskFull`.
    """

    project_path: str
    where: str
    """The storage location, in words for people."""

    def record(
        self,
        feature: str,
        data: str | dict[str, Any] | list[Any],
        *,
        format: api.StreamFormat = "auto",
        context: api.IterationContext | None = None,
    ) -> api.IterationAccepted:
        """Record an iteration: the agent's output in one of the formats. The same output again adds nothing. Raises
        `InvalidInput`, with the remedy, if the output is in none of the formats."""
        ...

    def learn(
        self,
        feature: str,
        text: str,
        reason: str,
        source: LearningSource = LearningSource.AGENT,
        iteration: int = 0,
        task_id: int | None = None,
    ) -> api.LearningResult:
        """Add a learning, or count a repetition. Raises `InvalidInput` if text or reason is empty or too long."""
        ...

    def patch(self, feature: str, learning_id: str, change: api.LearningPatch) -> FeatureLearning:
        """Change or review one learning. Raises `NotFound` if the feature has no such learning, `InvalidInput` if the
        change is empty or does not fit."""
        ...

    def undo(self, feature: str, entry_id: str) -> Sequence[FeatureLearning]:
        """Undo counting a text as the repetition of a learning. Return the learning that it becomes; nothing if an
        equal one exists already. Raises `NotFound` if there is no such repetition."""
        ...

    def prune(self, feature: str) -> Sequence[FeatureLearning]:
        """Put aside learnings without effect: extracted by rule, observed once, and not reviewed. Returns them."""
        ...

    def learnings(
        self, feature: str, *, task_id: int | None = None, state: LearningState | None = LearningState.ACTIVE
    ) -> api.Learnings:
        """Return a feature's learnings in `state` (None: all), newest last. `task_id` leaves out those of other
        tasks."""
        ...

    def recall(self, feature: str, query: str, top_k: int | None = None, task_id: int | None = None) -> api.Recall:
        """Return the items that memory holds on a question, of this feature alone, best first."""
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
    ) -> api.PromptBlock:
        """Return the block for the next iteration's prompt, from the journal alone, so it includes the last iteration.
        Its content is recorded: an agent that only repeats it has learned nothing new."""
        ...

    def export(self, feature: str) -> Iterator[str]:
        """Yield every entry of a feature's journal as a line of JSON, oldest first."""
        ...

    def features(self) -> Sequence[str]:
        """Return the features that have a journal, sorted."""
        ...

    def status(self) -> api.RagStatus:
        """Return whether index and embedder are available, the amounts remembered, and how far the index is behind."""
        ...

    def rebuild(self, feature: str | None = None) -> Sequence[RunAccepted]:
        """Bring the index of one feature or of all up to date: a folder's on return, an instance's by the runs that it
        returns. Raises `NotFound` if an instance has no memory of the feature."""
        ...

    def prove(self, feature: str) -> api.MemoryProof:
        """Compare the stored state of a feature, in memory and in the index, with its journal."""
        ...

    def drop_orphans(self) -> Sequence[str]:
        """Remove collections of the project's index that have no journal; returns their names."""
        ...
