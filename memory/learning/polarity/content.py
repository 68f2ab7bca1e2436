"""The subject of a short text, and the words by which it limits, orders, counts and negates it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

from sluice.memory.learning.polarity.lexicon import CLAUSES, VOCABULARY, Lexicon, lexicon
from sluice.memory.learning.polarity.tokens import Kind, rewritten, tokens_of
from sluice.text.words import stem

_MARK_OR_WORD = re.compile(r"<[^>]+>|\S+")
_NEGATIONS = frozenset(
    {"not", "never", "no", "cannot", "unable", "nothing", "none", "nobody", "neither", "nor", "even", "else"}
)
_ENDS_LIMIT = frozenset({"and", "or", "but", "when", "if", "while", "because", "before"})


@dataclass(frozen=True, slots=True)
class Content:
    """Words of a text: `heavy` and `light` in base form, identifiers and numbers as written (`exact`), cues by kind.

    `limited`: stems of the words that an "only" limits.
    """

    heavy: tuple[str, ...]
    light: frozenset[str]
    exact: tuple[str, ...]
    cues: Counter[str]
    limited: frozenset[str]


@lru_cache(maxsize=4096)
def content_of(text: str) -> Content:
    """Read a text; never fails."""
    words = lexicon()
    tokens = [token for token in rewritten(tokens_of(text)) if token.kind is not Kind.SIGN]
    plain = [(token.text, words.base(token.text)) for token in tokens if token.kind is Kind.WORD]
    said = [base for token, base in plain if not {token, base} & _function_words() and token[0] != "<"]
    is_light = [base in light_words() or base in _compared() for base in said]
    return Content(
        tuple(base for base, light in zip(said, is_light, strict=True) if not light),
        frozenset(base for base, light in zip(said, is_light, strict=True) if light),
        tuple(token.text.lower().removesuffix("()") for token in tokens if token.kind is not Kind.WORD),
        Counter(cue for token, base in plain for cue in _cue_of().get(token) or _cue_of().get(base, ())),
        frozenset(_limited([token.text for token in tokens], words)),
    )


def _limited(tokens: Sequence[str], words: Lexicon) -> Iterable[str]:
    """Yield for each "only" the nearest content word behind it, or before it if none follows at once."""
    for at, token in enumerate(tokens):
        if token in _cues()["only"]:
            after = tokens[at + 1] if at + 1 < len(tokens) else "."
            side = tokens[at + 1 :] if after[0].isalnum() and after not in _ENDS_LIMIT else tokens[:at][::-1]
            content = (one for one in side if one[0].isalnum() and one not in _function_words())
            if found := next((one for one in content if words.base(one) not in light_words()), None):
                yield stem(words.base(found.lower()))


def light_words() -> frozenset[str]:
    """Return words that carry little meaning: a learning may have one or not."""
    return VOCABULARY.words("light")


@cache
def _function_words() -> frozenset[str]:
    own = {"and", "or", "of", "which", "who", "whose", "how", "what", "way"}
    return VOCABULARY.words("idle") | VOCABULARY.words("prepositions") | CLAUSES | own


@cache
def _compared() -> frozenset[str]:
    """Return words that are compared as cues and do not count as content."""
    compared = ("only", "must", "may", "all", "some", "before", "after", "most", "least")
    return _NEGATIONS.union(*(_cues()[cue] for cue in compared))


@cache
def _cues() -> dict[str, tuple[str, ...]]:
    """Return the words and marks (`<need not>`) of each kind of cue."""
    return {cue: tuple(_MARK_OR_WORD.findall(text)) for cue, text in VOCABULARY.tables["cues"].items()}


@cache
def _cue_of() -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for cue, words in _cues().items():
        for word in words:
            found[word] = (*found.get(word, ()), cue)
    return found
