"""Detects iterations that repeat themselves: hashes each one's effect and counts equal ones.

An effect is the set of changed files with what was written into them, and the set of errors met (type, file, message).
Where in time it happened is no part of it: dates, times, durations, addresses, temporary folders, ids and the ends of
lines are made alike first. In written text only whole dates with times, ids, addresses and temporary folders are, as a
changed duration is work there.

The hash is taken of the raw run, before anything is cut, capped or sanitised for the record.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence

from sluice.contracts.memory.model import ErrorEntry, FileAction, IterationOutcome, IterationRecord
from sluice.memory.extraction.files import FileChange

DEFAULT_REPEATS = 3
"""So many equal effects in a row, the latest among them, are stagnation."""

_DATE_TIME = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?"
_PATH_REST = r"[^\s'\":,;)\]]*"
_TEMPORARY = (
    rf"(?:/private)?/(?:tmp|var/(?:tmp|folders))/{_PATH_REST}"
    rf"|[A-Za-z]:[\\/](?:[^\s\\/]+[\\/]){{0,8}}?Temp[\\/]{_PATH_REST}"
)
_IN_WRITTEN_TEXT: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(_DATE_TIME), "<time>"),
    (re.compile(r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b", re.IGNORECASE), "<id>"),
    (re.compile(r"\b0x[0-9a-f]{8,16}\b", re.IGNORECASE), "<address>"),
    (re.compile(_TEMPORARY), "<temporary>"),
)
_IN_MESSAGES: tuple[tuple[re.Pattern[str], str], ...] = (
    *_IN_WRITTEN_TEXT,
    (re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]"), ""),
    (re.compile(r"\b\d{4}-\d\d-\d\d\b|\b\d{1,2}:\d\d(?::\d\d(?:[.,]\d+)?)?\b(?:\s?[AP]M\b)?"), "<time>"),
    (re.compile(r"\b\d+(?:[.,]\d+)?\s?(?:[µun]s|ms|s|secs?|seconds?|m|mins?|minutes?|h|hours?)\b"), "<duration>"),
    (re.compile(r"\b0x[0-9a-f]+\b", re.IGNORECASE), "<address>"),
    (re.compile(r"\b(?:toolu|call|msg|req|run|chatcmpl)[_-][A-Za-z0-9_-]{6,}\b"), "<id>"),
    (re.compile(r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,64}\b"), "<id>"),
    (re.compile(r"\b(?:pid|process|thread)[ =:#]*\(?\d+\)?", re.IGNORECASE), "<id>"),
    (re.compile(r"\bThread-\d+|\bt\d{10,}|\b1[5-9]\d{8}(?:\.\d+|\d{3})?\b"), "<id>"),
    (re.compile(r"(?<=[\w\]]):\d{4,5}\b(?!:)"), ":<port>"),
)


def effect_sha256(changes: Iterable[FileChange], errors: Iterable[ErrorEntry]) -> str:
    """The hash of an effect. The same changes and errors in another order, or met more often, are the same effect."""
    changed = {
        (change.path, change.action.value, _same(change.written, _IN_WRITTEN_TEXT))
        for change in changes
        if change.action is not FileAction.READ
    }
    met = {(error.error_type or "", error.file_path or "", _same(error.message, _IN_MESSAGES)) for error in errors}
    plain = json.dumps([sorted(changed), sorted(met)], ensure_ascii=True)
    return hashlib.sha256(plain.encode()).hexdigest()


def effect_of_record(record: IterationRecord) -> str | None:
    """The effect that a plain record tells of; None where it names no changed file and no error.

    It does not tell what was written. So where it met no error, its summary stands for that.
    """
    written = "" if record.errors else _same(record.summary, _IN_MESSAGES)
    changed = [one for one in record.files_touched if one.action is not FileAction.READ]
    changes = [FileChange(one.path, one.action, written) for one in changed]
    return effect_sha256(changes, record.errors) if changes or record.errors else None


def is_stagnating(effect: str | None, earlier: Sequence[IterationRecord], *, repeats: int = DEFAULT_REPEATS) -> bool:
    """Whether an iteration and the `repeats - 1` before it brought about the very same.

    `earlier` are the feature's records, the oldest first. Iterations that a limit on requests stopped are passed over,
    as nothing was tried in them. An effect that is not known (None) equals none.
    """
    if effect is None or repeats < 1:
        return False
    tried = [record for record in earlier if record.outcome is not IterationOutcome.RATE_LIMITED]
    last = tried[len(tried) - (repeats - 1) :] if repeats > 1 else []
    return len(last) == repeats - 1 and all(record.effect_sha256 == effect for record in last)


def _same(text: str, rules: Sequence[tuple[re.Pattern[str], str]]) -> str:
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    text = "\n".join(line.rstrip() for line in lines)
    for pattern, replacement in rules:
        text = pattern.sub(replacement, text)
    return text.strip()
