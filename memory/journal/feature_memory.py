"""The state of one feature: what the entries of its journal add up to."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field, fields
from datetime import datetime

from sluice.contracts.memory.learning import FeatureLearning, LearningSource, LearningState
from sluice.contracts.memory.model import IterationRecord
from sluice.memory.journal.entry import BlockPrinted, LearningRepeated


@dataclass(frozen=True, slots=True)
class RecordedIteration:
    """An iteration and the id of its entry."""

    entry_id: str
    record: IterationRecord
    recorded_at: datetime


@dataclass(slots=True)
class FeatureMemory:
    """Folded from entries in the order in which they stand. Only `memory.journal.fold` changes it.

    What a journal hands out is never changed afterwards: new entries are folded into a copy.
    """

    feature: str
    iterations: dict[str, RecordedIteration] = field(default_factory=dict)
    """By entry id, in the order in which they were recorded."""
    highest_iteration: int = 0
    """The highest number of an iteration; 0 where there is none."""
    moments: list[datetime] = field(default_factory=list)
    """When iterations happened, in order: the age of a thing is how many came after it."""
    learnings: dict[str, FeatureLearning] = field(default_factory=dict)
    """By learning id, each as it stands now, the oldest first."""
    conflicts: dict[tuple[str, str], str] = field(default_factory=dict)
    """Open ones: the two learnings, the smaller id first, with the evidence."""
    dormant_conflicts: dict[tuple[str, str], str] = field(default_factory=dict)
    """Undecided ones of which one learning is not offered: they are open again when it is."""
    own_sources: dict[str, LearningSource] = field(default_factory=dict)
    """By learning id, the highest source that added, edited or accepted it: what repeated it can be undone."""
    repetitions: dict[str, LearningRepeated] = field(default_factory=dict)
    """By entry id: those that were not undone."""
    printed: list[BlockPrinted] = field(default_factory=list)
    shown_in: set[tuple[str, int]] = field(default_factory=set)
    """Pairs of a learning's id and the number of an iteration in whose prompt it stood."""
    distilled: set[str] = field(default_factory=set)
    """Entry ids of iterations that were looked through for learnings."""
    weighed: set[tuple[str, str]] = field(default_factory=set)
    """Pairs of a learning's id and an iteration's entry id."""
    entry_ids: set[str] = field(default_factory=set)

    def copy(self) -> FeatureMemory:
        """The same state, to be changed apart from this one; the values in it are frozen and shared."""
        return FeatureMemory(**{one.name: copy(getattr(self, one.name)) for one in fields(self)})

    def active(self, task_id: int | None = None) -> list[FeatureLearning]:
        """Learnings that are offered: those of the whole feature, and those of `task_id` where one is given."""
        return [one for one in self.learnings.values() if is_offered(one, task_id)]

    def latest(self, count: int) -> list[RecordedIteration]:
        """The last iterations, the newest last, by iteration number and then by when they were recorded."""
        ordered = sorted(self.iterations.values(), key=lambda one: (one.record.iteration_number, one.recorded_at))
        return ordered[-count:] if count else []

    def next_iteration(self) -> int:
        """The number that follows the highest one."""
        return 1 + self.highest_iteration


def is_offered(learning: FeatureLearning, task_id: int | None) -> bool:
    """Whether a learning is active, and of the whole feature or of `task_id` where one is given."""
    is_of_task = learning.task_id is None or task_id is None or learning.task_id == task_id
    return learning.state is LearningState.ACTIVE and is_of_task
