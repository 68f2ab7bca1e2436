"""The result of one retriever: chunk numbers and their scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Floats = list[float]
Numbers = list[int]


@dataclass(frozen=True, slots=True, eq=False)
class Ranked:
    """The result of one retriever, best first: `numbers` of chunks and their `scores`, of equal length."""

    numbers: Numbers
    scores: Floats

    @classmethod
    def of(cls, hits: Sequence[tuple[int, float]]) -> Ranked:
        """Make a result of pairs of a number and a score."""
        return cls([number for number, _ in hits], [score for _, score in hits])


NOTHING_FOUND = Ranked.of(())
