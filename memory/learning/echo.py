"""Detects text that only repeats what memory printed. It is no new learning and no new observation.

An agent restates its prompt: word by word, shortened, after "as noted in memory". A sentence is an echo of a printed
line that has all of its words in the same order, its identifiers and numbers letter by letter, and is negated alike. So
a text that adds anything, or says it in other words, is no echo. It needs no model; `python -m bench.memory.echo`
measures its errors (bench/memory/README.md).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path

from sluice.memory.learning.comparison import compare, read
from sluice.text.pattern_file import PatternFile

_FILE = PatternFile(Path(__file__).with_name("echo.toml"))

MOST_VARIATIONS = 3
NEAR = 0.5
"""Least share of a text's words that another text must contain to say nearly the same."""

_PROVENANCE = re.compile(r"(?:\s*\([^()]*\b(?:iterations?|written on)\b[^()]*\))+\s*$", re.IGNORECASE)
_LINE_NUMBER = re.compile(r"(?<=\w):(\d+)\b")
_QUOTED = re.compile("“([^”]+)”")
_SENTENCE_END = re.compile(r"(?<=[\w)`'\"”][.;!?])\s+|\n+|\s[-*•]\s")
_TURN = "<turn>"
_TURNING = frozenset({"not", "no", "never", "without", "neither", "nor", "none", "nothing", "avoid", "by"})
"""Negations, and the word that makes "A reads B" and "A is read by B" two things."""


@dataclass(frozen=True, slots=True)
class _Said:
    """A text: its content `words` in order, and the `exact` ones: numbers and names, equal letter by letter."""

    text: str
    words: tuple[str, ...]
    exact: frozenset[str]

    @property
    def all(self) -> frozenset[str]:
        return frozenset(self.words) - {_TURN}


def without_frame(text: str) -> str:
    """Return `text` without a phrase that introduces a memory, and without its provenance in brackets at the end."""
    bare = _PROVENANCE.sub("", text)
    while (found := _FILE["frame"].match(bare)) and found.end():
        bare = bare[found.end() :].lstrip(" ,:;-–—")
    return bare if len(bare) == len(text) or not bare else bare[0].upper() + bare[1:]


def is_echo(text: str, lines: Iterable[str]) -> bool:
    """Return whether each sentence of `text` repeats one of the printed `lines`."""
    printed = [part for line in lines for part in _parts(line)]
    return bool(printed) and all(any(_says(part, one) for part in printed) for one in _sentences(text))


def is_variation(text: str, others: Iterable[str]) -> bool:
    """Return whether `MOST_VARIATIONS` other texts say nearly the same: all identifiers and numbers, most words.

    A model that restates its prompt exchanges a word each time. That may be a fact, so the first ones are kept.
    """
    said = _say(text)
    near = (
        other
        for other in map(_say, others)
        if said.exact <= other.exact and len(said.all & other.all) >= NEAR * len(said.all)
    )
    return sum(1 for _ in islice(near, MOST_VARIATIONS)) == MOST_VARIATIONS


def only_repeats_words(text: str, lines: Iterable[str]) -> bool:
    """Return whether the words of each sentence of `text` all stand in one part of a line, whatever they say there."""
    parts = [part for line in lines for part in _parts(line)]
    return all(any(one.all <= part.all for part in parts) for one in _sentences(text))


def _sentences(text: str) -> list[_Said]:
    """Return the sentences of a text, without those that are only a frame, such as "As noted in memory:"."""
    parts = [_say(part) for part in _SENTENCE_END.split(text)]
    return [part for part in parts if part.all]


def _says(part: _Said, sentence: _Said) -> bool:
    """Return whether a part of a line holds all that a sentence says, in the same order and turned alike.

    The path of an error stands before its message in a line: one path may stand anywhere.
    """
    if not sentence.all <= part.all or (sentence.words.count(_TURN) - part.words.count(_TURN)) % 2:
        return False
    paths = [word for word in sentence.exact if "/" in word]
    rest = iter(part.words)
    in_order = all(word in rest for word in sentence.words if paths != [word])
    return in_order and not compare(sentence.text, part.text).differences


@lru_cache(maxsize=4096)
def _parts(line: str) -> tuple[_Said, ...]:
    """Return the parts of a printed line: all of it, its quotations, and each of their sentences."""
    said = [_say(part) for whole in (line, *_QUOTED.findall(line)) for part in (whole, *_SENTENCE_END.split(whole))]
    return tuple(dict.fromkeys(one for one in said if one.all))


@lru_cache(maxsize=4096)
def _say(text: str) -> _Said:
    bare = _LINE_NUMBER.sub(r" \1", _FILE["frame"].sub(" ", text)).strip(" ,:;.-–—()\"'“”")
    tokens = [one for one in read(bare).tokens if one.text not in _FILE.words("function_words") or one.kind != "word"]
    words = tuple(_TURN if one.text in _TURNING else one.stem for one in tokens)
    return _Said(bare, words, frozenset(one.stem for one in tokens if one.kind != "word"))
