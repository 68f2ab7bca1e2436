"""How the memory of a project fares: what it holds, whether index and embedder are there, how far they are behind."""

from __future__ import annotations

from collections.abc import Sequence

from sluice.contracts.errors import SluiceError
from sluice.contracts.memory.api import RagStatus
from sluice.memory.index_port import FollowingIndex, IndexHealth
from sluice.memory.journal.file import Journal
from sluice.memory.ports import SearchIndex

NO_INDEX = IndexHealth("none", index_available=False, embedder_available=False, embedding_model=None)


def make_status(journals: Sequence[Journal], search: SearchIndex | None) -> RagStatus:
    """The status over all features. Where the index is away, everything counts as not in it."""
    states = [journal.read() for journal in journals]
    health, behind = NO_INDEX, 0
    if isinstance(search, FollowingIndex):
        health = search.health(tuple(journal.feature for journal in journals))
        try:
            behind = sum(len(search.lacking(state)) for state in states)
        except SluiceError:
            behind = sum(len(state.iterations) + len(state.active()) for state in states)
    damages = (f"{journal.path.name}: {damage}" for journal in journals for damage in journal.problems())
    return RagStatus(
        engine=health.engine,
        index_available=health.index_available,
        embedder_available=health.embedder_available,
        embedding_model=health.embedding_model,
        features=len(states),
        records=sum(len(state.iterations) for state in states),
        learnings=sum(len(state.active()) for state in states),
        conflicts=sum(len(state.conflicts) for state in states),
        behind=behind,
        collections=health.collections,
        orphans=health.orphans,
        problems=(*health.problems, *damages),
    )
