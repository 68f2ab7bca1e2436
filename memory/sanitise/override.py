"""Finds commands to the reading model itself: to forget its orders, to be another, to give away or to hide.

A guard knows many more, in many languages; these serve a memory that was opened without one. As in the guard, a text
that speaks *about* such a command, in quotation marks or as an attack, holds none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from sluice.text.orders import find_discarding
from sluice.text.pattern_file import PatternFile

_PATTERNS = PatternFile(Path(__file__).with_name("override.toml"))
_MARKS = "\"'`“”‘’«»"


def find_overrides(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield rule, start and end of each command to a model in `text`, which is in lower case."""
    for start, end, _ in find_discarding(text):
        if not _is_spoken_about(text, start, end, _PATTERNS["about"]) and _begins(text, start):
            yield "override", start, end
    for rule, pattern in _rules().items():
        for found in pattern.finditer(text):
            start, end = found.span()
            told_anywhere = rule in ("conceal", "address", "authority")
            if not _is_spoken_about(text, start, end, _PATTERNS["named"] if told_anywhere else _PATTERNS["about"]) and (
                told_anywhere or _begins(text, start)
            ):
                yield rule, start, end


@cache
def _rules() -> Mapping[str, re.Pattern[str]]:
    return _PATTERNS.table("rules")


def _begins(text: str, start: int) -> bool:
    """Return whether a clause begins there: "ignore the rules above", not "users may ignore the rules above"."""
    return bool(_PATTERNS["clause"].search(text[max(0, start - 60) : start]))


def _is_spoken_about(text: str, start: int, end: int, about: re.Pattern[str]) -> bool:
    sentence = max(text.rfind("\n", 0, start), text.rfind(". ", 0, start), 0)
    before = text[sentence:start]
    quoted = any(before.count(mark) % 2 == 1 and mark in text[end : end + 200] for mark in '"`') or (
        before[-1:] in _MARKS and before[-1:] != "" and any(mark in text[end : end + 200] for mark in _MARKS)
    )
    words_outside = len(re.findall(r"[a-z]{2,}", before)) >= 2
    if quoted and (words_outside or len(re.findall(r"[a-z]{2,}", _after_quote(text, end))) >= 2):
        return True
    return bool(about.search(before)) and not _PATTERNS["clause_stop"].search(before)


def _after_quote(text: str, end: int) -> str:
    places = [place for mark in _MARKS if (place := text.find(mark, end, end + 200)) >= 0]
    stop = text.find("\n", end)
    return text[min(places) : stop if stop >= 0 else None] if places else ""
