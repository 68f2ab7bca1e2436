"""Splits a text into words, identifiers and numbers, and replaces phrases of several words by their readings.

Identifiers and numbers are compared letter by letter, words by meaning.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache

from sluice.memory.learning.polarity.lexicon import NOT, VOCABULARY, lexicon

_OTHER_UNITS = frozenset({"M", "S", "H", "D", "b", "Kb", "Mb", "Gb"})
"""Units other than minutes, seconds and bytes: a letter's case distinguishes units."""
_COUNTED = "zero one two three four five six seven eight nine ten eleven twelve"
_NUMBER_WORDS = {word: str(number) for number, word in enumerate(_COUNTED.split()) if word != "one"} | {
    "twice": "2",
    "hundred": "100",
    "thousand": "1000",
    "million": "1000000",
}
_CAMEL = re.compile(r"[a-z][A-Z]|[A-Z]{2,}[a-z]{2,}|[A-Z][a-z]+[A-Z]")
_PLURAL_OF_CAPITALS = re.compile(r"[A-Z]{2,}s")
_HYPHENED = re.compile(r"[A-Za-z]+(-[A-Za-z]+)+")


class Kind(Enum):
    """Kind of a token, which decides how it is compared."""

    WORD = "word"
    IDENTIFIER = "identifier"
    NUMBER = "number"
    SIGN = "sign"


@dataclass(frozen=True, slots=True)
class Token:
    """A token. `text` is compared: words in lower case, identifiers letter by letter, numbers with their unit."""

    text: str
    kind: Kind


def tokens_of(text: str) -> list[Token]:
    """Split a text; write out contractions, and take hyphened words apart."""
    for pattern, replacement in VOCABULARY.tables["contractions"]:
        text = re.sub(pattern, replacement, text)
    found: list[Token] = []
    for match in VOCABULARY["token"].finditer(text):
        if match["number"]:
            found.extend(_number(match["number"], match["unit"]))
        elif match["code"]:
            found.extend(_code(match["code"]))
        elif match["sign"]:
            found.append(Token(match["sign"], Kind.SIGN))
        else:
            found.extend(_word(match["word"]))
    return found


def _number(digits: str, unit: str | None) -> list[Token]:
    value = digits.replace(",", "") if re.fullmatch(r"\d{1,3}(,\d{3})+", digits) else digits
    if unit is None:
        return [Token(value, Kind.NUMBER)]
    known = None if unit in _OTHER_UNITS else _units().get(unit.lower())
    if known:
        return [Token(f"{value} {known}", Kind.NUMBER)]
    return [Token(value, Kind.NUMBER), *_word(unit)]


@cache
def _units() -> dict[str, str]:
    return {word: unit for unit, words in VOCABULARY.tables["units"].items() for word in words.split()}


def _code(text: str) -> list[Token]:
    return [Token(part.removesuffix("()"), Kind.IDENTIFIER) for part in text.split()]


def _word(text: str) -> list[Token]:
    bare = text.rstrip(":.,;/") if not text.endswith("/") or text.count("/") == 1 else text.rstrip(":.,;")
    lower = bare.lower()
    if not bare:
        return []
    if lower in _NUMBER_WORDS:
        return [Token(_NUMBER_WORDS[lower], Kind.NUMBER)]
    if _HYPHENED.fullmatch(bare):
        return [Token(part, Kind.WORD) for part in lower.split("-")]
    if _is_identifier(bare):
        return [Token(bare.removesuffix("()").rstrip("/") or bare, Kind.IDENTIFIER)]
    return [Token(lower, Kind.WORD)]


def _is_identifier(text: str) -> bool:
    if text.isalpha():
        return bool(_CAMEL.search(text)) and not _PLURAL_OF_CAPITALS.fullmatch(text)
    return True


def rewritten(tokens: Sequence[Token]) -> list[Token]:
    """Replace phrases of several words by their readings (`vocabulary.toml`), the longest first."""
    found: list[Token] = []
    at = 0
    while at < len(tokens):
        words, length = _phrase_at(tokens, at)
        if length:
            found.extend(Token(word, Kind.WORD) for word in words)
            at += length
        else:
            found.append(tokens[at])
            at += 1
    return found


def _phrase_at(tokens: Sequence[Token], at: int) -> tuple[tuple[str, ...], int]:
    if tokens[at].kind is not Kind.WORD:
        return (), 0
    text = tokens[at].text
    if text.startswith("un") and text.endswith("ed") and lexicon().is_verb(lexicon().base(text[2:])):
        return (NOT, text[2:]), 1
    if text == "since" and at + 1 < len(tokens) and tokens[at + 1].kind in (Kind.NUMBER, Kind.IDENTIFIER):
        return (text,), 1
    if text == "once":
        after = tokens[at + 1] if at + 1 < len(tokens) else None
        counts = (
            after is None
            or after.kind is Kind.SIGN
            or after.text in VOCABULARY.words("prepositions")
            or after.text in ("a", "and")
        )
        return (("<1>",) if counts else ("when",)), 1
    for wanted, words in _phrases().get(tokens[at].text, ()):
        if tuple(token.text for token in tokens[at : at + len(wanted)]) == wanted:
            return words, len(wanted)
    return (), 0


@cache
def _phrases() -> dict[str, list[tuple[tuple[str, ...], tuple[str, ...]]]]:
    found: dict[str, list[tuple[tuple[str, ...], tuple[str, ...]]]] = {}
    for wanted, words in VOCABULARY.tables["phrases"].items():
        found.setdefault(wanted.split()[0], []).append((tuple(wanted.split()), _markers(words)))
    for choices in found.values():
        choices.sort(key=lambda choice: -len(choice[0]))
    return found


def _markers(text: str) -> tuple[str, ...]:
    """Split at blanks, but not within "<need not>"."""
    return tuple(re.findall(r"<[^>]+>|\S+", text))
