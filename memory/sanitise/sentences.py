"""Splits a text into sentences: a command goes with its whole sentence."""

from __future__ import annotations

import re
from collections.abc import Iterable

_END = re.compile(r"[.!?。！？;](?=[\s\"'`)\]]|$)[\"'`)\]]*\s*|\n+")
_BLANKS = re.compile(r"[ \t]{2,}")
_LINES = re.compile(r"[ \t]*\n\s*")


def sentences(text: str) -> list[tuple[int, int]]:
    """Return start and end of each sentence or line, in order; a full stop within a file's name ends none."""
    spans: list[tuple[int, int]] = []
    at = 0
    for found in _END.finditer(text):
        spans.append((at, found.end()))
        at = found.end()
    if at < len(text):
        spans.append((at, len(text)))
    return spans


def cut_sentences(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """Return `text` without every sentence that one of the spans touches."""
    spans = list(spans)
    if not spans:
        return text
    kept = (
        text[start:end]
        for start, end in sentences(text)
        if not any(start < last and (first < end) for first, last in spans)
    )
    return "".join(kept)


def tidy(text: str) -> str:
    """Return `text` without blanks at its ends, several in a row, or blank lines."""
    return _LINES.sub("\n", _BLANKS.sub(" ", text)).strip()
