"""Handlers of what agents remember: the journal of a feature is caught up with, and what changed goes to the index.

The rules of handlers stand in `workers.handlers`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sluice.contracts.event import Event
from sluice.contracts.index import IterationRecorded, LearningChanged
from sluice.contracts.outcome import Outcome
from sluice.workers.steps.memory import MemoryIndexing, require_own_corpus

if TYPE_CHECKING:
    from sluice.workers.wiring.memory.projects import MemoryModel, ProjectMemories


def on_iteration_recorded(
    event: Event, memories: ProjectMemories, memory_model: MemoryModel, indexing: MemoryIndexing
) -> Outcome:
    """Distil and weigh what was recorded, and index it with all that is learned. The journal takes each entry once.

    The index takes each version once: so a second run sends what the first one, killed behind the journal, did not.
    """
    recorded = event.body_as(IterationRecorded)
    require_own_corpus(event, recorded)
    memory = memories.existing(recorded.project)
    with memory_model.on_account_of(event.run_id) as account:
        memory.catch_up(recorded.feature)
    state = memory.journal(recorded.feature).read()
    sent = indexing.send(event, recorded.project, state, recorded.entry_ids, state.learnings)
    return replace(sent, spend=sent.spend + account.spend)


def on_learning_changed(event: Event, memories: ProjectMemories, indexing: MemoryIndexing) -> Outcome:
    """Index learnings as the journal has them now, and remove those that are not offered any more."""
    changed = event.body_as(LearningChanged)
    require_own_corpus(event, changed)
    state = memories.existing(changed.project).journal(changed.feature).read()
    return indexing.send(event, changed.project, state, (), changed.learning_ids)
