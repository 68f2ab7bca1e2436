"""Detects text that only repeats what memory printed. It is no new learning and no new observation.

An agent restates its prompt: word by word, shortened, reordered, after "as noted in memory". A sentence is an echo of a
printed line that says the same by the comparison of learnings, or of one that says more: that has all of its words,
identifiers and numbers and the same negation, and differs by no antonym, modality or order. So a text that adds
anything is no echo. It needs no model; `python -m bench.memory.echo` measures its errors (docs/memory/loop.md).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path

from sluice.memory.learning.polarity.compare import compare
from sluice.memory.learning.polarity.restated import is_restated
from sluice.memory.learning.polarity.tokens import Kind, tokens_of
from sluice.text.pattern_file import PatternFile
from sluice.text.words import stem

_FILE = PatternFile(Path(__file__).with_name("echo.toml"))

MOST_VARIATIONS = 3
NEAR = 0.6
"""Least share of a text's words that another text must contain to say nearly the same."""

_PROVENANCE = re.compile(r"(?:\s*\([^()]*\biteration[^()]*\))+\s*$", re.IGNORECASE)
_LINE_NUMBER = re.compile(r"(?<=\w):(\d+)\b")
_QUOTED = re.compile("“([^”]+)”")
_SENTENCE_END = re.compile(r"(?<=[\w)`'\"”][.;!?])\s+|\n+|\s[-*•]\s")
_NEGATIONS = frozenset({"not", "no", "never", "without", "neither", "nor", "none", "nothing", "avoid"})
_TURNED = frozenset({"antonym", "modality", "order"})


@dataclass(frozen=True, slots=True)
class _Said:
    """A text as the stems of its content `words`, the parts that must be equal letter by letter, and its negations."""

    text: str
    words: frozenset[str]
    exact: frozenset[str]
    negations: int


def without_frame(text: str) -> str:
    """Return `text` without a phrase that introduces a memory, and without its provenance in brackets at the end."""
    bare = _PROVENANCE.sub("", text)
    while (found := _FILE["frame"].match(bare)) and found.end():
        bare = bare[found.end() :].lstrip(" ,:;-–—")
    return bare if len(bare) == len(text) or not bare else bare[0].upper() + bare[1:]


def is_echo(text: str, lines: Iterable[str]) -> bool:
    """Return whether each sentence of `text` repeats one of the printed `lines`."""
    printed = [_parts(line) for line in lines]
    return bool(printed) and all(any(_says(line, one) for line in printed) for one in _sentences(text))


def is_variation(text: str, others: Iterable[str]) -> bool:
    """Return whether `MOST_VARIATIONS` other texts say nearly the same: all identifiers and numbers, most words.

    A model that restates its prompt exchanges a word each time. That may be a fact, so the first ones are kept.
    """
    said = _say(text)
    near = (
        other
        for other in map(_say, others)
        if said.exact <= other.exact and len(said.words & other.words) >= NEAR * len(said.words)
    )
    return sum(1 for _ in islice(near, MOST_VARIATIONS)) == MOST_VARIATIONS


def only_repeats_words(text: str, lines: Iterable[str]) -> bool:
    """Return whether the words of each sentence of `text` all stand in one part of a line, whatever they say there."""
    parts = [part for line in lines for part in _parts(line)]
    return all(any(one.words <= part.words for part in parts) for one in _sentences(text))


def _sentences(text: str) -> list[_Said]:
    """Return the sentences of a text, without those that are only a frame, such as "As noted in memory:"."""
    parts = [_say(part) for part in _SENTENCE_END.split(text)]
    return [part for part in parts if part.words]


def _says(line: Iterable[_Said], sentence: _Said) -> bool:
    """Return whether a part of the line says the same, or holds all of the sentence while no part contradicts it."""
    holding = [
        part
        for part in line
        if sentence.words <= part.words
        and sentence.exact <= part.exact
        and sentence.negations % 2 == part.negations % 2
    ]
    near = [
        (part, compare(sentence.text, part.text))
        for part in line
        if 2 * len(part.words & sentence.words) >= len(sentence.words)
    ]
    if any(one.same or is_restated(sentence.text, part.text, one) for part, one in near):
        return True
    comparisons = [one for _, one in near]
    if any(part.words == sentence.words for part in holding):
        return False
    return bool(holding) and not any(one.opposite or _TURNED.intersection(one.differences) for one in comparisons)


@lru_cache(maxsize=4096)
def _parts(line: str) -> tuple[_Said, ...]:
    """Return the parts of a printed line: all of it, its quotations, and each of their sentences."""
    said = [_say(part) for whole in (line, *_QUOTED.findall(line)) for part in (whole, *_SENTENCE_END.split(whole))]
    return tuple(dict.fromkeys(one for one in said if one.words))


@lru_cache(maxsize=4096)
def _say(text: str) -> _Said:
    bare = _LINE_NUMBER.sub(r" \1", _FILE["frame"].sub(" ", text)).strip(" ,:;.-–—()\"'“”")
    tokens = [one for one in tokens_of(bare) if one.kind is not Kind.SIGN]
    words = [one.text for one in tokens if one.kind is Kind.WORD and one.text not in _FILE.words("function_words")]
    exact = frozenset(one.text for one in tokens if one.kind is not Kind.WORD)
    said = exact.union(stem(word) for word in words if word not in _NEGATIONS)
    return _Said(bare, said, exact, sum(word in _NEGATIONS for word in words))
