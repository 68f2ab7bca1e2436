"""Whether a learning is new, said already, or contradicts one that is kept. Opposites are never merged.

The rule of Jaccard > 0.7 alone merges "enable X" with "disable X", so it only says what is near. Of two near texts the
differences are compared: identifiers, numbers, negations, antonyms, modality, quantifiers and order (`polarity`).
A wrong `Unique` costs a line of the prompt, a wrong `Duplicate` costs a fact: what is not certain is `Unique`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from contracts.errors import SluiceError
from contracts.memory.learning import FeatureLearning
from memory.learning.polarity.compare import Comparison, compare
from memory.ports import EmbedTexts, JudgePair

SAME_SUBJECT = 0.5
"""At least so much of the words is shared by texts that contradict each other."""


@dataclass(frozen=True, slots=True)
class Unique:
    """To be added. `near_index`: one that is much alike and says something else, to be linked."""

    near_index: int | None = None


@dataclass(frozen=True, slots=True)
class Duplicate:
    """Said already, by `existing_index`: to be counted there, its text kept as it is."""

    existing_index: int
    why: str


@dataclass(frozen=True, slots=True)
class Conflict:
    """Says the contrary of `existing_index`: to be kept beside it and shown for review."""

    existing_index: int
    new_text: str
    why: str


DeduplicationResult = Unique | Duplicate | Conflict


def check_deduplication(
    text: str, existing: Sequence[FeatureLearning], *, embed: EmbedTexts | None = None, judge: JudgePair | None = None
) -> DeduplicationResult:
    """What `text` is beside the learnings that are kept: a duplicate of one goes before a conflict with another.

    `judge` is asked about the nearest that the words leave open; where it fails, the words decide.
    """
    compared = [(index, compare(text, one.text)) for index, one in enumerate(existing)]
    compared.sort(key=lambda pair: -pair[1].similarity)
    for index, comparison in compared:
        if comparison.same:
            return Duplicate(index, "the same words")
    for index, comparison in compared:
        if comparison.opposite and comparison.similarity >= SAME_SUBJECT:
            return Conflict(index, text, ", ".join(comparison.vetoes))
    if not compared or not _near(compared[0][1]):
        return Unique()
    index, _ = compared[0]
    if judge is not None:
        try:
            judged = judge(text, existing[index].text)
        except SluiceError:
            judged = None
        if judged == "opposite":
            return Conflict(index, text, "judged to say the contrary")
    return Unique(index)


def _near(comparison: Comparison) -> bool:
    return comparison.similarity >= SAME_SUBJECT
