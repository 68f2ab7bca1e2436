"""Finds the earlier learning that a new one names as wrong, so that it can be retired.

"The earlier note was wrong. Use WAL …" says so of one note among many: the one that it names by its id or its
iteration, or that is clearly nearest to what it says. Where that cannot be told, nothing is retired.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sluice.contracts.memory.learning import FeatureLearning, LearningState
from sluice.memory.learning.comparison import content_words
from sluice.text.pattern_file import PatternFile
from sluice.text.words import cut_sentences

_FILE = PatternFile(Path(__file__).with_name("correction.toml"))
NEAR = 0.25
"""Least share of content words in common with a note that a text names as wrong: the rest of it says what is right."""
NEAR_CHANGED = 0.6
"""The same for a text that only says that something has changed."""
NEAR_NAMED = 0.1
"""The same for a learning of an iteration that the text names: one word in common."""
LEAST_SHARED = 2
"""Least content words in common with the one that is meant: a single one stands in half of a feature's notes."""
CLEARLY = 1.2
"""How many times nearer than the second the nearest note must be, to be the one that is meant."""
MOST_SHOWN = 2
"""Most learnings that are shown beside a correction that may mean each of them."""


@dataclass(frozen=True, slots=True)
class Corrected:
    """Indices of the learnings that a correction may mean, the nearest first. `is_clear`: it means the first one."""

    indices: tuple[int, ...]
    is_clear: bool


def find_corrected(text: str, existing: Sequence[FeatureLearning]) -> Corrected | None:
    """Return the active learnings that `text` may name as wrong; None if it names none, or is near to none."""
    names = _names_a_note(text)
    if not names and not _FILE["changes"].search(text):
        return None
    active = {
        index: one
        for index, one in enumerate(existing)
        if one.state is LearningState.ACTIVE and (names or not _FILE["changes"].search(one.text))
    }
    ids = set(_FILE["learning"].findall(text))
    if by_id := tuple(index for index, one in active.items() if one.id in ids):
        return Corrected(by_id[:MOST_SHOWN], len(by_id) == 1)
    numbers = set(map(int, _FILE["iteration"].findall(text)))
    of_iteration = {index: one for index, one in active.items() if one.iteration in numbers}
    least = NEAR_NAMED if of_iteration else NEAR if names else NEAR_CHANGED
    said = content_words(_without_naming(text))
    near = []
    for index, one in (of_iteration or active).items():
        noted = content_words(one.text)
        shared = len(said & noted)
        if shared and (share := 2 * shared / (len(said) + len(noted))) >= least:
            near.append((share, shared, index))
    near.sort(reverse=True)
    if not near:
        return None
    is_clear = len(near) == 1 or near[0][0] >= CLEARLY * near[1][0]
    is_near = bool(of_iteration) or near[0][1] >= LEAST_SHARED
    return Corrected(tuple(index for *_, index in near[:MOST_SHOWN]), is_clear and is_near)


def _names_a_note(text: str) -> bool:
    sentences = cut_sentences(text)
    return bool(_FILE["says"].search(text)) or any(
        _FILE["refers"].search(one) and _FILE["wrong"].search(one) for one in sentences
    )


def _without_naming(text: str) -> str:
    """Return the text without the words by which it names a note as wrong, which are on no subject."""
    for name in ("refers", "wrong", "says"):
        text = _FILE[name].sub(" ", text)
    return text
