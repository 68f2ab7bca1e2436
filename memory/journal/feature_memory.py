"""The state of one feature: the sum of its journal's entries, which `fold` applies.
The same entries in the same order give the same state. An entry that names a missing thing is no error: the rest of it
is applied and the problem reported, as a damaged line before it may have held the thing.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any

from sluice.contracts.memory.api import MAX_ITERATION
from sluice.contracts.memory.learning import FeatureLearning, LearningSource, LearningState
from sluice.contracts.memory.model import IterationRecord
from sluice.memory.journal import entry as entries
from sluice.memory.journal.entry import BlockPrinted, JournalEntry, LearningRepeated


@dataclass(frozen=True, slots=True)
class RecordedIteration:
    """An iteration and the id of its entry."""

    entry_id: str
    record: IterationRecord


@dataclass(slots=True)
class FeatureMemory:
    """Folded from entries in the order of the journal, by `fold` alone.

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


Problems = tuple[str, ...]


def fold(state: FeatureMemory, entry: JournalEntry) -> Problems:
    """Change `state` by one entry; return a sentence for each part not applied. A known entry changes nothing."""
    if entry.id in state.entry_ids:
        return ()
    state.entry_ids.add(entry.id)
    return tuple(_apply(state, entry))


def _apply(state: FeatureMemory, entry: JournalEntry) -> Iterable[str]:
    match entry.body:
        case entries.IterationAdded(record=record):
            if record.feature != state.feature:
                return [f"a record of feature {record.feature!r} in the journal of {state.feature!r}"]
            state.iterations[entry.id] = RecordedIteration(entry.id, record)
            if record.iteration_number <= MAX_ITERATION:
                state.highest_iteration = max(state.highest_iteration, record.iteration_number)
            insort(state.moments, record.timestamp)
            return []
        case entries.IterationsDistilled(entry_ids=ids):
            state.distilled.update(ids)
            return _unknown_iterations(state, ids)
        case entries.LearningAdded(learning=learning):
            return _add(state, learning)
        case entries.LearningRepeated() as repeated:
            return _repeat(state, entry.id, repeated)
        case entries.RepetitionUndone(entry_id=entry_id):
            return _undo(state, entry_id)
        case entries.LearningPatched() as patch:
            return _patch(state, patch)
        case entries.LearningReviewed() as review:
            return _review(state, review)
        case entries.ConflictFound() as conflict:
            return _conflict(state, conflict)
        case entries.ConflictResolved() as resolved:
            return _resolve(state, resolved)
        case entries.BlockPrinted() as printed:
            return _print(state, printed)
        case entries.LearningWeighed() as weighed:
            return _weigh(state, weighed)
        case entries.LearningsPruned(learning_ids=ids):
            for one in ids:
                if one in state.learnings and state.learnings[one].state is LearningState.ACTIVE:
                    _set_state(state, one, LearningState.PRUNED)
            return _unknown(state, ids)


def _add(state: FeatureMemory, learning: FeatureLearning) -> list[str]:
    if learning.feature != state.feature:
        return [f"a learning of feature {learning.feature!r} in the journal of {state.feature!r}"]
    if learning.id in state.learnings:
        return [f"learning {learning.id} was added before"]
    state.learnings[learning.id] = learning.model_copy(update={"conflicts_with": ()})
    state.own_sources[learning.id] = learning.source
    problems = _unknown(state, (*learning.near_to, *learning.conflicts_with))
    for other in learning.conflicts_with:
        if other in state.learnings:
            _open_conflict(state, _pair(learning.id, other), "")
    return problems


def _repeat(state: FeatureMemory, entry_id: str, repeated: entries.LearningRepeated) -> list[str]:
    if problems := _unknown(state, [repeated.learning_id]):
        return problems
    state.repetitions[entry_id] = repeated
    before = state.learnings[repeated.learning_id]
    source = _higher(before.source, repeated.source)
    _change(state, before.id, hit_count=before.hit_count + 1, source=source)
    _revive(state, repeated.learning_id)
    return []


def _undo(state: FeatureMemory, entry_id: str) -> list[str]:
    repeated = state.repetitions.pop(entry_id, None)
    if repeated is None:
        return [f"no repetition {entry_id}, or it was undone before"]
    _change(state, repeated.learning_id, hit_count=max(1, state.learnings[repeated.learning_id].hit_count - 1))
    _refresh_source(state, repeated.learning_id)
    return []


def _patch(state: FeatureMemory, patch: entries.LearningPatched) -> list[str]:
    if problems := _unknown(state, [patch.learning_id]):
        return problems
    before = state.learnings[patch.learning_id]
    changes = patch.model_dump(include={"text", "reason", "task_id"}, exclude_none=True)
    edited = before.edited or changes.get("text", before.text) != before.text
    _change(state, before.id, **changes, edited=edited)
    _vouch(state, before.id, patch.source)
    return []


def _review(state: FeatureMemory, review: entries.LearningReviewed) -> list[str]:
    if problems := _unknown(state, [review.learning_id]):
        return problems
    _change(state, review.learning_id, reviewed=True)
    if review.rejected:
        _set_state(state, review.learning_id, LearningState.REJECTED)
    else:
        _vouch(state, review.learning_id, review.source)
        _set_state(state, review.learning_id, LearningState.ACTIVE)
    return []


def _conflict(state: FeatureMemory, conflict: entries.ConflictFound) -> list[str]:
    pair = _pair(conflict.learning_id, conflict.other_id)
    if pair[0] == pair[1]:
        return [f"learning {pair[0]} in conflict with itself"]
    if problems := _unknown(state, pair):
        return problems
    _open_conflict(state, pair, conflict.evidence)
    return []


def _resolve(state: FeatureMemory, resolved: entries.ConflictResolved) -> list[str]:
    pair = _pair(resolved.learning_id, resolved.other_id)
    if resolved.kept not in (None, *pair):
        return [f"a conflict of {pair[0]} and {pair[1]} resolved for a third, {resolved.kept}"]
    if problems := _unknown(state, pair):
        return problems
    state.conflicts.pop(pair, None)
    state.dormant_conflicts.pop(pair, None)
    for one in pair:
        _refresh_conflicts(state, one)
        if resolved.source.priority >= LearningSource.HUMAN.priority:
            _change(state, one, reviewed=True)
        if resolved.kept is not None:
            _set_state(state, one, LearningState.ACTIVE if one == resolved.kept else LearningState.REJECTED)
            _change(state, one, retired_by=None if one == resolved.kept else resolved.kept)
    return []


def _print(state: FeatureMemory, printed: entries.BlockPrinted) -> list[str]:
    state.printed.append(printed)
    for one in dict.fromkeys(printed.learning_ids):
        if one in state.learnings and (one, printed.iteration_number) not in state.shown_in:
            state.shown_in.add((one, printed.iteration_number))
            _change(state, one, shown=state.learnings[one].shown + 1)
    return _unknown(state, printed.learning_ids) + _unknown_iterations(state, printed.record_ids)


def _weigh(state: FeatureMemory, weighed: entries.LearningWeighed) -> list[str]:
    pair = (weighed.learning_id, weighed.entry_id)
    if problems := _unknown(state, [weighed.learning_id]):
        return problems
    if pair in state.weighed:
        return [f"learning {pair[0]} was weighed before for iteration {pair[1]}"]
    state.weighed.add(pair)
    before = state.learnings[weighed.learning_id]
    _change(
        state,
        before.id,
        used=before.used + weighed.used,
        helped=before.helped + weighed.helped,
        failed_again=before.failed_again + weighed.failed_again,
    )
    return _unknown_iterations(state, [weighed.entry_id])


def _change(memory: FeatureMemory, learning_id: str, **changes: Any) -> None:
    memory.learnings[learning_id] = memory.learnings[learning_id].model_copy(update=changes)


def _revive(state: FeatureMemory, learning_id: str) -> None:
    if state.learnings[learning_id].state is LearningState.PRUNED:
        _set_state(state, learning_id, LearningState.ACTIVE)


def _set_state(state: FeatureMemory, learning_id: str, to: LearningState) -> None:
    """Set the state of a learning. Its undecided conflicts are open while both learnings are offered."""
    _change(state, learning_id, state=to, retired_by=None)
    undecided = state.conflicts | state.dormant_conflicts
    for pair, evidence in undecided.items():
        if learning_id in pair:
            _open_conflict(state, pair, evidence)


def _open_conflict(state: FeatureMemory, pair: tuple[str, str], evidence: str) -> None:
    state.conflicts.pop(pair, None)
    state.dormant_conflicts.pop(pair, None)
    are_offered = all(state.learnings[one].state is LearningState.ACTIVE for one in pair)
    (state.conflicts if are_offered else state.dormant_conflicts)[pair] = evidence
    for one in pair:
        _refresh_conflicts(state, one)


def _refresh_conflicts(state: FeatureMemory, learning_id: str) -> None:
    others = (one for pair in state.conflicts if learning_id in pair for one in pair if one != learning_id)
    _change(state, learning_id, conflicts_with=tuple(sorted(others)))


def _pair(one: str, other: str) -> tuple[str, str]:
    return (one, other) if one <= other else (other, one)


def _vouch(state: FeatureMemory, learning_id: str, source: LearningSource) -> None:
    """Record that `source` stands behind a learning from now on."""
    state.own_sources[learning_id] = _higher(state.own_sources[learning_id], source)
    _refresh_source(state, learning_id)


def _refresh_source(state: FeatureMemory, learning_id: str) -> None:
    """Set a learning's source to the highest that stated it, itself or in a repetition that was not undone."""
    source = state.own_sources[learning_id]
    for repeated in state.repetitions.values():
        if repeated.learning_id == learning_id:
            source = _higher(source, repeated.source)
    if source is not state.learnings[learning_id].source:
        _change(state, learning_id, source=source)


def _higher(one: LearningSource, other: LearningSource) -> LearningSource:
    return max(one, other, key=lambda source: source.priority)


def _unknown(state: FeatureMemory, learning_ids: Iterable[str]) -> list[str]:
    return [f"no learning {one}" for one in learning_ids if one not in state.learnings]


def _unknown_iterations(state: FeatureMemory, entry_ids: Iterable[str]) -> list[str]:
    return [f"no iteration {one}" for one in entry_ids if one not in state.iterations]
