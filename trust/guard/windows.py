"""Cuts a text into the windows that the model scores: sentences of 60 to 320 characters, code fences whole.

A command of fifteen words drowns in the vector of a page of two hundred; in a sentence of its own it does not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

SHORTEST = 60
LONGEST = 320
LONGEST_FENCE = 700

_FENCE = re.compile(r"^[ \t>]*(`{3,}|~{3,})[^\n]*\n.*?(?:^[ \t>]*\1[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_PARAGRAPH = re.compile(r"\n[ \t>#*]*\n")
_SENTENCE = re.compile(
    r"(?<=[.!?。！？;])[\"'”’»)\]]*(?:\s+|(?<=[。！？]))|\n(?=[ \t>]*(?:[-*+•|#]|\d+[.)]|//|--|\w+:)\s?)|\n"
)
_VALUE = re.compile(
    r"""(?<=[\[{:,(])\s*(?P<mark>["'])(?P<value>(?:\\.|(?!(?P=mark)\s*[,:}\])])[^\n\\])*)(?P=mark)(?=\s*[,}\])])"""
)
_KEY = re.compile(r"""["']\w+["']\s*:\s*["'\[{\d]""")
_FEW_KEYS = 3
_SHORTEST_VALUE = 12
Window = tuple[int, int]


def windows(text: str) -> Iterator[Window]:
    """Start and end of each window, in order; together they hold every word that is not markup."""
    at = 0
    for fence in _FENCE.finditer(text):
        yield from _prose(text, at, fence.start())
        yield fence.start(), min(fence.end(), fence.start() + LONGEST_FENCE)
        at = fence.end()
    yield from _prose(text, at, len(text))


def _prose(text: str, start: int, end: int) -> Iterator[Window]:
    values = (
        [found.span("value") for found in _VALUE.finditer(text, start, end)] if _is_record(text, start, end) else []
    )
    if values:
        for low, high in values:
            if high - low >= _SHORTEST_VALUE:
                yield from _paragraphs(text, low, high)
        return
    yield from _paragraphs(text, start, end)


def _is_record(text: str, start: int, end: int) -> bool:
    """Whether the text is JSON, or the like of it in Python: its strings are texts of their own."""
    head = text[start : start + 80].lstrip("\"' \t\n")
    return (head[:1] in ("{", "[") and ":" in text[start:end]) or len(_KEY.findall(text, start, end)) >= _FEW_KEYS


def _paragraphs(text: str, start: int, end: int) -> Iterator[Window]:
    at = start
    for blank in (*_PARAGRAPH.finditer(text, start, end), None):
        stop = blank.start() if blank else end
        yield from _merged(text, at, stop)
        at = blank.end() if blank else end


def _merged(text: str, start: int, end: int) -> Iterator[Window]:
    """The sentences of a paragraph; short ones are joined with each other until they are long enough."""
    low = high = start
    for stop in _sentence_ends(text, start, end):
        if stop - high >= SHORTEST:
            yield from _trimmed(text, low, high)
            yield from _cut(text, high, stop)
            low = stop
        elif stop - low >= SHORTEST:
            yield from _trimmed(text, low, stop)
            low = stop
        high = stop
    yield from _trimmed(text, low, end)


def _sentence_ends(text: str, start: int, end: int) -> Iterator[int]:
    for found in _SENTENCE.finditer(text, start, end):
        yield found.end()
    yield end


def _cut(text: str, start: int, end: int) -> Iterator[Window]:
    """Windows no longer than allowed, without blanks at their ends."""
    while end - start > LONGEST:
        space = text.rfind(" ", start + SHORTEST, start + LONGEST)
        stop = space if space > start else start + LONGEST
        yield from _trimmed(text, start, stop)
        start = stop
    yield from _trimmed(text, start, end)


def _trimmed(text: str, start: int, end: int) -> Iterator[Window]:
    body = text[start:end]
    low = start + len(body) - len(body.lstrip())
    high = end - (len(body) - len(body.rstrip()))
    if high > low:
        yield low, high
