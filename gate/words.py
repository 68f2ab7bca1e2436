"""English words that a page which answers need not hold, and signs of identifiers."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path

from sluice.text.words import FUNCTION_WORDS

IDENTIFIER = re.compile(r"[_.:#+>]")
"""A sign by which a term is a code identifier, which is looked up as it stands."""

_ASKING = """
    another anybody anyone anything done else ever every explain few find get give go goes going got hello hi know let
    like made make many mine much must myself need one others per rather say show somebody someone something tell thank
    thanks thing things upon use used using via want whatever within without yes yet
    current currently latest newest nowadays recent recently today tonight yesterday
"""
"""Words of requests. The last line: words that say when, which the gate weighs elsewhere."""
_TELLING = "d during hadn m mustn now s shall shan t won"
"""Function words that a question may mean all the same, as `won` or `T`."""
STOP_WORDS = frozenset(FUNCTION_WORDS) - frozenset(_TELLING.split()) | frozenset(_ASKING.split())

_QUESTION_WORDS_FILE = Path(__file__).parent / "lexicons" / "question_words.toml"


@cache
def question_words(language: str | None) -> frozenset[str]:
    """The words of a language (ISO 639-1) that ask, such as "wann": a passage that answers need not hold them."""
    return frozenset(tomllib.loads(_QUESTION_WORDS_FILE.read_text("utf-8")).get(language or "", "").split())
