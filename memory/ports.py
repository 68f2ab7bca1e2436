"""Protocols of what memory needs from outside. Nothing here loads a model or opens a socket."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Vectors: TypeAlias = "NDArray[np.float32]"


@dataclass(frozen=True, slots=True)
class Sanitised:
    """A text as it may be kept and printed: `cut` counts what was taken out, by rule. `blocked`: none of it may.

    Rules named `mark.…` and `private.…` only tidy: a role marker, a fence, a password. All others took out a command to
    the reader.
    """

    text: str
    cut: Mapping[str, int] = field(default_factory=dict)
    blocked: bool = False

    @property
    def commands(self) -> tuple[str, ...]:
        """The rules that found a command to the reader. A learning that holds one is refused whole."""
        return tuple(rule for rule in self.cut if not rule.startswith(("mark.", "private.")))


Sanitise = Callable[[str], Sanitised]
"""Takes out of a text what would command its reader, and masks secrets and private data."""


@dataclass(frozen=True, slots=True)
class GuardSpan:
    """Characters of a text (`text[start:end]`) by which it commands its reader. `blocks`: none of it is to be kept."""

    rule: str
    start: int
    end: int
    blocks: bool = False


FindCommands = Callable[[str], Sequence[GuardSpan]]
"""What a guard finds in a text. Raises `Unavailable` where its model is away."""
MaskPrivate = Callable[[str], tuple[str, Mapping[str, int]]]
"""A text with placeholders for secrets and private data, and how many of each kind there were."""


@dataclass(frozen=True, slots=True)
class Hit:
    """What a search found: the id of a document of memory (see `memory.qdrant_schema`) and its relevance in [0, 1]."""

    document_id: str
    relevance: float


@dataclass(frozen=True, slots=True)
class Hits:
    """What was found, the best first. `journal_offset` stands for what the index held."""

    hits: tuple[Hit, ...]
    searched: Literal["hybrid", "bm25"]


Polarity = Literal["same", "opposite", "different"]
JudgePair = Callable[[str, str], Polarity | None]
"""Whether two texts say the same; None where the model does not know. Raises `Unavailable` or `BudgetExhausted`."""

AskModel = Callable[[str, str, int], str]
"""(system prompt, question, most tokens) to what a language model answers. Raises as `JudgePair`."""
