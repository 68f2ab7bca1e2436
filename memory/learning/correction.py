"""Finds the earlier learning that a new one names as wrong or as changed, so that it can be retired.

"The earlier note was wrong. Use WAL …" says so of one note among many: the one that it names by its id or its
iteration, or that it repeats in part and clearly more than any other. Where that cannot be told, nothing is retired.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sluice.contracts.memory.learning import FeatureLearning, LearningState
from sluice.memory.learning.comparison import content_words
from sluice.text.pattern_file import PatternFile
from sluice.text.words import cut_sentences, inverse_document_frequency

_FILE = PatternFile(Path(__file__).with_name("correction.toml"))
NEAR_NAMED = 0.3
"""Least share of a note's content words in a text that names a note as wrong: the rest of it says what is right."""
NEAR_CHANGED = 0.6
"""The same for a text that only says that something is not so or has changed, whatever it is."""
SURELY_CHANGED = 0.75
"""The same, from which a text that something has changed retires the note, rather than stand beside it."""
LEAST_SHARED = 2
"""Least content words in common with the one that is meant: a single one stands in half of a feature's notes."""
CLEARLY = 1.3
"""How many times more the nearest note must have in common than the second, to be the one that is meant."""
MOST_SHOWN = 2
"""Most learnings that are shown beside a correction that may mean each of them."""


@dataclass(frozen=True, slots=True)
class Corrected:
    """Indices of the learnings that a correction may mean, the nearest first. `is_clear`: it means the first one."""

    indices: tuple[int, ...]
    is_clear: bool


def find_corrected(text: str, existing: Sequence[FeatureLearning]) -> Corrected | None:
    """Return the active learnings that `text` may name as wrong; None if it names none, or is near to none."""
    names, denies = _names_a_note(text), _FILE["denies"].search(text)
    says = denies or _FILE["changes"].search(text)
    if not names and says is None:
        return None
    notes = {index: one for index, one in enumerate(existing) if one.state is LearningState.ACTIVE}
    ids = set(_FILE["learning"].findall(text))
    if by_id := tuple(index for index, one in notes.items() if one.id in ids):
        return Corrected(by_id[:MOST_SHOWN], len(by_id) == 1)
    numbers = set(map(int, _FILE["iteration"].findall(text)))
    of_iteration = {index: one for index, one in notes.items() if one.iteration in numbers}
    if of_iteration:
        return _nearest(text, of_iteration, share=0.0, words=1)
    if names or says is None:
        return _nearest(text, notes, share=NEAR_NAMED, words=LEAST_SHARED)
    unchanged = {index: one for index, one in notes.items() if not _says_so_too(one.text, says)}
    sure = NEAR_CHANGED if denies else SURELY_CHANGED
    return _nearest(text, unchanged, share=NEAR_CHANGED, words=LEAST_SHARED, sure=sure)


def _names_a_note(text: str) -> bool:
    return bool(_FILE["says"].search(text)) or any(
        _FILE["refers"].search(one) and _FILE["wrong"].search(one) for one in cut_sentences(text)
    )


def _says_so_too(note: str, said: re.Match[str]) -> bool:
    """Return whether a note says of itself what a text says of it: that jobs "were moved" changes no rule of moving."""
    itself = _FILE["denies"].search(note) or _FILE["changes"].search(note)
    return bool(itself or content_words(said[0].split()[-1]) & content_words(note))


def _nearest(
    text: str, notes: dict[int, FeatureLearning], *, share: float, words: int, sure: float = 0.0
) -> Corrected | None:
    """Return the notes of which at least a share of the content words stands in `text`.

    The first is clear if it has more in common than the second, at least so many `words` and the share `sure`.
    """
    for name in ("iteration", "refers", "wrong", "says"):  # these words are on no subject
        text = _FILE[name].sub(" ", text)
    said = content_words(text)
    held = {index: content_words(one.text) for index, one in notes.items()}
    holders = Counter(word for noted in held.values() for word in noted)

    def weigh(noted: frozenset[str]) -> float:
        """Return how much is in common; a word tells more, the fewer notes hold it."""
        return sum(inverse_document_frequency(len(held), holders[word]) for word in said & noted)

    near = sorted(((weigh(noted), index) for index, noted in held.items()), reverse=True)
    meant = [index for weight, index in near if weight and len(said & held[index]) >= share * len(held[index])]
    if not meant:
        return None
    leads = len(near) == 1 or near[0][0] >= CLEARLY * near[1][0]
    common = len(said & held[meant[0]])
    is_clear = leads and meant[0] == near[0][1] and common >= max(words, sure * len(held[meant[0]]))
    return Corrected(tuple(meant[:MOST_SHOWN]), is_clear)
