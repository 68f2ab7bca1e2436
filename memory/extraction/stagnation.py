"""Detects iterations that repeat themselves: hashes each one's effect and counts equal ones.

An effect is the set of changed files with the text written into them, and the set of errors met (type, file, message).
It does not depend on time: dates, times, durations, addresses, temporary folders, ids and line ends are made alike
first. In written text only whole dates with times, ids, addresses and temporary folders are made alike, as a changed
duration is work there.

The hash is taken of the raw run, before anything is cut, capped or sanitised for the record.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from sluice.contracts.memory.model import ErrorEntry, FileAction, IterationOutcome, IterationRecord
from sluice.memory.extraction.files import FileChange
from sluice.text.pattern_file import PatternFile

DEFAULT_REPEATS = 3
"""Equal effects in a row, including the latest, that count as stagnation."""
_OF_MESSAGES = ("written", "messages")


def effect_sha256(changes: Iterable[FileChange], errors: Iterable[ErrorEntry]) -> str:
    """Return the hash of an effect. The order and repetition of changes and errors do not matter."""
    changed = {
        (change.path, change.action.value, _same(change.written, "written"))
        for change in changes
        if change.action is not FileAction.READ
    }
    met = {(error.error_type or "", error.file_path or "", _same(error.message, *_OF_MESSAGES)) for error in errors}
    plain = json.dumps([sorted(changed), sorted(met)], ensure_ascii=True)
    return hashlib.sha256(plain.encode()).hexdigest()


def effect_of_record(record: IterationRecord) -> str | None:
    """Return the effect of a plain record; None if it names no changed file and no error.

    A record lacks the text written. So if it has no error, its summary stands for that text.
    """
    written = "" if record.errors else _same(record.summary, *_OF_MESSAGES)
    changed = [one for one in record.files_touched if one.action is not FileAction.READ]
    changes = [FileChange(one.path, one.action, written) for one in changed]
    return effect_sha256(changes, record.errors) if changes or record.errors else None


def is_stagnating(effect: str | None, earlier: Sequence[IterationRecord], *, repeats: int = DEFAULT_REPEATS) -> bool:
    """Return whether an iteration and the `repeats - 1` before it had the same effect.

    `earlier` are the feature's records, the oldest first. Iterations stopped by a limit on requests are skipped, as
    nothing was tried in them. An unknown effect (None) equals no other.
    """
    if effect is None or repeats < 1:
        return False
    tried = [record for record in earlier if record.outcome is not IterationOutcome.RATE_LIMITED]
    last = tried[len(tried) - (repeats - 1) :] if repeats > 1 else []
    return len(last) == repeats - 1 and all(record.effect_sha256 == effect for record in last)


def without_volatile(text: str, *kinds: str) -> str:
    """Return a text with each time, id, address and temporary path replaced by a fixed word; see `volatile.toml`."""
    for pattern, instead in _volatile(kinds):
        text = pattern.sub(instead, text)
    return text


@cache
def _volatile(kinds: tuple[str, ...]) -> tuple[tuple[re.Pattern[str], str], ...]:
    table = PatternFile(Path(__file__).with_name("volatile.toml"))
    return tuple((table.compiled(pattern), instead) for kind in kinds for instead, pattern in table.tables[kind])


def _same(text: str, *kinds: str) -> str:
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return without_volatile("\n".join(line.rstrip() for line in lines), *kinds).strip()
