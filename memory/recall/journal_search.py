"""Search in the journal's own words, for prompts, and for where the index is away. Nothing is loaded or asked for it.

Of each feature's iterations the words are counted once; the counts of the features asked for last are kept.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from functools import lru_cache
from itertools import islice

from sluice.memory.journal.feature_memory import FeatureMemory, RecordedIteration
from sluice.memory.recall.bm25 import WordIndex

CANDIDATES = 200
"""So many iterations, and so many learnings, are offered to be weighed."""
KEPT_FEATURES = 16


def search_journal(state: FeatureMemory, query: str, task_id: int | None) -> dict[str, float]:
    """Relevance in (0, 1] by id, of iterations and of learnings that are offered, that hold a word of the query."""
    learnings = tuple((one.id, f"{one.text}\n{one.reason}") for one in state.active(task_id))
    return _iterations(state, query) | _index_of(learnings).search(query, CANDIDATES)


@lru_cache(maxsize=KEPT_FEATURES)
def _index_of(texts: tuple[tuple[str, str], ...]) -> WordIndex:
    return WordIndex(texts)


class _IterationWords:
    """The words of a feature's iterations, those that were recorded since the last question added."""

    def __init__(self, first: RecordedIteration) -> None:
        self.first = first
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


_kept: OrderedDict[int, _IterationWords] = OrderedDict()
_kept_lock = threading.Lock()


def _iterations(state: FeatureMemory, query: str) -> dict[str, float]:
    """States of one journal share their iterations, so the first one tells whose words are kept."""
    first = next(iter(state.iterations.values()), None)
    if first is None:
        return {}
    with _kept_lock:
        words = _kept.pop(id(first), None)
        if words is None or words.first is not first:
            words = _IterationWords(first)
        _kept[id(first)] = words
        while len(_kept) > KEPT_FEATURES:
            _kept.popitem(last=False)
    return words.search(state, query)
