"""Whether a learning is new, said already, or contradicts one that is kept. Opposites are never merged.

The rule of Jaccard > 0.7 alone merges "enable X" with "disable X", so it only says what is near. Of two near texts the
differences are compared: identifiers, numbers, negations, antonyms, modality, quantifiers and order (`polarity`).
A wrong `Unique` costs a line of the prompt, a wrong `Duplicate` costs a fact: what is not certain is `Unique`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from contracts.errors import SluiceError
from contracts.memory.learning import FeatureLearning
from memory.learning.polarity.compare import Comparison, compare
from memory.ports import EmbedTexts, JudgePair

SAME_SUBJECT = 0.5
"""At least so much of the words is shared by texts that are about the same."""
MOST_COMPARED = 32
"""Learnings that are compared in full, of all that are kept: 0.2 ms each."""
MOST_JUDGED = 2
"""Pairs about which a model is asked for one new learning."""
_WORD = re.compile(r"\w\w+")


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

    The words decide, with no model. `embed` finds what is near in other words, and is asked for the few candidates
    only. `judge` is asked about the nearest that the words leave open; where it fails, that one stays apart.
    """
    compared = sorted(
        ((index, compare(text, existing[index].text)) for index in _candidates(text, existing)),
        key=lambda pair: -pair[1].similarity,
    )
    for index, comparison in compared:
        if comparison.same:
            return Duplicate(index, "says the same")
    for index, comparison in compared:
        if comparison.opposite and comparison.similarity >= SAME_SUBJECT:
            return Conflict(index, text, ", ".join(comparison.differences))
    near = [(index, comparison) for index, comparison in compared if comparison.similarity >= SAME_SUBJECT]
    if judge is not None:
        decided = _judged(text, existing, near[:MOST_JUDGED], judge)
        if decided is not None:
            return decided
    return Unique(near[0][0] if near else None)


def _candidates(text: str, existing: Sequence[FeatureLearning]) -> list[int]:
    """The learnings that share most words with the text, at most `MOST_COMPARED`."""
    words = _word_starts(text)
    shared = [(len(words & _word_starts(one.text)), index) for index, one in enumerate(existing)]
    return [index for count, index in sorted(shared, key=lambda pair: -pair[0])[:MOST_COMPARED] if count]


@lru_cache(maxsize=8192)
def _word_starts(text: str) -> frozenset[str]:
    """The first letters of its words, so that the forms of a word are one."""
    return frozenset(word[:4] for word in _WORD.findall(text.lower()))


def _judged(
    text: str, existing: Sequence[FeatureLearning], near: Sequence[tuple[int, Comparison]], judge: JudgePair
) -> DeduplicationResult | None:
    for index, comparison in near:
        if not comparison.open:
            continue
        try:
            judged = judge(text, existing[index].text)
        except SluiceError:
            continue
        if judged == "opposite":
            return Conflict(index, text, "judged to say the contrary")
        if judged == "same":
            return Duplicate(index, "judged to say the same")
    return None
