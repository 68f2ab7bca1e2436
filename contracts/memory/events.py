"""Events of an agent's memory. The journal of the feature holds the truth; these say what of it is to be indexed."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from sluice.contracts.event import Body, Queue
from sluice.contracts.memory.names import FeatureName, ProjectPath

EntryIds = Annotated[tuple[str, ...], Field(max_length=1_000)]


class IterationRecorded(Body):
    """Iterations stand in a feature's journal, to be distilled and indexed. `entry_ids` are entries of it."""

    queue: ClassVar[Queue | None] = "chunk"

    project: ProjectPath
    feature: FeatureName
    entry_ids: EntryIds


class LearningChanged(Body):
    """Learnings of a feature were added, edited, reviewed or pruned: the index is to hold them as they stand."""

    queue: ClassVar[Queue | None] = "chunk"

    project: ProjectPath
    feature: FeatureName
    learning_ids: EntryIds
