"""The iterations of a feature, as what they have in common is looked up in them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

from sluice.contracts.memory.model import ErrorEntry, IterationRecord
from sluice.memory.journal.feature_memory import RecordedIteration
from sluice.memory.learning.wording import excluded, should_exclude_from_auto_accumulation
from sluice.memory.sanitise.record import WITHHELD


class History:
    """The iterations of a feature, the oldest first, as errors are looked up in them."""

    def __init__(self, iterations: Sequence[RecordedIteration]) -> None:
        self.records = [one.record for one in iterations]
        self.errors: list[dict[Fingerprint, ErrorEntry]] = [teaching_errors(record) for record in self.records]
        self._seen: dict[Fingerprint, list[int]] = defaultdict(list)
        for at, errors in enumerate(self.errors):
            for one in errors:
                self._seen[one].append(at)

    def before(self, one: Fingerprint, at: int) -> list[int]:
        """Where an error was seen before the place `at`."""
        return [place for place in self._seen[one] if place < at]


def task_of(*records: IterationRecord) -> int | None:
    """The task that all of these iterations were about; None where they were about several, or none."""
    tasks = {record.task_id for record in records}
    return tasks.pop() or None if len(tasks) == 1 else None


def teaching_errors(record: IterationRecord) -> dict[Fingerprint, ErrorEntry]:
    """The first error of each kind, without those in files that teach nothing and slips with the agent's own tools."""
    errors: dict[Fingerprint, ErrorEntry] = {}
    for error in record.errors:
        path = error.file_path
        if error.tool in excluded("agents_tools"):
            continue
        if error.message != WITHHELD and not (path and should_exclude_from_auto_accumulation(path)):
            errors.setdefault(fingerprint(error), error)
    return errors


_VOLATILE = (
    (re.compile(r"\x1b\[[0-9;]*m"), ""),
    (re.compile(r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?\b"), "<time>"),
    (re.compile(r"\b\d\d:\d\d:\d\d(?:[.,]\d+)?\b"), "<time>"),
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", re.IGNORECASE), "<id>"),
    (re.compile(r"\b0x[0-9a-f]+\b", re.IGNORECASE), "<address>"),
    (re.compile(r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{8,64}\b", re.IGNORECASE), "<id>"),
    (re.compile(r"(?:/tmp|/private/var|/var/folders|/var/tmp)(?:/[\w.@+-]+)*"), "<temporary>"),
    (re.compile(r"\b(?:line|column|col|pid|process|thread|port)\s*[:#=]?\s*\d+\b", re.IGNORECASE), "<place>"),
    (re.compile(r"(?<=[\w)\]]):\d+(?::\d+)?\b"), ""),
    (re.compile(r"\(\d+,\s?\d+\)"), ""),
    (re.compile(r"\b\d+(?:\.\d+)?\s?(?:ms|µs|us|ns|s|sec|secs|seconds|minutes|min)\b"), "<duration>"),
    (re.compile(r"\b(?:in|after|took)\s+\d+(?:\.\d+)?\b"), "<duration>"),
    (re.compile(r"\b\d{5,}\b"), "<number>"),
)
"""In this order. Small numbers stay: "expected 3 arguments" is another error than "expected 4 arguments"."""
_BLANKS = re.compile(r"\s+")


def stable_message(message: str) -> str:
    """A message in small letters, without times, addresses, ids, places in a file, and temporary paths."""
    for pattern, instead in _VOLATILE:
        message = pattern.sub(instead, message)
    return _BLANKS.sub(" ", message).strip(" .").lower()


Fingerprint = tuple[str, str, str]


def fingerprint(error: ErrorEntry) -> Fingerprint:
    """Equal for the same error in two iterations."""
    return (error.error_type or "", error.file_path or "", stable_message(error.message))
