"""Learnings: what was learned on a feature, by whom, when and why, and how it fared since.

A learning is an observation of one iteration. `reviewed` says that somebody looked at it, and never that it is true.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from sluice.contracts.base import Moment, Switch, Value, is_empty
from sluice.contracts.memory.names import FeatureName

MAX_LEARNING_CHARACTERS = 500
LearningText = Annotated[str, Field(min_length=1, max_length=MAX_LEARNING_CHARACTERS, pattern=r"\S")]
Reason = Annotated[str, Field(min_length=1, max_length=500, pattern=r"\S")]
LearningId = Annotated[str, Field(pattern=r"^lrn_[0-9a-f]{24}$")]


class LearningSource(StrEnum):
    """Whose word a learning is. The later members outrank those before them."""

    AUTO = "Auto"
    AGENT = "Agent"
    HUMAN = "Human"
    OPUS_REVIEWED = "OpusReviewed"

    @property
    def priority(self) -> int:
        """The higher the number, the more it counts."""
        return _PRIORITIES[self]


_PRIORITIES = {source: place for place, source in enumerate(LearningSource)}


class LearningState(StrEnum):
    """Whether a learning is offered to prompts. Nothing is deleted: a rejected or pruned one can be taken back."""

    ACTIVE = "active"
    REJECTED = "rejected"
    PRUNED = "pruned"


class FeatureLearning(Value):
    """One learning. `hit_count` is how often it was observed: 1 when it is new."""

    id: LearningId
    feature: FeatureName
    text: LearningText
    reason: Reason
    """Why it exists: the observation that it was made from."""
    source: LearningSource
    iteration: Annotated[int, Field(ge=0)]
    """The iteration that it was made in; 0 for one that a person wrote outside of any."""
    timestamp: Moment
    task_id: Annotated[int, Field(ge=0)] | None = None
    """The task that it is about; None for the whole feature."""
    hit_count: Annotated[int, Field(ge=1)] = 1
    reviewed: bool = False
    state: LearningState = LearningState.ACTIVE
    conflicts_with: Annotated[tuple[LearningId, ...], Field(exclude_if=is_empty)] = ()
    """Learnings that say otherwise, as long as nobody has decided between them."""
    shown: Annotated[int, Field(ge=0)] = 0
    """In how many iterations' prompts it stood."""
    used: Annotated[int, Field(ge=0)] = 0
    """In how many of these the agent used it."""
    helped: Annotated[int, Field(ge=0)] = 0
    """In how many of those the iteration succeeded."""
    failed_again: Annotated[int, Field(ge=0)] = 0
    """In how many it was shown and the iteration failed in what it is about."""
    near_to: Annotated[tuple[LearningId, ...], Field(exclude_if=is_empty)] = ()
    """Learnings that are much alike and are kept apart."""
    edited: Switch = False
    """Whether its text was changed since it was added."""

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
        """A learning that was made by rule from an iteration."""
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
    """The id of a new learning: fixed before it is written, so that writing it again adds nothing."""
    parts = (feature, source.value, str(iteration), "" if task_id is None else str(task_id), " ".join(text.split()))
    return "lrn_" + hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:24]
