"""Phrases of several words, put into the one word or mark that they are read as."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sluice.memory.learning.polarity import vocabulary
from sluice.memory.learning.polarity.lexicon import lexicon
from sluice.memory.learning.polarity.tokens import Kind, Token
from sluice.memory.learning.polarity.vocabulary import NOT

_PREPOSITIONS = frozenset(vocabulary.PREPOSITIONS_TEXT.split())


def rewritten(tokens: Sequence[Token]) -> list[Token]:
    """Phrases of several words as what they are read as (`vocabulary.PHRASES_TEXT`), the longest first."""
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
        counts = after is None or after.kind is Kind.SIGN or after.text in _PREPOSITIONS or after.text in ("a", "and")
        return (("<1>",) if counts else ("when",)), 1
    for wanted, words in _PHRASES.get(tokens[at].text, ()):
        if tuple(token.text for token in tokens[at : at + len(wanted)]) == wanted:
            return words, len(wanted)
    return (), 0


def _phrases() -> dict[str, list[tuple[tuple[str, ...], tuple[str, ...]]]]:
    found: dict[str, list[tuple[tuple[str, ...], tuple[str, ...]]]] = {}
    for line in vocabulary.PHRASES_TEXT.strip().splitlines():
        wanted, _, words = line.partition(": ")
        found.setdefault(wanted.split()[0], []).append((tuple(wanted.split()), _markers(words)))
    for choices in found.values():
        choices.sort(key=lambda choice: -len(choice[0]))
    return found


def _markers(text: str) -> tuple[str, ...]:
    """Splits at blanks, but not within "<need not>"."""
    return tuple(re.findall(r"<[^>]+>|\S+", text))


_PHRASES = _phrases()
