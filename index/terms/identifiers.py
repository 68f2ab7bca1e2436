"""Identifiers of code, taken apart: `parseHttpRequest` and `parse_http_request` meet in the same terms."""

from __future__ import annotations

import re
from collections.abc import Iterator

_WORD = re.compile(r"[^\W\d]\w*")
_COMPOUND = re.compile(r"\b[^\W\d]\w*?[A-Z0-9_]\w*")
"""A word with a capital, a digit or an underscore after its first character: what else has no parts."""
_PART = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+|[^\W\d_A-Za-z]+")
_LONGEST_CHARACTERS = 80


def identifier_terms(text: str) -> Iterator[str]:
    """For every compound identifier in `text`: its parts, then the whole without separators; lower case.

    Plain words give nothing: the text field has them already.
    """
    for word in _COMPOUND.findall(text):
        if len(word) > _LONGEST_CHARACTERS or (word.islower() and "_" not in word):
            continue
        parts = _PART.findall(word)
        if len(parts) > 1:
            yield from (part.lower() for part in parts)
            yield "".join(parts).lower()


def identifier_query_terms(text: str) -> Iterator[str]:
    """What a question may match among identifier terms: its compound identifiers, and each plain word."""
    yield from identifier_terms(text)
    for match in _WORD.finditer(text):
        if len(match.group()) <= _LONGEST_CHARACTERS:
            yield match.group().replace("_", "").lower()
