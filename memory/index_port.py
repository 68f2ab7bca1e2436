"""What the facade needs of an index beyond searching it: that it follows the journal, and tells how it fares."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from sluice.memory.journal.feature_memory import FeatureMemory
from sluice.memory.ports import SearchIndex


@dataclass(frozen=True, slots=True)
class IndexHealth:
    """How an index fares. `collections` are those that it holds of this project."""

    engine: str
    index_available: bool
    embedder_available: bool
    embedding_model: str | None
    collections: tuple[str, ...] = ()
    orphans: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


@runtime_checkable
class FollowingIndex(SearchIndex, Protocol):
    """An index that is filled from the state of a feature. Safe for threads."""

    def follow(self, state: FeatureMemory, *, wholly: bool = False) -> Collection[str]:
        """Take in what is new, as much as a question may wait for (`wholly`: all of it).

        Returns the ids of documents that it still lacks, or holds in an older version: all that are new, where another
        process writes to it or the embedding model is away. Raises `Unavailable` where the engine is away.
        """
        ...

    def lacking(self, state: FeatureMemory) -> Collection[str]:
        """The same ids, without taking anything in."""
        ...

    def health(self, features: tuple[str, ...]) -> IndexHealth:
        """What it holds; `features` are those that have a journal."""
        ...

    def drop_orphans(self, features: tuple[str, ...]) -> tuple[str, ...]:
        """Remove the collections that no feature stands behind; returns their names."""
        ...
