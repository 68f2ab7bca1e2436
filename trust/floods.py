"""Passages that were made to be found: groups for one question, and single ones for all (`TopPassages`).

An attacker who wants a false answer to be found writes several texts that repeat the question, or all of its words, and
agree on the answer ("PoisonedRAG", Zou and others, 2024). Honest answers hold the question's words scattered, and two
independent texts seldom hold nearly all of them in neighbouring sentences. So a passage is suspected where

    it repeats   at least `RUN` of the question, word for word, and `COVERED` of its content words
    it covers    `COVERED` of its content words, `IN_ONE_PLACE` of them in one sentence and the one before

and is no copy of an earlier one, or repeats the question whole. Suspected passages that share a word beyond the
question are a group, and so are passages with half of the question and half of the words that the group shares. Copies
of one honest text (mirrors, versions of a manual, changelogs, pages of one template) cover a question together, but do
not repeat it.

An attacker may repeat an honest text as well, to have it marked. So origin and time decide within a group: what stands
higher, or else came first, is its source and is never marked (`_flood`). The rest is a flood if the group has `GROUP`
independent speakers; of claims that repeat a better text and add the same word, `GROUP` are one, whoever sent them.
What repeats a better text, marked or not, comes after it (`find_repeated`). Texts of one speaker alone are no flood.

`python -m bench.poisoning` measures both; docs/decisions/0020-floods.md has the tables and the limits.
"""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise
from typing import NamedTuple

from sluice.text.words import cut_sentences

GROUP = 3
"""Number of independent speakers from which suspected passages are a flood; of texts, beside their source."""
FIRST_BY_SECONDS = 3_600.0
"""Lead by which the first of equals came first: a flood comes at once, and a crawl fetches its pages together."""
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
REPEATED = 0.4
"""Share of the words beyond the question, of the shorter of two passages, from which one repeats the other."""
HALF_COVERED = 0.5
SHARED = 0.5


class Analysis(NamedTuple):
    """The index's analysis of a text in one language."""

    terms: Callable[[str], Sequence[str]]
    """Returns the terms of a text in order, function words included."""
    content: Callable[[str], Collection[str]]
    """Returns the distinct terms of a text that are not function words."""


class Standing(IntEnum):
    """How far the origin of a passage speaks for it."""

    CLAIMED = 0
    """A sender's word."""
    FETCHED = 1
    """A page, as its host or a search provider gave it."""
    VOUCHED = 2
    """The operator's own, or of a source that the operator lists: never marked."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A passage as it was found: its text under its title and headings, who speaks, and since when it is known."""

    text: str
    speaker: str
    """Identifier of one speaker: a site, a sender, a repository."""
    standing: Standing = Standing.CLAIMED
    since: float = 0.0
    """Unix time at which the instance first had the text."""


@dataclass(frozen=True, slots=True, eq=False)
class _Read:
    """The words that a passage shares with the question, and those beyond it."""

    passage: Passage
    beyond: frozenset[str]
    coverage: float
    repeats_whole: bool = False
    is_suspected: bool = False


def find_crafted(question: str, passages: Sequence[Passage], analysis: Analysis) -> frozenset[int]:
    """Return the positions of the passages that were made for the question; empty where there is no flood.

    Groups are looked for among all who may be marked and among mere claims, as honest texts on the question would
    hide what the others share; and among those that repeat it whole, for the same reason.
    """
    words, content = analysis.terms(question), frozenset(analysis.content(question))
    if not content:
        return frozenset()
    read = [_read(words, content, passage, analysis) for passage in passages]
    order = sorted(range(len(read)), key=lambda one: (-passages[one].standing, passages[one].since))
    crafted = _copies(read)
    for highest in (Standing.FETCHED, Standing.CLAIMED):
        judged = [one for one in order if passages[one].standing <= highest]
        whole = [one for one in judged if read[one].repeats_whole]
        crafted |= _flood(read, whole) | _flood(read, _suspected(read, judged, whole))
    return crafted


def _copies(read: Sequence[_Read]) -> frozenset[int]:
    """Return the claims, whoever sent them, that repeat a text of higher standing and agree on a word that it lacks."""
    crafted = frozenset[int]()
    for source in (one for one in read if one.passage.standing is not Standing.CLAIMED):
        copies = {n: one.beyond - source.beyond for n, one in enumerate(read) if _repeats(one, source)}
        claims = {n: words for n, words in copies.items() if read[n].passage.standing is Standing.CLAIMED}
        added = _shared_words(list(claims.values()))
        crafted |= {position for position, words in claims.items() if words & added}
    return crafted


def _repeats(one: _Read, source: _Read) -> bool:
    """Return whether a passage says what another one on the question does that stands higher, or came first."""
    own, other = one.passage, source.passage
    if own.speaker == other.speaker or one.coverage < HALF_COVERED or source.coverage < COVERED:
        return False
    if own.standing == other.standing and other.since + FIRST_BY_SECONDS > own.since:
        return False
    if own.standing is Standing.CLAIMED < other.standing and source.is_suspected and one.is_suspected:
        return True
    smaller = min(len(one.beyond), len(source.beyond))
    return own.standing <= other.standing and len(one.beyond & source.beyond) >= max(1, REPEATED * smaller)


def find_repeated(question: str, passages: Sequence[Passage], analysis: Analysis) -> dict[int, int]:
    """Return, for each passage that repeats better ones, the best of these: the highest, and of equals the first."""
    words, content = analysis.terms(question), frozenset(analysis.content(question))
    read = [_read(words, content, passage, analysis) for passage in passages] if content else []
    order = sorted(range(len(read)), key=lambda one: (-passages[one].standing, passages[one].since))
    best = {n: next((source for source in order if _repeats(one, read[source])), None) for n, one in enumerate(read)}
    return {position: source for position, source in best.items() if source is not None}


def _flood(read: Sequence[_Read], suspected: Sequence[int]) -> frozenset[int]:
    """Return the suspected passages that agree, and others that say the same, but for their sources: what stands
    higher, pages included unless they are a flood themselves; where nothing does, the speaker who came first."""
    shared = _shared_words([read[position].beyond for position in suspected])
    group = [read[position] for position in suspected if read[position].beyond & shared]
    if len({one.passage.speaker for one in group}) < GROUP:
        return frozenset()
    pages = {one.passage.speaker for one in group if one.passage.standing is Standing.FETCHED}
    highest = Standing.FETCHED if len(pages) >= GROUP else Standing.CLAIMED
    alike = {n: one.passage for n, one in enumerate(read) if one in group or _follows(one, shared)}
    if all(one.standing <= highest for one in alike.values()):
        first = min(alike.values(), key=lambda one: one.since)
        others = {n: one for n, one in alike.items() if one.speaker != first.speaker}
        alike = others if all(first.since + FIRST_BY_SECONDS <= one.since for one in others.values()) else alike
    return frozenset(position for position, one in alike.items() if one.standing <= highest)


def _read(words: Sequence[str], content: frozenset[str], passage: Passage, analysis: Analysis) -> _Read:
    in_order = analysis.terms(passage.text)
    coverage = len(content.intersection(in_order)) / len(content)
    if coverage < HALF_COVERED:
        return _Read(passage, frozenset(), coverage)
    is_covered = coverage >= COVERED
    run = _longest_run(words, in_order) if is_covered else 0
    is_long = len(content) >= LEAST_WORDS
    repeats_whole = run == len(words) and (is_long or passage.standing is Standing.CLAIMED)
    return _Read(
        passage=passage,
        beyond=frozenset(analysis.content(passage.text)) - content,
        coverage=coverage,
        repeats_whole=repeats_whole,
        is_suspected=repeats_whole
        or (is_long and run >= max(SHORTEST_RUN, RUN * len(words)))
        or (is_long and is_covered and _is_in_one_place(content, passage, analysis)),
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


def _suspected(read: Sequence[_Read], judged: Sequence[int], whole: Sequence[int]) -> list[int]:
    """Return those that repeat the whole question, and of those that repeat or cover part of it the non-copies."""
    chosen = list(whole)
    for position in judged:
        one = read[position]
        if one.is_suspected and not one.repeats_whole and not any(_is_copy(one, read[other]) for other in chosen):
            chosen.append(position)
    return chosen


def _is_copy(one: _Read, other: _Read) -> bool:
    return len(one.beyond & other.beyond) >= COPY * max(1, len(one.beyond | other.beyond))


def _shared_words(beyond: Sequence[frozenset[str]]) -> frozenset[str]:
    """Return the words of over two letters, as names have, that most of the passages share beyond the question."""
    counts = Counter(term for words in beyond for term in words if len(term) > 2)
    least = max(GROUP, round(0.75 * len(beyond)))
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
