"""Sentences of a probe, as the second version of the gate's profiles reads them: measured by the product until it asked
for the probability of an answer.

An answer is in one sentence, or in two neighbours, while a passage on the same topic has the question's words
scattered. So each sentence is measured together with the one before it and with its headings, which resolve "it" and
"she".
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from sluice.contracts.gate import QueryTerm
from sluice.gate.probe import DECIMALS, Passage, TermFinder
from sluice.text.words import cut_sentences

LONGEST_SENTENCE = 240
"""Characters. A longer one (a table, a list without stops) is cut at a space."""


class Sentence(NamedTuple):
    """A sentence of a passage, and its share of the question's idf mass."""

    chunk_id: str
    text: str
    term_coverage: float
    """Share in it, the sentence before it and the headings."""
    alone: float
    """Share in it alone."""


def choose_sentences(
    terms: Sequence[QueryTerm], passages: Sequence[Passage], count: int, enough: float = math.inf
) -> list[Sentence]:
    """Return the `count` sentences with the largest shares of the idf mass of `terms`, best first; each text once.

    The mass `enough` counts as all of it: no sentence repeats every word of a question of thirty words.

    Of sentences with equal shares (with their neighbour and headings), the one with the larger share alone comes first,
    then that of the better passage. A question without terms is covered by every sentence. A sentence that asks cannot
    answer: it only counts as the one before the next.
    """
    found = [measured for passage in passages for measured in _measure(terms, passage, enough)]
    found.sort(key=lambda measured: (-measured.term_coverage, -measured.alone))
    chosen = {measured.text: measured for measured in reversed(found)}
    best = list(dict.fromkeys(chosen[measured.text] for measured in found))
    return best[:count]


def split_sentences(text: str) -> list[str]:
    """Return a text's sentences in order: up to a stop before a space, or a line; `LONGEST_SENTENCE` at most."""
    return [piece for sentence in cut_sentences(text) for piece in _bounded(sentence)]


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
    """Return the share of the idf mass of the held terms, to six places; 1 without mass, or if `enough` is held."""
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
