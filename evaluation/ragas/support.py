"""Groundedness without a language model: the share of an answer's sentences that a cited passage supports.

A sentence is supported where one passage has a sentence near it in meaning, and holds most of its words and all of its
numbers and names. It is called support and not truth: a sentence that turns a passage's statement round ("is not",
"rarely") has nearly the same words and vector, and counts as supported; docs/learning.md says how often.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sluice.contracts.sentences import cut_sentences

Vectors = NDArray[np.float32]
Embed = Callable[[Sequence[str]], Vectors]
"""Vectors of length 1, shape (texts, d)."""

NEAR = 0.45
"""The least cosine of a supported sentence to a sentence of the passage: see `bench.groundedness`."""
HELD = 0.45
"""The least share of its content words that the passage holds."""
FEWEST_WORDS = 3
"""Content words of a sentence that says something: "Here is what I found:" does not."""

_WORD = re.compile(r"[^\W_]+(?:[.'’-][^\W_]+)*")
_CITATION = re.compile(r"\[\d+(?:,\s*\d+)*\]")
_SHORTEST_WORD = 4
"""Letters of a content word: shorter ones are mostly function words."""
_SHORTEST_STEM = 5


class SentenceSupport(NamedTuple):
    """One sentence of an answer, the passage that comes nearest to supporting it, and how near that comes.

    `words_held` is the share of its content words, `has_verbatim` whether all of its numbers and names are there.
    """

    sentence: str
    passage: int
    cosine: float
    words_held: float
    has_verbatim: bool

    @property
    def is_supported(self) -> bool:
        """Whether that is enough."""
        return self.has_verbatim and self.cosine >= NEAR and self.words_held >= HELD


def find_support(response: str, passages: Sequence[str], embed: Embed) -> tuple[SentenceSupport, ...]:
    """Each sentence of `response` that says something, with its support among `passages`; none without a passage."""
    sentences = [text for one in cut_sentences(_CITATION.sub("", response)) if len(_words(text := one)) >= FEWEST_WORDS]
    of_passages = [(row, one) for row, passage in enumerate(passages) for one in cut_sentences(passage)]
    if not sentences or not of_passages:
        return ()
    vectors = embed([*sentences, *(text for _, text in of_passages)])
    cosines = vectors[: len(sentences)] @ vectors[len(sentences) :].T
    owner = np.array([row for row, _ in of_passages])
    texts = [_Held(passage) for passage in passages]
    return tuple(_best(one, row, owner, texts) for one, row in zip(sentences, cosines, strict=True))


def groundedness(support: Sequence[SentenceSupport]) -> float | None:
    """The share of sentences that are supported; None where the answer says nothing that could be."""
    return sum(one.is_supported for one in support) / len(support) if support else None


class _Held:
    """What a passage holds: its words, the beginnings of the long ones (for other endings), its numbers and names."""

    def __init__(self, passage: str) -> None:
        self.lowered = passage.casefold()
        self.words = {word.casefold() for word in _WORD.findall(passage)}
        self.beginnings = {word[:_SHORTEST_STEM] for word in self.words}

    def share(self, words: Sequence[str]) -> float:
        held = [
            word in self.words or (len(word) > _SHORTEST_STEM and word[:_SHORTEST_STEM] in self.beginnings)
            for word in words
        ]
        return sum(held) / len(held)

    def has_all(self, verbatim: Sequence[str]) -> bool:
        return all(one in self.lowered for one in verbatim)


def _best(sentence: str, cosines: Vectors, owner: NDArray[np.int64], passages: Sequence[_Held]) -> SentenceSupport:
    """The passage with the nearest sentence among those that support; where none does, of all."""
    words, verbatim = _words(sentence), _verbatim(sentence)
    found = []
    for row, passage in enumerate(passages):
        of_passage = cosines[owner == row]
        if not len(of_passage):
            continue
        cosine, held = float(of_passage.max()), passage.share(words)
        found.append(SentenceSupport(sentence, row, round(cosine, 6), round(held, 6), passage.has_all(verbatim)))
    return max(found, key=lambda one: (one.is_supported, one.cosine))


def _words(sentence: str) -> list[str]:
    return [one.casefold() for one in _WORD.findall(sentence) if len(one) >= _SHORTEST_WORD]


def _verbatim(sentence: str) -> list[str]:
    """The numbers, and the words with a capital letter that do not begin the sentence, in lower case."""
    words = _WORD.findall(sentence)
    return [
        word.casefold()
        for position, word in enumerate(words)
        if any(letter.isdigit() for letter in word) or (position and word[0].isupper() and len(word) > 1)
    ]
