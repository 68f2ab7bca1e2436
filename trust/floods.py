"""Passages that were made to be found: groups for one question, and single ones for all (`TopPassages`).

An attacker who wants a false answer to be found writes several texts that repeat the question, or all of its words, and
agree on the answer ("PoisonedRAG", Zou and others, 2024). Honest answers hold the question's words scattered, and two
independent texts seldom hold nearly all of them in neighbouring sentences. So a passage is suspected where

    it repeats   at least `RUN` of the question, word for word, and `COVERED` of its content words
    it covers    `COVERED` of its content words, `IN_ONE_PLACE` of them in one sentence and the one before

and is no copy of a better one, or repeats the question whole. Suspected passages of at least `GROUP` independent
sources that share a word beyond the question are a group: they are marked, and so are passages with half of the
question and half of the words that the group shares. Copies of one honest text (mirrors, versions of a manual,
changelogs, pages of one template) cover a question together, but do not repeat it.

`python -m bench.poisoning` measures both; docs/decisions/0020-floods.md has the tables and the limits.
"""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from sluice.text.words import cut_sentences

GROUP = 3
"""Number of independent sources from which suspected passages are a group."""
LEAST_WORDS = 3
"""Content words of the shortest question that is judged: many honest pages have the heading `What is X?`. A submission
is suspected for a shorter one too, if it repeats the whole question."""
RUN = 0.6
SHORTEST_RUN = 4
"""Fewest words in a row of the question that a passage repeats, function words included."""
COVERED = 0.8
IN_ONE_PLACE = 0.6
COPY = 0.25
"""Jaccard index of the content words beyond the question from which a passage is a copy, edited or not."""
HALF_COVERED = 0.5
SHARED = 0.5


class Analysis(NamedTuple):
    """The index's analysis of a text in one language."""

    terms: Callable[[str], Sequence[str]]
    """Returns the terms of a text in order, function words included."""
    content: Callable[[str], Collection[str]]
    """Returns the distinct terms of a text that are not function words."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A passage as it was found: its text under its title and headings, and its source."""

    text: str
    source: str
    """Identifier of one speaker: a site, a submission, a file."""
    is_submitted: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class _Read:
    """The words that a passage shares with the question, and those beyond it."""

    source: str
    beyond: frozenset[str]
    coverage: float
    repeats_whole: bool
    repeats: bool
    covers: bool


def find_crafted(question: str, passages: Sequence[Passage], analysis: Analysis) -> frozenset[int]:
    """Return the positions of the passages that were made for the question; empty where there is no group."""
    words, content = analysis.terms(question), frozenset(analysis.content(question))
    if not content:
        return frozenset()
    read = [_read(words, content, passage, analysis) for passage in passages]
    whole = [position for position, one in enumerate(read) if one.repeats_whole]
    return _group(read, whole) | _group(read, _suspected(read, whole))


def _group(read: Sequence[_Read], suspected: Sequence[int]) -> frozenset[int]:
    """Return the suspected passages that agree, and others that say the same; empty for too few sources."""
    shared = _shared_words([read[position] for position in suspected])
    group = {position for position in suspected if read[position].beyond & shared}
    if len({read[position].source for position in group}) < GROUP:
        return frozenset()
    return frozenset(position for position, one in enumerate(read) if position in group or _follows(one, shared))


def _read(words: Sequence[str], content: frozenset[str], passage: Passage, analysis: Analysis) -> _Read:
    in_order = analysis.terms(passage.text)
    coverage = len(content.intersection(in_order)) / len(content)
    if coverage < HALF_COVERED:
        return _Read(passage.source, frozenset(), coverage, repeats_whole=False, repeats=False, covers=False)
    is_covered = coverage >= COVERED
    run = _longest_run(words, in_order) if is_covered else 0
    is_long = len(content) >= LEAST_WORDS
    return _Read(
        source=passage.source,
        beyond=frozenset(analysis.content(passage.text)) - content,
        coverage=coverage,
        repeats_whole=run == len(words) and (is_long or passage.is_submitted),
        repeats=is_long and run >= max(SHORTEST_RUN, RUN * len(words)),
        covers=is_long and is_covered and _is_in_one_place(content, passage, analysis),
    )


def _is_in_one_place(content: frozenset[str], passage: Passage, analysis: Analysis) -> bool:
    """Return whether a sentence and the one before together hold most of the question's content words."""
    sentences = [frozenset(analysis.terms(sentence)) for sentence in cut_sentences(passage.text)]
    return any(
        len(content & (before | own)) >= IN_ONE_PLACE * len(content)
        for before, own in pairwise([frozenset[str](), *sentences])
    )


def _longest_run(question: Sequence[str], terms: Sequence[str]) -> int:
    """Return the length of the longest run of question terms that stands in `terms` without gaps."""
    positions: dict[str, list[int]] = {}
    for position, term in enumerate(terms):
        positions.setdefault(term, []).append(position)
    longest, before = 0, dict[int, int]()
    for term in question:
        before = {position: before.get(position - 1, 0) + 1 for position in positions.get(term, ())}
        longest = max(longest, *before.values()) if before else longest
    return longest


def _suspected(read: Sequence[_Read], whole: Sequence[int]) -> list[int]:
    """Return those that repeat the whole question, and of those that repeat or cover part of it the non-copies."""
    chosen = list(whole)
    for position, one in enumerate(read):
        is_suspected = (one.covers or one.repeats) and not one.repeats_whole
        if is_suspected and not any(_is_copy(one, read[other]) for other in chosen):
            chosen.append(position)
    return chosen


def _is_copy(one: _Read, other: _Read) -> bool:
    return len(one.beyond & other.beyond) >= COPY * max(1, len(one.beyond | other.beyond))


def _shared_words(read: Sequence[_Read]) -> frozenset[str]:
    """Return the words of over two letters, as names have, that most suspected passages share beyond the question."""
    counts = Counter(term for one in read for term in one.beyond if len(term) > 2)
    least = max(GROUP, round(0.75 * len(read)))
    return frozenset(term for term, count in counts.items() if count >= least)


def _follows(one: _Read, shared: frozenset[str]) -> bool:
    """Return whether a passage that holds half of the question says what the group says."""
    return one.coverage >= HALF_COVERED and len(one.beyond & shared) >= SHARED * len(shared)


REMEMBERED = 200
"""Number of distinct questions that are remembered, the latest ones."""
FIRST = 3
"""Number of first passages of an answer that count as its top."""
MANY = 15
"""Number of questions from which a passage is at the top of many."""
ONE_TOPIC = 0.25
"""Share of a passage's questions with a word in common from which they are on one topic."""
SMALLEST_CORPUS = 1_000
"""Chunks below which a corpus is too small to judge: any passage may be its best for something."""


class TopPassages:
    """First passages for the latest questions to one corpus. Safe for threads.

    A text stuffed with popular words, or made to lie near every question's vector, is at the top of answers on all
    topics; an honest one is at the top for its own topic, whose questions share a word. Of 200 questions on SQuAD no
    passage was among the first three of more than 6, a third sharing a word; on five other collections, of more than 4.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._latest: OrderedDict[frozenset[str], tuple[str, ...]] = OrderedDict()

    def add(self, question_words: Collection[str], chunk_ids: Sequence[str]) -> frozenset[str]:
        """Count a question, by its content words, and the chunks it found in order. A repeated one counts once.

        Returns those of its first chunks that are at the top for many unrelated questions.
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
