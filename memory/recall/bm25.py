"""BM25 in memory, over the texts of one feature.

The score of `text.bm25` is divided by what a document would get that consisted of the question's words without end, so
that it lies in [0, 1].
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable

import numpy as np

from sluice.memory.recall.words import words_of
from sluice.text.bm25 import K1, B, inverse_document_frequency


class WordIndex:
    """Texts by their words. Texts are added and never taken away."""

    def __init__(self, texts: Iterable[tuple[str, str]] = ()) -> None:
        self.keys: list[str] = []
        self._lengths = array("f")
        self._postings: dict[str, tuple[array[int], array[float]]] = {}
        for key, text in texts:
            self.add(key, text)

    def add(self, key: str, text: str) -> None:
        """Hold one more text under a key of its own."""
        words = Counter(words_of(text))
        for word, count in words.items():
            numbers, counts = self._postings.setdefault(word, (array("I"), array("f")))
            numbers.append(len(self.keys))
            counts.append(count)
        self._lengths.append(words.total())
        self.keys.append(key)

    def search(self, query: str, most: int) -> dict[str, float]:
        """Relevance in (0, 1] of the `most` best texts that hold a word of the query; of those alike the later ones."""
        found = {word: self._postings.get(word) for word in dict.fromkeys(words_of(query))}
        holders = {word: len(posting[0]) if posting else 0 for word, posting in found.items()}
        weights = {word: inverse_document_frequency(len(self.keys), count) for word, count in holders.items()}
        highest = (K1 + 1) * sum(weights.values())
        lengths = np.array(self._lengths, dtype=np.float32)
        scores = np.zeros(len(lengths))
        norm = K1 * (1 - B + B * lengths / max(1.0, lengths.mean())) if len(lengths) else lengths
        for word, posting in found.items():
            if posting:
                numbers, counts = np.array(posting[0], dtype=np.intp), np.array(posting[1], dtype=np.float32)
                scores[numbers] += weights[word] * (K1 + 1) * counts / (counts + norm[numbers]) / highest
        best = np.lexsort((-np.arange(len(scores)), -scores))[:most]
        return {self.keys[number]: float(scores[number]) for number in best if scores[number] > 0.0}
