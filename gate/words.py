"""English words that carry no content, and a light stemmer: enough to see that a text speaks of a term."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path

WORD = re.compile(r"[^\W_]+")
"""A run of letters and digits."""
UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\u0e00-\u0e7f]")
"""A character of a script that puts no space between words: Han, kana, Thai."""
IDENTIFIER = re.compile(r"[_.:#+>]")
"""A sign by which a term is a code identifier, which is looked up as it stands."""

_STOP_WORDS = """
    a about above after again all also am an and another any anybody anyone anything are aren as at
    be because been before being below between both but by
    can cannot could couldn did didn do does doesn doing don done down
    each either else ever every explain few find for from further
    get give go goes going got had has hasn have haven having he hello her here hers hi him his how
    i if in into is isn it its itself just know
    let ll like made make many may me might mine more most much must my myself
    need no nor not of off on once one only or other others our ours out over own
    per please rather re same say she should shouldn show so some somebody someone something such
    tell than thank thanks that the their theirs them then there these they thing things this those through to too
    under until up upon us use used using ve very via
    want was wasn we were weren what whatever when where whether which while who whom whose why will with within
    without would wouldn yes yet you your yours
    current currently latest newest nowadays recent recently today tonight yesterday
"""
"""The last line: words that say when. A page that answers need not hold them, and the gate weighs them elsewhere."""
STOP_WORDS = frozenset(_STOP_WORDS.split())

_QUESTION_WORDS_FILE = Path(__file__).parent / "lexicons" / "question_words.toml"


@cache
def question_words(language: str | None) -> frozenset[str]:
    """The words of a language (ISO 639-1) that ask, such as "wann": a passage that answers need not hold them."""
    return frozenset(tomllib.loads(_QUESTION_WORDS_FILE.read_text("utf-8")).get(language or "", "").split())


_SUFFIXES = ("ings", "ing", "ies", "ied", "edly", "ed", "es", "ly", "s", "e", "y")
_SHORTEST_STEM = 3
_DOUBLED = frozenset("bdgklmnprtvz")


def stem(word: str) -> str:
    """`word` (lower case) without its inflection: `running`, `runs` and `run` meet in `run`.

    One suffix is cut where at least three letters remain, then a doubled last consonant is halved.
    Words with a digit or a character outside a-z stay as they are.
    """
    if not (word.isascii() and word.isalpha()):
        return word
    root = _without_suffix(word)
    if len(root) > _SHORTEST_STEM and root[-1] == root[-2] and root[-1] in _DOUBLED:
        root = root[:-1]
    return root


def _without_suffix(word: str) -> str:
    if word.endswith("ss"):
        return word
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= _SHORTEST_STEM:
            return word[: -len(suffix)]
    return word
