"""Estimates whether an edited paragraph still says the same: for prose, which is not read clause by clause.

Twenty-two numbers, equal for both orders of the texts, describe the differences: the cues of negation on either side,
whether a cue replaced another cue or a synonym, the share without a synonym on the other side, moved words. A logistic
regression weighs them; `bench.memory.prose` fitted its weights, which are in `prose.json`.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache
from importlib.resources import files

from sluice.memory.learning.polarity.lexicon import VOCABULARY, Lexicon, lexicon
from sluice.memory.learning.polarity.tokens import Kind, tokens_of

PLAIN = frozenset({"not", "no", "never", "neither", "nor", "none", "nothing", "nobody", "cannot"})
_NEGATING = ("un", "in", "im", "il", "ir", "dis", "non")
_SHORTEST_NEGATED = 4
_SHORTEST_STEM = 5

FEATURES = (
    "cue for cue", "hunks with cues on both sides", "cue moved", "odd cues", "cues on one side only",
    "plain for lexical",
    "affixed for another", "lexical cues", "plain cues", "affixed cues", "cues more on one side",
    "cue for synonym", "similar adjectives", "moved words", "contrasts added", "longest span",
    "most unexplained", "least unexplained", "most content words", "least content words", "most words", "least words",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Side:
    """Words that only one version has: base forms, and the kinds of their cues of negation."""

    words: Counter[str]
    cues: dict[str, str]
    longest: int

    def count(self, kind: str) -> int:
        return sum(self.words[word] for word, its in self.cues.items() if its == kind)

    @property
    def all_cues(self) -> int:
        return sum(self.words[word] for word in self.cues)

    @property
    def content(self) -> list[str]:
        return [word for word in self.words if word not in VOCABULARY.words("prose_function_words")]


def same_probability(one: str, other: str) -> float:
    """Return the probability, in (0, 1), that two versions of a paragraph say the same, from their differences."""
    weights = _weights()
    total = weights.intercept + math.fsum(
        (value - mean) / scale * weight
        for value, mean, scale, weight in zip(
            features(one, other), weights.means, weights.scales, weights.weights, strict=True
        )
    )
    return 1 / (1 + math.exp(-total))


def threshold() -> float:
    """Return the probability from which two versions count as the same."""
    return _weights().threshold


def features(one: str, other: str) -> tuple[float, ...]:
    """Return the differences as numbers, in the order of `FEATURES`; symmetrical."""
    words = lexicon()
    left, right = sorted((_plain_words(one), _plain_words(other)))
    changes = [code for code in SequenceMatcher(None, left, right, autojunk=False).get_opcodes() if code[0] != "equal"]
    hunks = [(left[i:j], right[k:m]) for _, i, j, k, m in changes]
    a, b, moved, moved_cues = _sides(hunks, words)
    pairs = ((a, b), (b, a))
    cues = a.all_cues, b.all_cues
    unexplained = [_unexplained(x, y, words) for x, y in pairs]
    content = [math.log1p(len(side.content)) for side in (a, b)]
    counts = [math.log1p(sum(side.words.values())) for side in (a, b)]
    return (
        float(all(cues)),
        float(sum(all(any(_cue(word, words) for word in span) for span in hunk) for hunk in hunks)),
        float(moved_cues),
        float((cues[0] - cues[1]) % 2),
        float(any(cues) and not all(cues)),
        float(any(x.count("plain") and y.count("lexical") for x, y in pairs)),
        float(any(x.count("affixed") and (y.count("plain") or y.count("lexical")) for x, y in pairs)),
        float(a.count("lexical") + b.count("lexical")),
        float(a.count("plain") + b.count("plain")),
        float(a.count("affixed") + b.count("affixed")),
        float(abs(cues[0] - cues[1])),
        float(any(_replaced_by_synonym(x, y, words) for x, y in pairs)),
        float(max(sum(any(words.alike(p, q) for q in y.content) for p in x.content) for x, y in pairs)),
        math.log1p(moved),
        float(max(sum(word in VOCABULARY.words("contrasts") for word in side.words) for side in (a, b))),
        float(max(a.longest, b.longest)),
        max(unexplained), min(unexplained), max(content), min(content), max(counts), min(counts),
    )  # fmt: skip


def _plain_words(text: str) -> list[str]:
    return [token.text for token in tokens_of(text) if token.kind is not Kind.SIGN]


def _sides(hunks: Iterable[tuple[list[str], list[str]]], words: Lexicon) -> tuple[_Side, _Side, int, int]:
    """Return the words that each side has alone, the number of moved words, and the number of cues among these."""
    spans = list(zip(*hunks, strict=True)) or [(), ()]
    counts = [Counter(words.base(word) for span in side for word in span) for side in spans]
    cues = [{words.base(word): kind for span in side for word in span if (kind := _cue(word, words))} for side in spans]
    moved = counts[0] & counts[1]
    alone = [count - moved for count in counts]
    sides = [
        _Side(
            words_alone,
            {word: kind for word, kind in its.items() if word in words_alone},
            max(map(len, side), default=0),
        )
        for words_alone, its, side in zip(alone, cues, spans, strict=True)
    ]
    return sides[0], sides[1], sum(moved.values()), sum(word in cues[0] for word in moved)


def _cue(word: str, words: Lexicon) -> str | None:
    """Return the kind of a cue of negation; None for any other word."""
    if word in PLAIN:
        return "plain"
    if word in VOCABULARY.words("other_cues"):
        return "other"
    if words.base(word) in VOCABULARY.words("denying"):
        return "lexical"
    return "affixed" if _negates(word, words) else None


def _negates(word: str, words: Lexicon) -> bool:
    """Return whether a word is another with a negating syllable, as "unknown" and "useless"."""
    for prefix in _NEGATING:
        rest = word.removeprefix(prefix)
        if rest != word and len(rest) >= _SHORTEST_NEGATED and (words.knows(rest) or words.knows(words.base(rest))):
            return True
    return word.endswith("less") and len(word) >= len("less") + _SHORTEST_NEGATED


def _unexplained(side: _Side, other: _Side, words: Lexicon) -> float:
    """Return the share of content words that have neither a synonym nor a relative on the other side."""
    if not side.content:
        return 0.0
    synonyms = sum(any(words.related(word, its) for its in other.content) for word in side.content)
    relatives = sum(any(_same_stem(word, its) for its in other.content) for word in side.content)
    return 1 - (synonyms + relatives) / (len(side.content) + 1)


def _replaced_by_synonym(side: _Side, other: _Side, words: Lexicon) -> bool:
    return any(words.related(cue, its) or words.alike(cue, its) for cue in side.cues for its in other.words)


def _same_stem(one: str, other: str) -> bool:
    common = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return common >= _SHORTEST_STEM or (common >= _SHORTEST_STEM - 1 and min(len(one), len(other)) <= _SHORTEST_STEM)


@dataclass(frozen=True, slots=True)
class _Weights:
    means: tuple[float, ...]
    scales: tuple[float, ...]
    weights: tuple[float, ...]
    intercept: float
    threshold: float


@lru_cache(maxsize=1)
def _weights() -> _Weights:
    read = json.loads(files("sluice.memory.learning.polarity").joinpath("prose.json").read_text(encoding="utf-8"))
    rows = [read["features"][name] for name in FEATURES]
    means, scales, weights = zip(*rows, strict=True)
    return _Weights(means, scales, weights, read["intercept"], read["threshold"])
