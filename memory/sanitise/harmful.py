"""Finds advice that does harm: commands that destroy, run others' code, hide or give things away.

Only advice is found: "run `git push --force` to publish" advises; "never run …" forbids; "`git push --force` in the
release job dropped two commits" is an observation, and one worth keeping.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from sluice.memory.sanitise.sentences import sentences
from sluice.text.pattern_file import PatternFile

_PATTERNS = PatternFile(Path(__file__).with_name("advice.toml"))
_SUBJECTS = frozenset(("i", "we", "they", "who", "which", "did", "does", "would", "people", "that"))
_FAR = 120
"""Most characters between a command and its praise: its own arguments stand between."""


def is_advised(sentence: str, start: int, end: int) -> bool:
    """Return whether a sentence, in lower case, advises its reader to run `sentence[start:end]`."""
    before, after = sentence[:start], sentence[end:]
    if _is_forbidden(before):
        return False
    if (
        _is_told_to_do(before, after)
        or _PATTERNS["label"].search(before)
        or _PATTERNS["praised"].search(before)
        or _is_endorsed(after)
    ):
        return True
    happened = (
        _PATTERNS["happened"].search(before)
        or _PATTERNS["happened"].search(after)
        or _PATTERNS["forbids"].search(after[:60])
    )
    return not happened and bool(_PATTERNS["lead"].search(before))


def is_urged(sentence: str, start: int, end: int) -> bool:
    """Return whether a span that begins with a verb is urged: "disable the tests", not "tried to disable the tests"."""
    before, after = sentence[:start], sentence[end:]
    if _is_forbidden(before):
        return False
    if _PATTERNS["praised"].search(before) or _is_endorsed(after):
        return True
    is_gerund = sentence[start:end].split(None, 1)[0].endswith("ing")
    return not is_gerund and bool(_PATTERNS["clause"].search(before)) and not _PATTERNS["is_noun"].match(after)


def _is_forbidden(before: str) -> bool:
    return bool(_PATTERNS["forbids"].search(_PATTERNS["no_ban"].sub(" ", before)))


def _is_told_to_do(before: str, after: str) -> bool:
    """Return whether a verb in its plain form stands right before, and not as somebody's deed: "the scripts run …"."""
    found = _PATTERNS["done"].search(before)
    if not found:
        return False
    if found["verb"] in ("set", "put") and _PATTERNS["happened"].search(after):
        return False
    if found["before"] == "to":
        return not _PATTERNS["tried"].search(before)
    if any(mark in found["gap"] for mark in ":,;(>.") or not found["before"]:
        return True
    if found["before"] in _SUBJECTS or found["before"].endswith("s"):
        return found["before"] in ("always", "this", "tests") or bool(_PATTERNS["opens"].search(before))
    return True


def _is_endorsed(after: str) -> bool:
    """Return whether the text behind it praises it: "… fixes it", "… is the way to go"."""
    found = _PATTERNS["endorses"].match(after)
    if not found:
        helps = _PATTERNS["helps"].search(after[:_FAR])
        if helps is None or _PATTERNS["forbids"].search(after[:_FAR]):
            return False
        return not _PATTERNS["happened"].search(after[: helps.start()])
    if found["verb"] in ("is", "are", "was"):
        head = after[: found.end() + 30]
        return bool(_PATTERNS["praise"].search(head)) and not _PATTERNS["forbids"].search(head)
    return not (found["verb"].startswith("to ") and _PATTERNS["happened"].search(after))


_FILE = PatternFile(Path(__file__).with_name("harmful.toml"))


def find_harmful(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield rule, start and end of each command or piece of advice in `text` (lower case) that advises harm."""
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
    """Compile each rule of a table into one expression of its alternatives."""
    rules = _FILE.tables[kind].items()
    return {rule: _FILE.compiled("|".join(f"(?:{one})" for one in patterns)) for rule, patterns in rules}


def _asks(
    judge: Callable[[str, int, int], bool], text: str, found: re.Match[str], bounds: Sequence[tuple[int, int]]
) -> bool:
    """Return whether the sentence around a match advises it; `find . -delete` has a full stop of its own."""
    start = next(low for low, high in bounds if low <= found.start() < high)
    end = next(high for low, high in bounds if low < found.end() <= high)
    first, last = _code_span(text, start, *found.span())
    return judge(text[start : max(end, last)], first - start, last - start)


def _code_span(text: str, low: int, start: int, end: int) -> tuple[int, int]:
    """Return the code span of a line around a match, without its marks: `psql -c 'drop schema …'` is one command."""
    if text.count("`", low, start) % 2 == 0 or (closing := text.find("`", end)) < 0:
        return start, end
    return text.rfind("`", low, start) + 1, closing
