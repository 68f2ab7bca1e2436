"""Handlers of agents' memory: they derive learnings from a feature's journal, and send what changed to the index.

The rules of handlers stand in `workers.handlers`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sluice.contracts.budget import Spend
from sluice.contracts.errors import MalformedEvent
from sluice.contracts.event import Done, Event, Next, Outcome
from sluice.contracts.index import IterationRecorded, LearningChanged
from sluice.contracts.ingest import DocumentsRemoved
from sluice.memory.qdrant_schema import collection_name, document_of_learning, document_of_record, is_indexed
from sluice.workers.steps.chunk import EmbeddingDirector
from sluice.workers.wiring.corpora import CorpusReaders
from sluice.workers.wiring.inject import Step

if TYPE_CHECKING:
    from sluice.memory.journal.feature_memory import FeatureMemory
    from sluice.workers.wiring.memories import MemoryModel, ProjectMemories


@dataclass(frozen=True, slots=True)
class MemoryIndexing(Step):
    """Brings iterations and learnings into the index of their feature."""

    readers: CorpusReaders
    director: EmbeddingDirector

    def send(
        self, event: Event, project: str, state: FeatureMemory, entry_ids: Iterable[str], learning_ids: Iterable[str]
    ) -> Done:
        """Direct the embedding of iterations and learnings that the index lacks, and the removal of those not offered.

        Skips documents that the index holds with an equal checksum. What the run's budget does not cover becomes a gap.
        """
        model = self.director.embedding.fingerprint(event.corpus)
        records = (state.iterations[name] for name in entry_ids if name in state.iterations)
        wanted = [document_of_record(one.record, one.entry_id, project, model) for one in records]
        learnings = [state.learnings[name] for name in learning_ids if name in state.learnings]
        wanted += [document_of_learning(one, project, model) for one in learnings if is_indexed(one)]
        gone = [one.id for one in learnings if not is_indexed(one)]
        held = {}
        if self.readers.exists(event.corpus):
            held = self.readers.reader(event.corpus).documents([*(one.document_id for one in wanted), *gone])
        checksums = {name: facts.checksum for name, facts in held.items()}
        lacking = [one for one in wanted if checksums.get(one.document_id) != one.checksum]
        directed = self.director.direct(lacking, event)
        removed = tuple(name for name in gone if name in held)
        removal = (Next(DocumentsRemoved(document_ids=removed)),) if removed else ()
        return replace(directed, emits=(*directed.emits, *removal))


def on_iteration_recorded(
    event: Event, memories: ProjectMemories, memory_model: MemoryModel, indexing: MemoryIndexing
) -> Outcome:
    """Distil and weigh recorded iterations, and index them with all learnings. The journal takes each entry once.

    The index takes each version once, so a second run sends what a first one, killed after the journal, did not.
    """
    recorded = event.body_as(IterationRecorded)
    _require_own_corpus(event, recorded)
    memory = memories.existing(recorded.project)
    with memory_model.on_account_of(event.run_id) as account:
        memory.catch_up(recorded.feature)
    state = memory.journal(recorded.feature).read()
    sent = indexing.send(event, recorded.project, state, recorded.entry_ids, state.learnings)
    return replace(sent, spend=sent.spend + Spend(usd=account.usd))


def on_learning_changed(event: Event, memories: ProjectMemories, indexing: MemoryIndexing) -> Outcome:
    """Index learnings as the journal has them now, and remove those that are not offered any more."""
    changed = event.body_as(LearningChanged)
    _require_own_corpus(event, changed)
    state = memories.existing(changed.project).journal(changed.feature).read()
    return indexing.send(event, changed.project, state, (), changed.learning_ids)


def _require_own_corpus(event: Event, body: IterationRecorded | LearningChanged) -> None:
    """Raise `MalformedEvent` unless the event's corpus is that of its project and feature."""
    own = collection_name(body.project, body.feature)
    if event.corpus != own:
        raise MalformedEvent("corpus", f"{event.corpus} where feature {body.feature!r} belongs", own)
