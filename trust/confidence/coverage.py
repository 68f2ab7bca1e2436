"""The share of a question's words that a passage holds, each weighed by its rarity in the corpus."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping

from sluice.contracts.retrieval import RetrievedChunk

RARE_WORDS_ENOUGH = 4.0
"""A passage that holds the rarity of so many words, each of which one chunk alone has, holds enough of any question: no
passage repeats every word of a question of thirty words. The gate bounds its sentences alike (`gate.sentences`)."""

Analyse = Callable[[str, str | None], Collection[str]]
"""The terms of a text in a language (None: unknown), as the index has them: lower case, stemmed."""


class CoverageMeter:
    """Measures how much of one question the passages hold.

    `words` are the question's content words with their inverse document frequency in the corpus, `rarest` that of a
    word which one chunk alone has.
    """

    def __init__(self, words: Mapping[str, float], rarest: float, analyse: Analyse) -> None:
        self._words = words
        self._analyse = analyse
        self._enough = min(math.fsum(words.values()), RARE_WORDS_ENOUGH * rarest)
        self._terms_of: dict[str | None, dict[str, frozenset[str]]] = {}

    def share(self, passage: RetrievedChunk) -> float:
        """The share that text and headings of a passage hold, in [0, 1]; 1 for a question without words."""
        if self._enough <= 0:
            return 1.0
        parts = (passage.title, *passage.section_path, passage.symbol_path, passage.text)
        text = "\n".join(part for part in parts if part)
        held = frozenset(self._analyse(text, passage.language))
        terms_of = self._in_language(passage.language)
        mass = sum([rarity for word, rarity in self._words.items() if terms_of[word] and terms_of[word] <= held])
        return min(1.0, mass / self._enough)

    def _in_language(self, language: str | None) -> Mapping[str, frozenset[str]]:
        """Each word's terms in the analysis of a language."""
        if language not in self._terms_of:
            self._terms_of[language] = {word: frozenset(self._analyse(word, language)) for word in self._words}
        return self._terms_of[language]
