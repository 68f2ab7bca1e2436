"""Compares two short texts by their words, with no model and no grammar: same in words, how near, how they differ.

*Same* is strict: the same words in the same order, apart from case, articles, punctuation and a plural's "s"; numbers,
units, paths and identifiers letter by letter. All that is said of other pairs is that they are near and differ, and in
what kind of word; whether they contradict each other is for the reader to judge (docs/decisions/0026).
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

from sluice.text.pattern_file import PatternFile
from sluice.text.words import FUNCTION_WORDS, singular, stem

_FILE = PatternFile(Path(__file__).with_name("comparison.toml"))
_FUNCTION_WORDS = frozenset(FUNCTION_WORDS)
_NEGATING = ("un", "in", "im", "ir", "non", "dis")
_LONGEST_UNIT = 3
SAME_SUBJECT = 0.5
"""Least share of content words in common (Dice) between texts on the same subject."""
CONTAINED, LEAST_CONTAINED = 0.6, 3
"""Or least share of the shorter text's, and their number: a long text may be on what a short one says, and on more."""


@dataclass(frozen=True, slots=True)
class Token:
    """A word, as it is compared. `kind`: "word", "number" (and its unit), "name" (an identifier, or capitalised).

    `stem`: the word without its inflection; a number as it is.
    """

    text: str
    kind: str
    stem: str


@dataclass(frozen=True, slots=True)
class Reading:
    """A text as it is compared: its tokens, their texts, and the stems of those that carry content, counted."""

    tokens: tuple[Token, ...]
    words: tuple[str, ...]
    content: Counter[str]


@dataclass(frozen=True, slots=True)
class Comparison:
    """`similarity`: the share of content words in common, in [0, 1]. `is_near`: whether both are on the same subject.

    `differences`: negation, number, name, modality, antonym, order. Empty if the texts are the same, or differ in other
    words only.
    """

    similarity: float
    is_near: bool
    differences: tuple[str, ...]


def is_same(one: str, other: str) -> bool:
    """Return whether two texts are the same in words."""
    mine = read(one).words
    return mine == read(other).words and (bool(mine) or one.split() == other.split())


def compare(one: str, other: str) -> Comparison:
    """Compare two texts; symmetrical."""
    mine, theirs = read(one), read(other)
    sizes = mine.content.total(), theirs.content.total()
    shared = (mine.content & theirs.content).total()
    similarity = 2 * shared / sum(sizes) if any(sizes) else float(is_same(one, other))
    contained = shared >= LEAST_CONTAINED and shared >= CONTAINED * min(sizes)
    differences = () if is_same(one, other) else tuple(_differences(mine.tokens, theirs.tokens))
    return Comparison(similarity, contained or similarity >= SAME_SUBJECT, differences)


def content_words(text: str) -> frozenset[str]:
    """Return the stems of the words that carry content."""
    return frozenset(read(text).content)


@lru_cache(maxsize=8192)
def read(text: str) -> Reading:
    """Read a text; never fails."""
    for pattern, by in _FILE.tables["rewritten"]:
        text = re.sub(pattern, by, text)
    tokens: list[Token] = []
    begins = True
    for word in _FILE["article"].sub(" ", text).split():
        bare = _FILE["mark"].sub("", word) or word
        for part in bare.split("-") if _FILE["hyphened"].fullmatch(bare) else [bare]:
            tokens += _tokens_of(part, begins, tokens[-1].kind if tokens else "", word)
        begins = word[-1] in ".!?:;"
    content = Counter(token.stem for token in tokens if token.text not in _without_content())
    return Reading(tuple(tokens), tuple(token.text for token in tokens), content)


def _tokens_of(word: str, begins: bool, before: str, written: str) -> list[Token]:
    """Return a word as one token, or two if it is a number with its unit.

    `begins`: whether a sentence begins with it; `before`: the kind of the token before it; `written`: with its marks.
    """
    lower = word.lower()
    if lower in _numbers():
        return [_number(_numbers()[lower])]
    if amount := _FILE["amount"].fullmatch(word):
        return [_number(part) for part in amount.groups() if part]
    if not _FILE["word"].fullmatch(word) or (not word.isupper() and word[1:] != word[1:].lower()):
        return [Token(word, "name", word)]
    if before == "number" and len(word) <= _LONGEST_UNIT and (len(word) == 1 or lower not in _FUNCTION_WORDS):
        return [_number(word)]
    kind = "name" if "`" in written or (word[0].isupper() and not begins) else "word"
    return [Token(singular(lower), kind, stem(lower))]


def _number(text: str) -> Token:
    return Token(text, "number", text)


@cache
def _numbers() -> dict[str, str]:
    return {word: str(number) for number, word in enumerate(_FILE.tables["numbers"].split())}


@cache
def _without_content() -> frozenset[str]:
    return _FUNCTION_WORDS.union(*(_FILE.words(name) for name in ("negations", "must", "may")))


def _differences(mine: tuple[Token, ...], theirs: tuple[Token, ...]) -> list[str]:
    """Return the kinds of difference between two texts that are not the same."""
    left, right = _alone(mine, theirs), _alone(theirs, mine)
    if not left and not right:
        return [] if [one.stem for one in mine] == [one.stem for one in theirs] else ["order"]
    turned = sum((one.stem, other.stem) in _antonyms() for one in left for other in right)
    negations = sum(_count(tokens, "negations") for tokens in (left, right)) + _count_negated_forms(left, right)
    found = []
    if negations % 2 and not turned:
        found.append("negation")
    if turned and not negations % 2:
        found.append("antonym")
    if (_count(left, "must") and _count(right, "may")) or (_count(left, "may") and _count(right, "must")):
        found.append("modality")
    kinds = {one.kind for one in left} & {one.kind for one in right}
    found += [kind for kind in ("number", "name") if kind in kinds]
    exchanged = sum(one.stem != other.stem for one, other in zip(mine, theirs, strict=False))
    if not found and len(mine) == len(theirs) and exchanged == 1:
        found.append("word")
    return found


def _alone(tokens: tuple[Token, ...], others: tuple[Token, ...]) -> list[Token]:
    """Return the tokens that the other text lacks, in any inflection."""
    there = Counter(token.stem for token in others)
    alone = []
    for token in tokens:
        if there[token.stem]:
            there[token.stem] -= 1
        else:
            alone.append(token)
    return alone


def _count(tokens: list[Token], name: str) -> int:
    return sum(token.text in _FILE.words(name) for token in tokens)


@cache
def _antonyms() -> frozenset[tuple[str, str]]:
    pairs = (pair.split("/") for pair in _FILE.tables["antonyms"].split())
    return frozenset(pair for one, other in pairs for pair in ((stem(one), stem(other)), (stem(other), stem(one))))


def _count_negated_forms(left: list[Token], right: list[Token]) -> int:
    """Count pairs of which one word is the other behind a negating syllable, such as "supported" and "unsupported"."""
    pairs = ((one.stem, other.stem) for one in left for other in right)
    return sum(one == prefix + other or other == prefix + one for one, other in pairs for prefix in _NEGATING)
