"""Finds passages about another thing than the one a question names: the Aldo 5 for the Aldo 3, the Sudra oven for the
Norda oven.

A mark tells a thing from its like: a token with a digit, or, in English, a word with a capital that begins no sentence.
A text is about another thing if it lacks a mark of the question and bears another of the same kind, at the same side of
the same word. Names that are spelt nearly alike are taken for one.
"""

from __future__ import annotations

import re
from collections import defaultdict
from difflib import SequenceMatcher
from itertools import chain

from sluice.text.words import FUNCTION_WORDS

_COMMON = frozenset(FUNCTION_WORDS)
_TOKEN = re.compile(r"[^\W_]+(?:[-'.][^\W_]+)*")
_PART = re.compile(r"[-'.]")
ALIKE = 0.66
"""Share of equal letters from which two names are one, misspelt or inflected (`difflib.SequenceMatcher.ratio`)."""
MOST_NAMES = 0.7
"""Share of words with a capital from which a question is written as a title, and its capitals tell nothing."""
LEAST_WORDS = 3
"""Words up to which a question is no title, though all of them have a capital."""
LEAST_CHARACTERS = 3
"""Of the word beside a mark: units and initials stand beside anything."""


def is_about_another(question: str, text: str, *, is_english: bool) -> bool:
    """Return whether `text` is about another thing than the question, by a mark that it bears instead."""
    asked = _TOKEN.findall(question)
    if is_english and _is_title(asked[1:]):
        return False
    marks = [place for place, token in enumerate(asked) if _is_mark(token, is_english=is_english and place > 0)]
    if not marks:
        return False
    tokens = _TOKEN.findall(text)
    places: defaultdict[str, list[int]] = defaultdict(list)
    for place, token in enumerate(tokens):
        places[token.lower()].append(place)
    held = {*places, *chain.from_iterable(_PART.split(token) for token in places)}
    return any(
        _is_mark(tokens[beside], is_english=is_english) and _has_digit(tokens[beside]) == _has_digit(asked[mark])
        for mark in marks
        if not _is_held(asked[mark].lower().removesuffix("'s"), held)
        for side in (-1, 1)
        if 0 <= mark + side < len(asked) and _may_stand_beside(word := asked[mark + side].lower())
        for place in places.get(word, ())
        if 0 <= (beside := place - side) < len(tokens)
    )


def _is_title(words: list[str]) -> bool:
    content = [word for word in words if word.lower() not in _COMMON]
    return len(content) > LEAST_WORDS and sum(word[0].isupper() for word in content) > MOST_NAMES * len(content)


def _is_mark(token: str, *, is_english: bool) -> bool:
    return _has_digit(token) or (is_english and token[0].isupper() and token.lower() not in _COMMON)


def _has_digit(token: str) -> bool:
    return any(map(str.isdigit, token))


def _is_held(mark: str, held: set[str]) -> bool:
    if mark in held or mark in _COMMON:
        return True
    if _has_digit(mark):
        return any(one.startswith(f"{mark}.") for one in held)  # 3.12 stands in 3.12.1
    return any(one[0] == mark[0] and SequenceMatcher(None, mark, one).ratio() > ALIKE for one in held)


def _may_stand_beside(word: str) -> bool:
    return len(word) >= LEAST_CHARACTERS and not word.isdigit() and word not in _COMMON
