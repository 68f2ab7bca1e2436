"""Tells whether a text looks like harmful advice, which a person should review before anybody follows it.

A linear model without an embedder, below half a millisecond. It weighs which concepts a sentence names (`harm.toml`: to
weaken, a safeguard; to give away, a secret), which of them meet, whether the sentence forbids something, its words and
which of them are neighbours.
`python -m bench.memory.poison` fits its weights (`harm.json`); docs/decisions/0031-harmful-advice.md has its figures.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations, pairwise
from pathlib import Path

from sluice.text.pattern_file import PatternFile

_FILE = PatternFile(Path(__file__).with_name("harm.toml"))
_SHORTEST, _LONGEST = 3, 80
"""Words of a weighed sentence: a shorter one says too little, a longer one is no sentence."""
_LETTERS = 6
"""Letters kept of each word, so that the forms of a word mostly coincide."""
_WORDS_WEIGH = 3.0
"""Weight of all the words together, and of all pairs of neighbours, relative to one concept."""
_HARM_NOTHING = frozenset(("tests", "broad", "excuse", "tells", "local"))
"""Concepts that do no harm by themselves. A sentence must name a deed, or what is worth protecting; few reports do."""
_MOST_BETWEEN = 3
"""Most words that `..` in a phrase may stand for."""
Phrase = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Weights:
    """Weight of each feature; a sentence whose sum is above 0 looks harmful."""

    intercept: float
    features: dict[str, float]


def looks_harmful(text: str, weights: Weights | None = None) -> bool:
    """Return whether a sentence of a text (lower case), or what it says behind a colon, looks like harmful advice.

    `weights` are the shipped ones by default.
    """
    weights = weights or _shipped_weights()
    said = (part for sentence in _FILE["sentences"].split(text) for part in (sentence, *sentence.split(": ")[1:]))
    return any(_score(features_of(one), weights) > 0 for one in said)


def _score(found: Mapping[str, float], weights: Weights) -> float:
    return sum((n * weights.features.get(name, 0.0) for name, n in found.items()), weights.intercept) if found else 0.0


def features_of(sentence: str) -> dict[str, float]:
    """Return the model's features of a sentence, by name; empty if it is too short or too long, or can do no harm."""
    words = words_of(sentence)
    places = find_concepts(words) if _SHORTEST <= len(words) <= _LONGEST else {}
    if places.keys() <= _HARM_NOTHING:
        return {}
    mood = "forbids" if _FILE["forbids"].search(sentence) else "says"
    found = {mood: 1.0}
    for name in places:
        found[f"concept:{name}"] = min(len(places[name]), 3) / 2
        found[f"{name}:{mood}"] = 1.0
    for one, other in combinations(sorted(places), 2):
        if len(places[one] | places[other]) > 1:
            found[f"{one}+{other}"] = 1.0
    stems = [word[:_LETTERS] for word in words]
    for names in ({f"word:{stem}" for stem in stems}, {f"pair:{one} {other}" for one, other in pairwise(stems)}):
        found |= dict.fromkeys(names, _WORDS_WEIGH / math.sqrt(len(names)))
    return found


@cache
def _shipped_weights() -> Weights:
    return Weights(**json.loads(Path(__file__).with_name("harm.json").read_text(encoding="utf-8")))


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case; an address, a path or an option is one word."""
    return [word for word in _FILE["split"].split(text.lower()) if word]


def find_concepts(words: Sequence[str]) -> dict[str, set[int]]:
    """Return the places in `words` of each concept that they name."""
    found: dict[str, set[int]] = {}
    for at, word in enumerate(words):
        for key in (word[:2], *_shapes_of(word)):
            for concept, phrase in _phrases().get(key, ()):
                if _stands_at(phrase, words, at):
                    found.setdefault(concept, set()).add(at)
    return found


def _shapes_of(word: str) -> list[str]:
    shapes = _FILE.tables["shapes"].items() if not word.isalpha() else ()
    return [name for name, pattern in shapes if re.match(pattern, word)]


@cache
def _phrases() -> dict[str, list[tuple[str, Phrase]]]:
    """Return concepts and phrases by the first two letters of the phrase, or by the shape that it begins with."""
    found: dict[str, list[tuple[str, Phrase]]] = {}
    for concept, entries in _FILE.tables["concepts"].items():
        for entry in dict.fromkeys(entries.split()):
            phrase = tuple(entry.split("_")) if not entry.startswith("__") else (entry,)
            key = phrase[0] if phrase[0].startswith("<") else phrase[0][:2]
            found.setdefault(key, []).append((concept, phrase))
    return found


def _stands_at(phrase: Phrase, words: Sequence[str], at: int) -> bool:
    if phrase[0][0] != "<" and not _is(phrase[0], words[at]):
        return False
    for part in phrase[1:]:
        behind = words[at + 1 : at + (2 + _MOST_BETWEEN if part.startswith("..") else 2)]
        step = next((n for n, word in enumerate(behind, start=1) if _is(part.removeprefix(".."), word)), 0)
        if not step:
            return False
        at += step
    return True


def _is(part: str, word: str) -> bool:
    return word.startswith(part[:-1]) if part[-1] == "*" and len(part) > 1 else word == part
