"""Which natural language a text is written in: deterministic, from a prefix, by py3langid.

The library loads its model at the first call, once per process: half a second of decompression.
"""

from __future__ import annotations

import re

from py3langid import classify

_PREFIX_CHARS = 240
_FEWEST_LETTERS = 24
_WORDS = re.compile(r"[^\W\d_]+")


def load_model() -> None:
    """Load the model now, for this process and those that it forks."""
    classify("")


def natural_language(text: str) -> str | None:
    """The ISO 639-1 code, or None when there are too few letters to tell."""
    prefix = text[:_PREFIX_CHARS]
    if sum(map(len, _WORDS.findall(prefix))) < _FEWEST_LETTERS:
        return None
    code: str = classify(prefix)[0]
    return code
