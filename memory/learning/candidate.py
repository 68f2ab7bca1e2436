"""What may become a learning."""

from __future__ import annotations

from dataclasses import dataclass

from sluice.contracts.memory.learning import LearningSource


@dataclass(frozen=True, slots=True)
class Candidate:
    """What may become a learning. `iteration` 0: the one that is running, or none where a person says it."""

    text: str
    reason: str
    source: LearningSource
    iteration: int = 0
    task_id: int | None = None
    observed: bool = False
    """Whether it is tied to an event of its iteration: then it is no echo of what the prompt had said."""
    words: str = ""
    """What of the text the agent said itself, where the rest is observed: that may be an echo."""
    without_words: str = ""
    """The text without them; "" where nothing is left to say."""
