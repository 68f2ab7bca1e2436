"""Types of memory's outside dependencies: values and callables. Nothing here loads a model or opens a socket."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Vectors: TypeAlias = "NDArray[np.float32]"


@dataclass(frozen=True, slots=True)
class Sanitised:
    """A text that may be kept and printed: `cut` counts removals, by rule. `blocked`: none of the text may be kept.

    Rules named `mark.…` and `private.…` only tidy: a role marker, a fence, a password. All others cut out commands.
    """

    text: str
    cut: Mapping[str, int] = field(default_factory=dict)
    blocked: bool = False
    is_harmful: bool = False
    """Whether it looks like advice that does harm: it is kept, and marked until a person has reviewed it."""

    @property
    def commands(self) -> tuple[str, ...]:
        """The rules that found a command to the reader. A learning that holds one is refused whole."""
        return tuple(rule for rule in self.cut if not rule.startswith(("mark.", "private.")))


Sanitise = Callable[[str], Sanitised]
"""Removes commands to the reader from a text, and masks secrets and private data."""


MaskPrivate = Callable[[str], tuple[str, Mapping[str, int]]]
"""Replaces secrets and private data in a text by placeholders, and counts each kind."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A search result: the id of a document of memory (see `memory.qdrant_schema`) and its relevance in [0, 1]."""

    document_id: str
    relevance: float


@dataclass(frozen=True, slots=True)
class Hits:
    """Search results, the best first."""

    hits: tuple[Hit, ...]
    searched: Literal["hybrid", "bm25"]


class SharedJournals(Protocol):
    """The journals of a project that several machines write to: each append, by the offset in bytes where it begins.
    The files of a machine are copies. Each method raises `Unavailable` while that place does not answer."""

    def features(self) -> list[str]:
        """Return the features that have a journal, by name."""

    def appended(self, feature: str, offset: int) -> Iterable[bytes]:
        """Yield what was appended from that offset on, in order."""

    def append(self, feature: str, offset: int, content: bytes) -> bool:
        """Append at that offset; False if another machine was first."""


Polarity = Literal["same", "opposite", "different"]
JudgePair = Callable[[str, str], Polarity | None]
"""The relation of two texts; None if the model does not know. Raises `Unavailable` or `BudgetExhausted`."""

AskModel = Callable[[str, str, int], str]
"""Maps (system prompt, question, most tokens) to a language model's answer. Raises as `JudgePair`."""
