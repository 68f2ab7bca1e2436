"""Social security numbers of the United States as issued: the area not 000, 666 or above 899, no group of zeros."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sluice.trust.private.labels import REACH, names_other_number

_FORM = re.compile(
    r"[0-9](?<![\w.+/-][0-9])(?<!\d [0-9])[0-9]{2}(?P<gap>[-\u2010\u2011\u2012\u2013 .\u00a0]?)[0-9]{2}(?P=gap)[0-9]{4}"
    r"(?![\w/-])(?!\.\d)"
)
_NEVER_ISSUED = re.compile(r"(?:000|666|9\d\d)|\d{3}\D?00|\d{3}\D?\d\d\D?0000")
_DASHES = "-\u2010\u2011\u2012\u2013"
_NAMED = re.compile(r"\bssn\b|social[ _-]{0,2}security|\bssid\b|\bss ?#|\bss\b[^\n]{0,4}number", re.IGNORECASE)


def find_ssns(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of each number: with dashes anywhere, otherwise after words that say what it is."""
    forms = [match for match in _FORM.finditer(text) if not _NEVER_ISSUED.match(match[0])]
    named = [match.end() for match in _NAMED.finditer(text)] if forms else []
    for match in forms:
        is_dashed = match["gap"] != "" and match["gap"] in _DASHES
        is_other = not is_dashed or names_other_number(text, match.start())
        if not is_other or _is_named(named, match.start()):
            yield match.span()


def _is_named(named: list[int], start: int) -> bool:
    return any(0 <= start - end <= REACH for end in named)
