"""Learnings: lessons on a feature, with author, time and reason, and their effect since.

A learning is an observation of one iteration. `reviewed` means that somebody looked at it, not that it is true.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from sluice.contracts.base import Moment, Switch, Value, is_empty, is_none
from sluice.contracts.memory.names import FeatureName

MAX_LEARNING_CHARACTERS = 500
LearningText = Annotated[str, Field(min_length=1, max_length=MAX_LEARNING_CHARACTERS, pattern=r"\S")]
Reason = Annotated[str, Field(min_length=1, max_length=500, pattern=r"\S")]
LearningId = Annotated[str, Field(pattern=r"^lrn_[0-9a-f]{24}$")]


class LearningSource(StrEnum):
    """The author of a learning. Later members outrank earlier ones."""

    AUTO = "Auto"
    AGENT = "Agent"
    HUMAN = "Human"
    OPUS_REVIEWED = "OpusReviewed"

    @property
    def priority(self) -> int:
        """Return the rank: a higher number has precedence."""
        return _PRIORITIES[self]


_PRIORITIES = {source: place for place, source in enumerate(LearningSource)}


class LearningState(StrEnum):
    """Whether a learning is offered to prompts. Nothing is deleted: a rejected or pruned one can be restored."""

    ACTIVE = "active"
    REJECTED = "rejected"
    PRUNED = "pruned"


class FeatureLearning(Value):
    """One learning. `hit_count` is the number of observations: 1 when it is new."""

    id: LearningId
    feature: FeatureName
    text: LearningText
    reason: Reason
    """The observation that it was made from."""
    source: LearningSource
    iteration: Annotated[int, Field(ge=0)]
    """The iteration that it was made in; 0 for one that a person wrote outside any iteration."""
    timestamp: Moment
    task_id: Annotated[int, Field(ge=0)] | None = None
    """The task that it is about; None for the whole feature."""
    hit_count: Annotated[int, Field(ge=1)] = 1
    reviewed: bool = False
    state: LearningState = LearningState.ACTIVE
    conflicts_with: Annotated[tuple[LearningId, ...], Field(exclude_if=is_empty)] = ()
    """Near learnings that differ from it, until somebody decides between them."""
    retired_by: Annotated[LearningId | None, Field(exclude_if=is_none)] = None
    """The learning that stands in its place: one that named it as wrong, or was chosen over it."""
    shown: Annotated[int, Field(ge=0)] = 0
    """Number of iterations whose prompt contained it."""
    used: Annotated[int, Field(ge=0)] = 0
    """Number of these in which the agent used it."""
    helped: Annotated[int, Field(ge=0)] = 0
    """Number of those in which the iteration succeeded."""
    failed_again: Annotated[int, Field(ge=0)] = 0
    """Number of iterations that were shown it and failed in its subject."""
    near_to: Annotated[tuple[LearningId, ...], Field(exclude_if=is_empty)] = ()
    """Learnings that are very similar and are kept apart."""
    edited: Switch = False
    """Whether its text has changed since it was added."""

    @classmethod
    def auto_extracted(
        cls,
        text: str,
        iteration: int,
        task_id: int | None,
        *,
        feature: str = "feature",
        reason: str = "observed in an iteration",
        timestamp: datetime | None = None,
    ) -> FeatureLearning:
        """Return a learning that a rule extracted from an iteration."""
        return cls(
            id=learning_id(feature, LearningSource.AUTO, iteration, task_id, text),
            feature=feature,
            text=text,
            reason=reason,
            source=LearningSource.AUTO,
            iteration=iteration,
            timestamp=timestamp or datetime.now(UTC),
            task_id=task_id,
        )


def learning_id(feature: str, source: LearningSource, iteration: int, task_id: int | None, text: str) -> str:
    """Return the id of a new learning, fixed before it is written, so that writing it again adds nothing."""
    parts = (feature, source.value, str(iteration), "" if task_id is None else str(task_id), " ".join(text.split()))
    return "lrn_" + hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:24]
