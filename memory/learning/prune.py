"""Which learnings are put aside (F35). A learning that is never needed may be the one that works, so few are.

Only one that was made by rule, that nobody has looked at or edited, that was observed once, that no iteration used,
that contradicts no other, and that is old: `OLD_ITERATIONS` iterations and `OLD` days have passed since. Nothing is
deleted: it is offered again as soon as it is observed once more, or a person says so.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from sluice.contracts.memory.learning import FeatureLearning, LearningSource, LearningState
from sluice.memory.journal.entry import JournalEntry, LearningsPruned
from sluice.memory.journal.feature_memory import FeatureMemory

OLD_ITERATIONS = 20
"""A task takes an agent some ten iterations: what two tasks did not meet again is old."""
OLD = timedelta(days=14)
"""Iterations may follow each other in minutes; a fortnight has more than one session."""
WHY = f"made by rule, not reviewed, observed once, not used in {OLD_ITERATIONS} iterations and {OLD.days} days"


def prunable(state: FeatureMemory, now: datetime) -> list[FeatureLearning]:
    """The learnings that may be put aside at `now`, the oldest first."""
    latest = state.next_iteration() - 1
    disputed = {one for pair in state.conflicts for one in pair}
    return [
        one
        for one in state.learnings.values()
        if one.state is LearningState.ACTIVE
        and one.source is LearningSource.AUTO
        and not one.reviewed
        and not one.edited
        and one.hit_count == 1
        and one.used == one.helped == 0
        and not one.conflicts_with
        and one.id not in disputed
        and latest - one.iteration >= OLD_ITERATIONS
        and now - one.timestamp >= OLD
    ]


def prune(state: FeatureMemory, now: datetime) -> list[JournalEntry]:
    """The entry that puts them aside; none where there is nothing to put aside."""
    ids = tuple(one.id for one in prunable(state, now))
    if not ids:
        return []
    return [
        JournalEntry.of(LearningsPruned(learning_ids=ids, why=WHY), key=f"{now.isoformat()}\0{','.join(ids)}", at=now)
    ]
