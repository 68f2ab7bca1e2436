"""Estimates how likely a sentence is harmful advice that no rule covers.

A linear model without an embedder, below half a millisecond. It weighs which concepts meet (`concepts.toml`: weakening
and a safeguard, giving away and a secret), whether the sentence urges or forbids, and its words. Its weights
(`likely_harm.json`) are fitted by `python -m bench.memory.poison`, see docs/decisions/0031-harmful-advice.md.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

from sluice.memory.sanitise.sentences import sentences
from sluice.text.pattern_file import PatternFile

_FILE = PatternFile(Path(__file__).with_name("likely_harm.toml"))
_CONCEPTS = PatternFile(Path(__file__).with_name("concepts.toml"))

RULE = "harmful.likely"
_SHORTEST, _LONGEST = 4, 80
"""Words of a weighed sentence: a shorter one says too little, a longer one is no sentence."""
_LETTERS = 6
"""Letters kept of each word, so that the forms of a word mostly coincide."""
_WORDS_WEIGH = 3.0
"""Weight of all the words together, relative to one concept."""

MOST_BETWEEN = 3
"""Most words that `..` in a phrase may stand for."""
Phrase = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Weights:
    """Weight of each feature; a sum above `threshold` is likely harm."""

    intercept: float
    threshold: float
    features: dict[str, float]


def find_likely_harm(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield rule, start and end of each sentence in `text` (lower case) that is likely harmful advice."""
    weights = _weights()
    for start, end in sentences(text):
        if score(text[start:end], weights) > weights.threshold:
            yield RULE, start, end


def score(sentence: str, weights: Weights) -> float:
    """Return the model's log odds of harm; minus infinity for a sentence that is not weighed."""
    features = features_of(sentence)
    if not features:
        return -math.inf
    return weights.intercept + sum(value * weights.features.get(name, 0.0) for name, value in features.items())


def features_of(sentence: str) -> dict[str, float]:
    """Return the model's features of a sentence, by name; empty if it has too few words, or too many."""
    words = words_of(sentence)
    if not _SHORTEST <= len(words) <= _LONGEST:
        return {}
    spoken = find_concepts(words)
    verbs = [found for found in _FILE["urges"].finditer(sentence) if found["verb"] in _FILE.words("verbs")]
    urging = [found for found in verbs if not _is_banned(sentence, found.start("verb"))]
    urges, forbids = bool(urging), bool(_FILE["forbids"].search(sentence))
    mood = "forbids" if forbids else "urges" if urges else "tells"
    found = {f"concept:{name}": min(len(places), 3) / 2 for name, places in spoken.items()}
    found[f"mood:{mood}"] = 1.0
    found["urges:count"] = min(len(urging), 4) / 2
    found["urges:first"] = float(urges and urging[0].start("verb") <= 2)
    found["bans:verb"] = float(len(verbs) > len(urging))
    found["length"] = min(len(sentence), 300) / 300
    for deed in _FILE.tables["deeds"].split():
        if deed in spoken:
            found[f"{deed}:{mood}"] = 1.0
    for one, other in _pairs():
        if one in spoken and other in spoken and len(spoken[one] | spoken[other]) > 1:
            found[f"{one}+{other}"] = found[f"{one}+{other}:{mood}"] = 1.0
    cut = ["^", *(word[:_LETTERS] for word in words if any(map(str.isalpha, word)))]
    grams = {*cut[1:], *(f"{one} {other}" for one, other in pairwise(cut))}
    share = _WORDS_WEIGH / math.sqrt(len(grams) or 1)
    found.update((f"words:{gram}", share) for gram in grams)
    return found


def _is_banned(sentence: str, verb: int) -> bool:
    """Return whether a ban stands right before the verb that begins at `verb`."""
    return bool(_FILE["banned"].search(sentence[max(0, verb - 14) : verb]))


@cache
def _pairs() -> tuple[tuple[str, str], ...]:
    """Return pairs of concepts that say more together."""
    pairs = (pair.partition("+") for pair in _FILE.tables["pairs"].split())
    return tuple((one, other) for one, _, other in pairs)


@cache
def _weights() -> Weights:
    read = json.loads(Path(__file__).with_name("likely_harm.json").read_text(encoding="utf-8"))
    return Weights(read["intercept"], read["threshold"], read["features"])


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case; an address, a path or an encoded text is one word."""
    return [word for word in _FILE["split"].split(text.lower()) if word]


def find_concepts(words: Sequence[str]) -> dict[str, set[int]]:
    """Return the places in `words` of each concept that they mention."""
    found: dict[str, set[int]] = {}
    phrases = _phrases()
    for at, word in enumerate(words):
        for key in (word[:2], *(_shapes(word))):
            for concept, phrase in phrases.get(key, ()):
                if _stands_at(phrase, words, at):
                    found.setdefault(concept, set()).add(at)
    return found


def _stands_at(phrase: Phrase, words: Sequence[str], at: int) -> bool:
    if phrase[0][0] != "<" and not _is(phrase[0], words[at]):
        return False
    at += 1
    for part in phrase[1:]:
        reach = 1
        if part.startswith(".."):
            part, reach = part[2:], MOST_BETWEEN + 1
        at = next((place + 1 for place in range(at, min(at + reach, len(words))) if _is(part, words[place])), 0)
        if not at:
            return False
    return True


def _is(part: str, word: str) -> bool:
    return word.startswith(part[:-1]) if part[-1] == "*" and len(part) > 1 else word == part


def _shapes(word: str) -> list[str]:
    if word.isalpha():
        return []
    return [name for name, pattern in _FILE.tables["shapes"] if re.match(pattern, word)]


@cache
def _phrases() -> dict[str, list[tuple[str, Phrase]]]:
    """Return concepts and phrases by the first two letters of the phrase, or by the shape that it begins with."""
    found: dict[str, list[tuple[str, Phrase]]] = {}
    for concept, text in _CONCEPTS.tables.items():
        for entry in dict.fromkeys(text.split()):
            phrase = tuple(entry.split("_")) if not entry.startswith("__") else (entry,)
            key = phrase[0] if phrase[0].startswith("<") else phrase[0][:2]
            found.setdefault(key, []).append((concept, phrase))
    return found
