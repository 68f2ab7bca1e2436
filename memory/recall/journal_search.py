"""Searches the journal's own words, for prompts, and while the index is away. Needs no model and no service.

The words of each feature's iterations are counted once; the counts of the features searched last are kept.
"""

from __future__ import annotations

import re
import threading
from array import array
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from itertools import islice

import numpy as np

from sluice.memory.journal.feature_memory import FeatureMemory, RecordedIteration
from sluice.text.words import K1, WORD, B, inverse_document_frequency, singular

CANDIDATES = 200
"""Most iterations, and most learnings, that a search offers for weighing."""
KEPT_FEATURES = 16


def search_journal(state: FeatureMemory, query: str, task_id: int | None) -> dict[str, float]:
    """Return the relevance in (0, 1], by id, of iterations and offered learnings that hold a word of the query.

    A learning that stands in the place of a retired one is found by the words of either.
    """
    successors = state.successors(task_id)
    searched = (*state.active(task_id), *(state.learnings[one] for one in successors))
    found = _index_of(tuple((one.id, f"{one.text}\n{one.reason}") for one in searched)).search(query, CANDIDATES)
    for retired, successor in successors.items():
        found[successor] = max(found.get(successor, 0.0), found.pop(retired, 0.0))
    return _iterations(state, query) | {key: relevance for key, relevance in found.items() if relevance}


@lru_cache(maxsize=KEPT_FEATURES)
def _index_of(texts: tuple[tuple[str, str], ...]) -> WordIndex:
    return WordIndex(texts)


class _IterationWords:
    """Words of a feature's iterations; a search adds those of iterations recorded since the last one."""

    def __init__(self) -> None:
        self.first: RecordedIteration | None = None
        """Held, so that no other iteration gets its identity."""
        self._index = WordIndex()
        self._lock = threading.Lock()

    def search(self, state: FeatureMemory, query: str) -> dict[str, float]:
        with self._lock:
            keys = self._index.keys
            if keys and keys[-1] not in state.iterations:
                self._index = WordIndex()
            for one in islice(state.iterations.values(), len(self._index.keys), None):
                paths = "\n".join(each.path for each in one.record.files_touched)
                self._index.add(one.entry_id, f"{one.record.embedding_text()}\n{paths}")
            return self._index.search(query, CANDIDATES)


@lru_cache(maxsize=KEPT_FEATURES)
def _words_of(_identity: int) -> _IterationWords:
    return _IterationWords()


def _iterations(state: FeatureMemory, query: str) -> dict[str, float]:
    """Search iterations. States of one journal share them, so the first one identifies the words kept."""
    first = next(iter(state.iterations.values()), None)
    if first is None:
        return {}
    words = _words_of(id(first))
    words.first = first
    return words.search(state, query)


class WordIndex:
    """An index of texts by their words. Texts are added and never removed."""

    def __init__(self, texts: Iterable[tuple[str, str]] = ()) -> None:
        self.keys: list[str] = []
        self._lengths = array("f")
        self._postings: dict[str, tuple[array[int], array[float]]] = {}
        for key, text in texts:
            self.add(key, text)

    def add(self, key: str, text: str) -> None:
        """Add one more text under a key of its own."""
        words = Counter(words_of(text))
        for word, count in words.items():
            numbers, counts = self._postings.setdefault(word, (array("I"), array("f")))
            numbers.append(len(self.keys))
            counts.append(count)
        self._lengths.append(words.total())
        self.keys.append(key)

    def search(self, query: str, most: int) -> dict[str, float]:
        """Return the relevance in (0, 1] of the `most` best texts holding a word of the query; later ones win ties."""
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


_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_FUNCTION_WORDS_TEXT = """
a an and are as at be been but by can did do does for from had has have how i if in into is it its me my of on or our so
that the their them then there these they this to was we were what when where which who why will with you your
"""
_FUNCTION_WORDS = frozenset(_FUNCTION_WORDS_TEXT.split())
"""Fewer than in `text.words`: with all of those, the journal's words find 10 of 51 answers instead of 13."""


def words_of(text: str) -> list[str]:
    """Return the words of a text, in lower case and singular, with the parts of identifiers, without function words."""
    found = []
    for word in WORD.findall(text):
        lowered = word.lower()
        if lowered in _FUNCTION_WORDS:
            continue
        found.append(singular(lowered))
        if not word.islower() and len(parts := _CAMEL.split(word)) > 1:
            found.extend(singular(part.lower()) for part in parts)
    return found
