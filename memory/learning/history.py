"""The iterations of a feature, as what they have in common is looked up in them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from sluice.contracts.memory.model import ErrorEntry, IterationRecord
from sluice.memory.journal.feature_memory import RecordedIteration
from sluice.memory.learning.exclude import should_exclude_from_auto_accumulation
from sluice.memory.learning.fingerprint import Fingerprint, fingerprint
from sluice.memory.sanitise.record import WITHHELD

_AGENTS_TOOLS = frozenset(
    (
        "Edit",
        "MultiEdit",
        "Write",
        "NotebookEdit",
        "Read",
        "Glob",
        "file_editor",
        "str_replace_editor",
        "str_replace_based_edit_tool",
        "edit",
        "open",
        "think",
        "finish",
    )
)
"""What they report is that the agent misquoted a file, or gave an argument too few: nothing of the code base."""


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
        if error.tool in _AGENTS_TOOLS:
            continue
        if error.message != WITHHELD and not (path and should_exclude_from_auto_accumulation(path)):
            errors.setdefault(fingerprint(error), error)
    return errors
