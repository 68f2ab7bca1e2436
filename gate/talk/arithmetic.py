"""Recognises an utterance that only asks for a calculation: numbers and operators, in digits or words.

No unit, no name, no other word may stand in it. Names and dates (`9/11`, `24/7`, `2019-2020`) are no sums.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from sluice.gate.talk.lexicon import Language, Lexicon, Role, normalize, split_words

MOST_CHARACTERS = 120
_PIECE = re.compile(r"(?P<number>\d+(?:[.,]\d+)*)|(?P<operator>[-+*/^%=()√²³!·:])|(?P<words>[^\d+*/^%=()√²³!·:-]+|-)")
_DASHES = str.maketrans(
    {"−": "-", "–": "-", "—": "-", "×": "*", "÷": "/", "∗": "*", "⋅": "*", "’": ",", "？": "?", "％": "%"}
)
_TIMES_SIGN = re.compile(r"(?<=[\d)])\s*[x×]\s*(?=[\d(])")
_HYPHEN = re.compile(r"(?<=[^\W\d])-(?=[^\W\d])")
_NAMES = re.compile(
    r"9[/-]11|24/7|7[/-]11|50/50|20/20|80/20|60/40|4/20|[246]\s*[x*]\s*4|1[/-]800.*|\d-\d-\d"  # known by these names
    r"|(?:1\d|20)\d\d[-/](?:\d\d|(?:1\d|20)\d\d)"  # two years
    r"|\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}"  # a date
    r"|\d+(?:-\d+){2,}"
)
"""What is written as a sum and means something else."""


class _Piece(NamedTuple):
    """A number, an operator, or a run of words: which, its text, and its words."""

    kind: str
    text: str
    words: list[str]


def is_arithmetic(utterance: str, lexicon: Lexicon) -> bool:
    """Whether `utterance` is a calculation in the words of one language of `lexicon`, or in none."""
    if len(utterance) > MOST_CHARACTERS:
        return False
    text = _HYPHEN.sub(" ", _TIMES_SIGN.sub("*", normalize(utterance.translate(_DASHES))))
    pieces = [_Piece(str(found.lastgroup), found[0], split_words(found[0])) for found in _PIECE.finditer(text)]
    return any(_is_sum(pieces, language) for language in lexicon.languages) and not _is_name(text)


def _is_name(text: str) -> bool:
    """Whether all figures and signs of `text` together are a name or a date."""
    figures = re.findall(r"\d[\d\s.,x*/-]*\d|\d", text)
    return len(figures) == 1 and _NAMES.fullmatch(figures[0].strip()) is not None


def _is_sum(pieces: list[_Piece], language: Language) -> bool:
    """Two numbers and what joins them, or one with what is done to it; all else must only ask."""
    numbers = joins = applied = 0
    in_words = False
    for kind, piece, words in pieces:
        if kind == "number":
            numbers, in_words = numbers + 1, False
        elif kind == "operator":
            joins += piece in "-+*/^%:·"
            applied += piece in "√²³!"
            in_words = False
        else:
            for role in _roles(words, language):
                if role is None:
                    return False
                numbers += bool(role & Role.NUMBER) and not in_words
                in_words = bool(role & Role.NUMBER)
                joins += bool(role & Role.BINARY)
                applied += bool(role & Role.UNARY)
    return (numbers >= 2 and joins > 0) or (numbers >= 1 and applied > 0)


_ALLOWED = (Role.BINARY, Role.UNARY, Role.NUMBER, Role.ASK, Role.SOFT, Role.SAID)


def _roles(words: list[str], language: Language) -> list[int | None]:
    """What each phrase of `words` does in a sum, by the longest phrase first; None for one that has no part in it."""
    if not (language.unspaced or all(word in language.words or _is_compound(word, language) for word in words)):
        return [None]
    pieces, joint = (list("".join(words)), "") if language.unspaced else (words, " ")
    roles: list[int | None] = []
    start = 0
    while start < len(pieces):
        for end in range(min(len(pieces), start + language.longest), start, -1):
            role = _role(joint.join(pieces[start:end]), language)
            if role is not None:
                roles.append(role)
                start = end
                break
        else:
            return [*roles, None]
    return roles


def _role(phrase: str, language: Language) -> int | None:
    roles = language.phrases.get(phrase, 0)
    found = next((role for role in _ALLOWED if role & roles), None)
    return Role.NUMBER if found is None and _is_compound(phrase, language) else found


@lru_cache(maxsize=1024)
def _is_compound_of(phrase: str, language: Language) -> bool:
    return not phrase or any(
        phrase.startswith(number) and _is_compound_of(phrase[len(number) :], language) for number in language.compounds
    )


def _is_compound(phrase: str, language: Language) -> bool:
    """`einundzwanzig`, `ventidue`: one word made of number words, joined by `und`, `en`."""
    return len(phrase) > 5 and phrase.isalpha() and _is_compound_of(phrase, language)
