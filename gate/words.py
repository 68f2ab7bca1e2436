"""English stop words of questions, and signs of identifiers."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path

from sluice.text.words import FUNCTION_WORDS

IDENTIFIER = re.compile(r"[_.:#+>]")
"""Marks a term as a code identifier, which is looked up unchanged."""

_ASKING = """
    another anybody anyone anything done else ever every explain few find get give go goes going got hello hi know let
    like made make many mine much must myself need one others per rather say show somebody someone something tell thank
    thanks thing things upon use used using via want whatever within without yes yet
    current currently latest newest nowadays recent recently today tonight yesterday
"""
"""Words of requests. The last line: words of time, which the gate weighs elsewhere."""
_TELLING = "d during hadn m mustn now s shall shan t won"
"""Function words that still may be the subject of a question, as `won` or `T`."""
STOP_WORDS = frozenset(FUNCTION_WORDS) - frozenset(_TELLING.split()) | frozenset(_ASKING.split())

_QUESTION_WORDS_FILE = Path(__file__).parent / "lexicons" / "question_words.toml"


@cache
def question_words(language: str | None) -> frozenset[str]:
    """Return a language's (ISO 639-1) question words, such as "wann": a passage can answer without them."""
    return frozenset(tomllib.loads(_QUESTION_WORDS_FILE.read_text("utf-8")).get(language or "", "").split())
