"""Social security numbers of the United States as issued: the area not 000, 666 or above 899, no group of zeros."""

from __future__ import annotations

import re
from collections.abc import Iterator

from trust.private.labels import REACH, names_other_number

_DASHED = re.compile(
    r"(?<![\w.+/-])(?<!\d )(?!000|666|9)\d{3}(?P<gap>[-\u2010\u2011\u2012\u2013])(?!00)\d\d(?P=gap)(?!0000)\d{4}"
    r"(?![\w/-])(?!\.\d)"
)
_LOOSE = re.compile(
    r"(?<![\w.+/-])(?!000|666|9)\d{3}(?P<gap>[ .\u00a0]?)(?!00)\d\d(?P=gap)(?!0000)\d{4}(?![\w/-])(?!\.\d)"
)
_NAMED = re.compile(r"\bssn\b|social[ _-]{0,2}security|\bssid\b|\bss ?#|\bss\b[^\n]{0,4}number", re.IGNORECASE)


def find_ssns(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of each number: with dashes anywhere, otherwise after words that say what it is."""
    named = [match.end() for match in _NAMED.finditer(text)]
    for match in _DASHED.finditer(text):
        if _is_named(named, match.start()) or not names_other_number(text, match.start()):
            yield match.span()
    if named:
        for match in _LOOSE.finditer(text):
            if _is_named(named, match.start()):
                yield match.span()


def _is_named(named: list[int], start: int) -> bool:
    return any(0 <= start - end <= REACH for end in named)
