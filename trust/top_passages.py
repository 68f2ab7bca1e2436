"""Passages that stand at the top of the answers to many questions that have nothing to do with one another.

A text that is stuffed with what people ask for, or was made to lie near every question's vector, wins questions on all
topics; an honest one wins those on its own, which share a word. Of 200 questions on SQuAD no passage was among the
first three of more than 6, and a third of these shared a word; on five other collections of no more than 4.
"""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Collection, Sequence

REMEMBERED = 200
"""Distinct questions, the latest ones."""
FIRST = 3
"""Passages of an answer that count as its top."""
MANY = 15
"""Questions from which a passage is at the top of many."""
ONE_TOPIC = 0.25
"""Share of its questions that have a word in common, from which they are on one topic."""
SMALLEST_CORPUS = 1_000
"""Chunks: in a small corpus any passage is the best there is for something."""


class TopPassages:
    """What the latest questions to one corpus found first. Safe for threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._latest: OrderedDict[frozenset[str], tuple[str, ...]] = OrderedDict()

    def add(self, question_words: Collection[str], chunk_ids: Sequence[str]) -> frozenset[str]:
        """Count a question, by its content words, and the chunks it found in their order.

        Returns those of its first chunks that are at the top of many unrelated questions. A question that is asked
        again counts once.
        """
        words, top = frozenset(question_words), tuple(chunk_ids[:FIRST])
        with self._lock:
            self._latest[words] = top
            self._latest.move_to_end(words)
            if len(self._latest) > REMEMBERED:
                self._latest.popitem(last=False)
            return frozenset(chunk_id for chunk_id in top if self._is_everywhere(chunk_id))

    def _is_everywhere(self, chunk_id: str) -> bool:
        questions = [words for words, top in self._latest.items() if chunk_id in top]
        if len(questions) < MANY:
            return False
        shared = Counter(word for words in questions for word in words)
        return max(shared.values(), default=0) < ONE_TOPIC * len(questions)
