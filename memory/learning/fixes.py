"""What made an error go: the iteration in which it is gone, what was changed until then, and what the agent said.

That an error is gone after a change does not say that the change made it go. So the two must be related: the error's
file was changed, or one beside it, or the agent speaks of the error, or both iterations are of one task.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from sluice.contracts.memory.learning import LearningSource
from sluice.contracts.memory.model import DecisionEntry, ErrorEntry, IterationOutcome, IterationRecord
from sluice.memory.learning.candidate import Candidate
from sluice.memory.learning.fingerprint import Fingerprint
from sluice.memory.learning.history import History, task_of
from sluice.memory.learning.wording import (
    as_decision,
    changed_files,
    first_sentence,
    fit,
    list_files,
    one_line,
    the_error,
)

MOST_ITERATIONS_TO_FIX = 10
"""What changed longer ago than that has little to do with an error that is gone."""
MOST_FIXES = 5
"""Of one iteration: a broken import makes hundreds of errors, and one fix."""

_SAYS_WHAT = re.compile(
    r"\b(?:fix|add|chang|replac|set|us(?:e|ed|ing)\b|remov|mov|renam|updat|import|install|correct|configur|wrap|convert|pass(?:ed|ing)|call(?:ed|ing)|creat|clos|open|cast|check|guard|cach|mock|pin|bump|rais|return|handl|switch|extract|delet|escap|encod|"
    r"await|lock|the (?:cause|bug|problem|reason|issue) was)\w*",
    re.IGNORECASE,
)
"""A sentence with none of these says that it is done, and not what was done."""
_NAMES = re.compile(
    r"[A-Za-z_][\w.]*(?:_\w+|\.\w+)|\b[a-z]+[A-Z]\w*|\b[A-Z]\w+[A-Z]\w*|(?<=['\"`])[\w./-]{3,60}(?=['\"`])"
)
"""What looks like a name of code in a message."""


def find_fixes(history: History, at: int) -> Iterator[Candidate]:
    """Errors of earlier iterations that are gone in the one at place `at`; one that succeeded left none behind."""
    record = history.records[at]
    told = 0
    for earlier in range(at - 1, max(-1, at - 1 - MOST_ITERATIONS_TO_FIX), -1):
        before = history.records[earlier]
        between = history.records[earlier + 1 : at + 1]
        files = changed_files(between)
        if before.outcome is IterationOutcome.SUCCESS:
            return
        if files and _is_same_task(before, record):
            for mark, error in history.errors[earlier].items():
                is_gone = _is_last_seen(history, mark, earlier, at) and _is_gone(history, error, at)
                if is_gone and _is_related(error, before, record, files):
                    yield _fix(before, record, error, files)
                    told += 1
                    if told == MOST_FIXES:
                        return


def _is_same_task(before: IterationRecord, record: IterationRecord) -> bool:
    return before.task_id == record.task_id or 0 in (before.task_id, record.task_id)


def _is_last_seen(history: History, mark: Fingerprint, earlier: int, at: int) -> bool:
    return all(mark not in history.errors[place] for place in range(earlier + 1, at + 1))


def _is_gone(history: History, error: ErrorEntry, at: int) -> bool:
    """The iteration succeeded; or it changed the error's file, and the same tool reported others, and none in it."""
    record = history.records[at]
    if record.outcome is IterationOutcome.SUCCESS:
        return True
    others = history.errors[at].values()
    return (
        error.file_path is not None
        and error.tool is not None
        and error.file_path in changed_files([record])
        and any(one.tool == error.tool for one in others)
        and all(one.file_path != error.file_path for one in others)
    )


def _fix(before: IterationRecord, record: IterationRecord, error: ErrorEntry, files: tuple[str, ...]) -> Candidate:
    how = _how(record)
    gone = fit(f"{the_error(error, 180)} went away after changing {list_files(files)}")
    text = fit(f"{gone}: {how}" if how else f"{gone}.")
    ended = "which ended with Success" if record.outcome is IterationOutcome.SUCCESS else "where its file had no error"
    reason = f"seen in iteration {before.iteration_number}, gone in iteration {record.iteration_number}, {ended}"
    return Candidate(
        text,
        reason,
        LearningSource.AUTO,
        record.iteration_number,
        task_of(before, record),
        observed=True,
        words=how,
        without_words=f"{gone}.",
    )


def _is_related(error: ErrorEntry, before: IterationRecord, record: IterationRecord, files: Sequence[str]) -> bool:
    if record.task_id and before.task_id == record.task_id:
        return True
    if record.task_title and before.task_title == record.task_title:
        return True
    said = " ".join((record.summary, *(f"{one.description} {one.rationale or ''}" for one in record.decisions)))
    if any(name in said for name in _NAMES.findall(error.message)):
        return True
    if error.file_path is None:
        return record.iteration_number - before.iteration_number == 1
    place = PurePosixPath(error.file_path)
    beside = (PurePosixPath(path) for path in files)
    return place.name in said or any(_is_beside(one, place) or _subject(one) == _subject(place) for one in beside)


def _is_beside(one: PurePosixPath, other: PurePosixPath) -> bool:
    return one.parent == other.parent and one.suffix == other.suffix


def _subject(path: PurePosixPath) -> str:
    """What a file is about: `tests/test_auth.py` is about what `src/auth.py` is."""
    stem = path.name.split(".")[0].lower()
    return stem.removeprefix("test_").removesuffix("_test").removesuffix("_spec")


def _how(record: IterationRecord) -> str:
    """What the iteration did, in its own words: its first decision, else the first sentence that names a change."""
    if record.decisions:
        return _told(record.decisions[0], 180)
    first = first_sentence(record.summary, 180)
    return first if _SAYS_WHAT.search(first) else ""


def _told(decision: DecisionEntry, most: int) -> str:
    because = f" (because {one_line(decision.rationale, most // 2).rstrip('.')})" if decision.rationale else ""
    return as_decision(first_sentence(decision.description, most)).rstrip(".") + because + "."
