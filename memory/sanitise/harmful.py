"""Advice that does harm when an agent follows it: commands that destroy, run others' code, hide or give things away.

Only advice is found (`advice`): that such a command was run, or must not be, is an observation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from sluice.memory.sanitise.advice import is_advised, is_urged
from sluice.memory.sanitise.sentences import sentences
from sluice.text.pattern_file import PatternFile

_FILE = PatternFile(Path(__file__).with_name("harmful.toml"))


def find_harmful(text: str) -> Iterator[tuple[str, int, int]]:
    """Rule, start and end of each command or piece of advice in `text` (small letters) by which it advises harm."""
    bounds: list[tuple[int, int]] = []
    for rule, pattern in _rules("commands").items():
        if any(hint in text for hint in _FILE.tables["hints"][rule]):
            for found in pattern.finditer(text):
                bounds = bounds or sentences(text)
                if _asks(is_advised, text, found, bounds):
                    yield rule, *found.span()
    for rule, pattern in _rules("advice").items():
        for found in pattern.finditer(text):
            bounds = bounds or sentences(text)
            if _asks(is_urged, text, found, bounds):
                yield rule, *found.span()


@cache
def _rules(kind: str) -> Mapping[str, re.Pattern[str]]:
    """Each rule of a table as one expression of its alternatives."""
    rules = _FILE.tables[kind].items()
    return {rule: _FILE.compiled("|".join(f"(?:{one})" for one in patterns)) for rule, patterns in rules}


def _asks(
    judge: Callable[[str, int, int], bool], text: str, found: re.Match[str], bounds: Sequence[tuple[int, int]]
) -> bool:
    """Whether the sentence that a match stands in advises it; `find . -delete` has a full stop of its own."""
    start = next(low for low, high in bounds if low <= found.start() < high)
    end = next(high for low, high in bounds if low < found.end() <= high)
    first, last = _code_span(text, start, *found.span())
    return judge(text[start : max(end, last)], first - start, last - start)


def _code_span(text: str, low: int, start: int, end: int) -> tuple[int, int]:
    """The code span of a line that a match stands in, without its marks: `psql -c 'drop schema …'` is one command."""
    if text.count("`", low, start) % 2 == 0 or (closing := text.find("`", end)) < 0:
        return start, end
    return text.rfind("`", low, start) + 1, closing
