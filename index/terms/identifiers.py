"""Identifiers of code, split into parts: `parseHttpRequest` and `parse_http_request` have the same terms."""

from __future__ import annotations

import re
from collections.abc import Iterator

_WORD = re.compile(r"[^\W\d]\w*")
_COMPOUND = re.compile(r"\b[^\W\d]\w*?[A-Z0-9_]\w*")
"""A word with a capital, a digit or an underscore after its first character; other words have one part."""
_PART = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+|[^\W\d_A-Za-z]+")
_LONGEST_CHARACTERS = 80


def split_identifiers(text: str) -> Iterator[str]:
    """For every compound identifier in `text`: its parts, then the whole without separators; lower case.

    Plain words yield nothing: the text field has them.
    """
    for word in _COMPOUND.findall(text):
        if len(word) > _LONGEST_CHARACTERS or (word.islower() and "_" not in word):
            continue
        parts = _PART.findall(word)
        if len(parts) > 1:
            yield from (part.lower() for part in parts)
            yield "".join(parts).lower()


def extract_query_identifiers(text: str) -> Iterator[str]:
    """The identifier terms that a question may match: those of its compound identifiers, and each plain word."""
    yield from split_identifiers(text)
    for match in _WORD.finditer(text):
        if len(match.group()) <= _LONGEST_CHARACTERS:
            yield match.group().replace("_", "").lower()
