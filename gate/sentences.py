"""The sentences of the top hits that hold most of a question's words.

An answer stands in one sentence, or in two neighbours, while a passage on the same topic holds the question's words
scattered. So each sentence is measured together with the one before it and with its headings, which say what "it"
and "she" mean, and the best few are then compared with the question by their vectors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sluice.contracts.gate import QueryTerm
from sluice.contracts.sentences import cut_sentences
from sluice.gate.words import IDENTIFIER

DECIMALS = 6
SENTENCES_COMPARED = 1
"""Sentences that are embedded for one question: a second and a third told covered from not covered no better, and each
costs some 7 ms on one core."""
RARE_WORDS_ENOUGH = 4.0
"""A sentence that holds the idf mass of so many words, each of which one chunk alone has, holds enough of any question.
Without the bound half of the covered questions of 20 and more words (CACM) count as not covered."""
LONGEST_SENTENCE = 240
"""Characters. A longer one (a table, a list without stops) is cut at a blank."""

Analyse = Callable[[str], Sequence[str]]
"""The terms of a text as the index has them: in one language, stemmed."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A top hit as it is read: its title and headings, its text, and the analysis of its language."""

    chunk_id: str
    heading: str
    text: str
    analyse: Analyse


class Sentence(NamedTuple):
    """A sentence of a passage, and which share of the question's idf mass it holds."""

    chunk_id: str
    text: str
    term_coverage: float
    """In it, the sentence before it and the headings."""
    alone: float
    """In it alone."""


def choose_sentences(
    terms: Sequence[QueryTerm], passages: Sequence[Passage], count: int, enough: float = math.inf
) -> list[Sentence]:
    """The `count` sentences that hold most of the idf mass of `terms`, best first; no text comes twice.

    A sentence that holds the mass `enough` holds all: no sentence repeats every word of a question of thirty words.

    Of those that hold equally much with their neighbour and headings, the one that holds more alone comes first, then
    the one of the better passage. A question without terms is held by every sentence. A sentence that asks answers
    nothing: it only counts as the one before the next.
    """
    found = [measured for passage in passages for measured in _measure(terms, passage, enough)]
    found.sort(key=lambda measured: (-measured.term_coverage, -measured.alone))
    chosen = {measured.text: measured for measured in reversed(found)}
    best = list(dict.fromkeys(chosen[measured.text] for measured in found))
    return best[:count]


def split_sentences(text: str) -> list[str]:
    """The sentences of a text in order: up to a stop before a blank, or a line; none longer than `LONGEST_SENTENCE`."""
    return [piece for sentence in cut_sentences(text) for piece in _bounded(sentence)]


class TermFinder:
    """Finds which of a question's terms a text of one language has: identifiers as they stand, words by their stems."""

    def __init__(self, terms: Sequence[str], analyse: Analyse) -> None:
        self._analyse = analyse
        self._identifiers = [term for term in terms if IDENTIFIER.search(term)]
        self._parts = {term: parts for term in terms if term not in self._identifiers and (parts := analyse(term))}

    def find(self, text: str) -> frozenset[str]:
        """The terms that `text` has."""
        has = frozenset(self._analyse(text))
        words = [term for term, parts in self._parts.items() if has.issuperset(parts)]
        lowered = text.casefold() if self._identifiers else ""
        return frozenset([*words, *(term for term in self._identifiers if term in lowered)])


def _measure(terms: Sequence[QueryTerm], passage: Passage, enough: float) -> Iterator[Sentence]:
    idf = {entry.term: entry.idf for entry in terms}
    finder = TermFinder(list(idf), passage.analyse)
    above, before = finder.find(passage.heading), frozenset[str]()
    for text in split_sentences(passage.text):
        own = finder.find(text)
        if not text.endswith(("?", "？")):
            together = share_of(idf, own | before | above, enough)
            yield Sentence(passage.chunk_id, text, together, share_of(idf, own, enough))
        before = own


def share_of(idf: Mapping[str, float], held: Collection[str], enough: float = math.inf) -> float:
    """Share of the idf mass that the held terms have, to six places; 1 where there is none, or `enough` is held."""
    total = min(enough, math.fsum(idf.values()))
    mass = math.fsum(weight for term, weight in idf.items() if term in held)
    return round(min(1.0, mass / total), DECIMALS) if total > 0 else 1.0


def _bounded(sentence: str) -> Iterator[str]:
    while len(sentence) > LONGEST_SENTENCE:
        end = sentence.rfind(" ", 1, LONGEST_SENTENCE)
        end = end if end > 0 else LONGEST_SENTENCE
        yield sentence[:end]
        sentence = sentence[end:].lstrip()
    yield sentence
