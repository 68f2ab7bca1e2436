"""The state of one feature: the sum of its journal's entries."""

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


@dataclass(slots=True)
class FeatureMemory:
    """Folded from entries in the order of the journal, by `memory.journal.fold` alone.

    A state that a journal returned never changes: new entries are folded into a copy.
    """

    feature: str
    iterations: dict[str, RecordedIteration] = field(default_factory=dict)
    """By entry id, in the order in which they were recorded."""
    highest_iteration: int = 0
    """Highest number of an iteration; 0 if there is none."""
    moments: list[datetime] = field(default_factory=list)
    """Times of the iterations, in order: the age of a thing is the number of iterations after it."""
    learnings: dict[str, FeatureLearning] = field(default_factory=dict)
    """By learning id, each in its current form, the oldest first."""
    conflicts: dict[tuple[str, str], str] = field(default_factory=dict)
    """Open conflicts: the two learnings, the smaller id first, with the evidence."""
    dormant_conflicts: dict[tuple[str, str], str] = field(default_factory=dict)
    """Undecided conflicts of which one learning is not offered: they reopen when it is offered."""
    own_sources: dict[str, LearningSource] = field(default_factory=dict)
    """By learning id, the highest source that added, edited or accepted it: repetitions can be undone."""
    repetitions: dict[str, LearningRepeated] = field(default_factory=dict)
    """By entry id, repetitions that were not undone."""
    printed: list[BlockPrinted] = field(default_factory=list)
    shown_in: set[tuple[str, int]] = field(default_factory=set)
    """Pairs of a learning's id and the number of an iteration whose prompt showed it."""
    distilled: set[str] = field(default_factory=set)
    """Entry ids of iterations that were searched for learnings."""
    weighed: set[tuple[str, str]] = field(default_factory=set)
    """Pairs of a learning's id and an iteration's entry id."""
    entry_ids: set[str] = field(default_factory=set)

    def copy(self) -> FeatureMemory:
        """Return the same state, to be changed apart from this one; the values in it are frozen and shared."""
        return FeatureMemory(**{one.name: copy(getattr(self, one.name)) for one in fields(self)})

    def active(self, task_id: int | None = None) -> list[FeatureLearning]:
        """Return the offered learnings; with `task_id`, only those of the whole feature and of that task."""
        return [one for one in self.learnings.values() if is_offered(one, task_id)]

    def successors(self, task_id: int | None = None) -> dict[str, str]:
        """Return, by the id of each retired learning, the offered one that stands in its place now."""
        found: dict[str, str] = {}
        for one in self.learnings.values():
            last, seen = one, {one.id}
            while last.retired_by in self.learnings and last.retired_by not in seen:
                last = self.learnings[last.retired_by]
                seen.add(last.id)
            if last is not one and is_offered(last, task_id):
                found[one.id] = last.id
        return found

    def in_order(self) -> list[RecordedIteration]:
        """Return the iterations as they happened: numbers begin anew with a new loop, time does not."""
        return sorted(self.iterations.values(), key=lambda one: one.record.timestamp)

    def next_iteration(self) -> int:
        """Return the number after the highest one."""
        return 1 + self.highest_iteration


def is_offered(learning: FeatureLearning, task_id: int | None) -> bool:
    """Return whether a learning is active and, if `task_id` is given, of the whole feature or of that task."""
    is_of_task = learning.task_id is None or task_id is None or learning.task_id == task_id
    return learning.state is LearningState.ACTIVE and is_of_task
