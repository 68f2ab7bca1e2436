"""Derives learnings by rule from an iteration and those before it: errors that return, remedies, reasons."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import PurePosixPath
from typing import Any

from sluice.contracts.memory.learning import LearningSource
from sluice.contracts.memory.model import DecisionEntry, ErrorEntry, ErrorType, IterationOutcome, IterationRecord
from sluice.memory.extraction.files import without_volatile
from sluice.memory.journal.feature_memory import RecordedIteration
from sluice.memory.learning.add import Candidate
from sluice.memory.learning.wording import (
    WORDING,
    as_decision,
    came_up_again,
    changed_files,
    excluded,
    first_sentence,
    fit,
    is_about_excluded_files,
    list_files,
    listed,
    one_line,
    should_exclude_from_auto_accumulation,
    the_error,
)
from sluice.memory.sanitise.record import WITHHELD


class History:
    """The iterations of a feature, the oldest first, searchable by error."""

    def __init__(self, iterations: Sequence[RecordedIteration]) -> None:
        self.records = [one.record for one in iterations]
        self.errors: list[dict[Fingerprint, ErrorEntry]] = [teaching_errors(record) for record in self.records]
        self._seen: dict[Fingerprint, list[int]] = defaultdict(list)
        for at, errors in enumerate(self.errors):
            for one in errors:
                self._seen[one].append(at)

    def before(self, one: Fingerprint, at: int) -> list[int]:
        """Return the places before `at` where an error was seen."""
        return [place for place in self._seen[one] if place < at]


def task_of(*records: IterationRecord) -> int | None:
    """Return the task that all of these iterations share; None if they have several, or none."""
    tasks = {record.task_id for record in records}
    return tasks.pop() or None if len(tasks) == 1 else None


def teaching_errors(record: IterationRecord) -> dict[Fingerprint, ErrorEntry]:
    """Return the first error of each kind, without those in excluded files and slips with the agent's own tools."""
    errors: dict[Fingerprint, ErrorEntry] = {}
    for error in record.errors:
        path = error.file_path
        if error.tool in excluded("agents_tools"):
            continue
        if error.message != WITHHELD and not (path and should_exclude_from_auto_accumulation(path)):
            errors.setdefault(fingerprint(error), error)
    return errors


Fingerprint = tuple[str, str, str]


def fingerprint(error: ErrorEntry) -> Fingerprint:
    """Return a key that is equal for the same error in two iterations, whatever its times, ids, lines and addresses."""
    stable = " ".join(without_volatile(error.message, "errors").split()).strip(" .").lower()
    return (error.error_type or "", error.file_path or "", stable)


MOST_ERRORS, MOST_DECISIONS = 10, 5
"""Limits per iteration: a broken import makes hundreds of errors, and one learning."""


def observe(history: History, at: int) -> Iterator[Candidate]:
    """Yield the learnings of the iteration at place `at`, given those before it; the same at each call."""
    record = history.records[at]
    yield from _repeated_errors(history, at)
    yield from find_fixes(history, at)
    yield from _refusals(record)
    if record.stagnating and not (at and history.records[at - 1].stagnating):
        yield from _stagnation(record)
    if record.outcome is IterationOutcome.SUCCESS:
        yield from _decisions(record)
    yield from find_statements(record)


def _by_rule(record: IterationRecord, text: str, reason: str, task_id: int | None, **more: Any) -> Candidate:
    return Candidate(fit(text), reason, LearningSource.AUTO, record.iteration_number, task_id, **more)


def _repeated_errors(history: History, at: int) -> Iterator[Candidate]:
    told = 0
    for mark, error in history.errors[at].items():
        earlier = history.before(mark, at)
        if not earlier or error.error_type is ErrorType.PERMISSION:
            continue
        first = history.errors[earlier[0]][mark]
        records = [history.records[place] for place in (*earlier, at)]
        text = came_up_again(first)
        reason = f"{first.error_type or 'an'} error seen in iterations {_numbers(records)}"
        for record in (records[0], records[-1]):
            yield _by_rule(record, text, reason, task_of(*records), observed=True)
        told += 1
        if told == MOST_ERRORS:
            return


def _numbers(records: Sequence[IterationRecord]) -> str:
    numbers = sorted({record.iteration_number for record in records})
    return listed([*numbers[:3], "…", *numbers[-2:]] if len(numbers) > 6 else numbers)


def _refusals(record: IterationRecord) -> Iterator[Candidate]:
    for error in teaching_errors(record).values():
        if error.error_type is ErrorType.PERMISSION:
            reason = f"refused in iteration {record.iteration_number}"
            yield _by_rule(record, f"Not permitted here: {the_error(error, 380)}.", reason, None, observed=True)


def _stagnation(record: IterationRecord) -> Iterator[Candidate]:
    said = first_sentence(record.summary, 250)
    if tried := said or next((the_error(one, 250) for one in record.errors), ""):
        title = f' on "{record.task_title}"' if record.task_title else ""
        text = f"Trying the same once more{title} did not help: {tried}"
        reason = f"iteration {record.iteration_number} brought about the same as those before it"
        yield _by_rule(record, text, reason, task_of(record), observed=True, words=record.summary)


def _decisions(record: IterationRecord) -> Iterator[Candidate]:
    decided = (one for one in record.decisions if one.rationale and not is_about_excluded_files(one.description))
    for decision in islice(decided, MOST_DECISIONS):
        decided_on = as_decision(first_sentence(decision.description, 250)).rstrip(".")
        text = f"{decided_on}, because {one_line(decision.rationale or '', 200)}"
        reason = f"a decision of iteration {record.iteration_number}, which ended with Success"
        yield _by_rule(record, text, reason, task_of(record))


_MOST = 10
_SHORTEST = 12
"""Fewest characters that say something understandable alone."""


def find_statements(record: IterationRecord) -> Iterator[Candidate]:
    """Yield the lessons that an iteration's summary and decisions state; each item of a list by itself."""
    told = 0
    texts = (
        record.summary,
        *(one.description for one in record.decisions),
        *(one.rationale or "" for one in record.decisions),
    )
    for said in dict.fromkeys(one for text in texts for one in lessons(text)):
        if told == _MOST:
            return
        if not is_about_excluded_files(said):
            told += 1
            reason = f"stated as a lesson in iteration {record.iteration_number}"
            yield Candidate(fit(said), reason, LearningSource.AGENT, record.iteration_number, record.task_id or None)


def lessons(text: str) -> Iterator[str]:
    """Yield the text behind each label. A correction keeps its label, by which it retires an earlier learning."""
    for found in WORDING["lesson"].finditer(text):
        head, *items = WORDING["item"].split(found["said"])
        for one in (head, *items):
            said = one.strip(" \t*_\n")
            if len(said) >= _SHORTEST:
                yield f"Correction: {said}" if found["corrects"] else said[0].upper() + said[1:]


MOST_ITERATIONS_TO_FIX = 10
"""Older changes have little to do with an error that is gone."""
MOST_FIXES = 5
"""Limit per iteration: a broken import makes hundreds of errors, and one fix."""


def find_fixes(history: History, at: int) -> Iterator[Candidate]:
    """Yield fixes of earlier errors that are gone in the iteration at place `at`; a success left no errors behind."""
    record = history.records[at]
    told = 0
    for earlier in range(at - 1, max(-1, at - 1 - MOST_ITERATIONS_TO_FIX), -1):
        before = history.records[earlier]
        between = history.records[earlier + 1 : at + 1]
        files = changed_files(between)
        if before.outcome is IterationOutcome.SUCCESS:
            return
        if files and (before.task_id == record.task_id or 0 in (before.task_id, record.task_id)):
            for mark, error in history.errors[earlier].items():
                met_again = any(mark in errors for errors in history.errors[earlier + 1 : at + 1])
                if not met_again and _is_gone(history, error, at) and _is_related(error, before, record, files):
                    yield _fix(before, record, error, files)
                    told += 1
                    if told == MOST_FIXES:
                        return


def _is_gone(history: History, error: ErrorEntry, at: int) -> bool:
    """Return whether the iteration succeeded, or changed the error's file and its tool found errors only in others."""
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
    ended = "which ended with Success" if record.outcome is IterationOutcome.SUCCESS else "where its file had no error"
    reason = f"seen in iteration {before.iteration_number}, gone in iteration {record.iteration_number}, {ended}"
    task, text = task_of(before, record), f"{gone}: {how}" if how else f"{gone}."
    return _by_rule(record, text, reason, task, observed=True, words=how, without_words=f"{gone}.")


def _is_related(error: ErrorEntry, before: IterationRecord, record: IterationRecord, files: Sequence[str]) -> bool:
    if record.task_id and before.task_id == record.task_id:
        return True
    if record.task_title and before.task_title == record.task_title:
        return True
    said = " ".join((record.summary, *(f"{one.description} {one.rationale or ''}" for one in record.decisions)))
    if any(name in said for name in WORDING["names_of_code"].findall(error.message)):
        return True
    if error.file_path is None:
        return record.iteration_number - before.iteration_number == 1
    place = PurePosixPath(error.file_path)
    beside = (PurePosixPath(path) for path in files)
    return place.name in said or any(
        (one.parent, one.suffix) == (place.parent, place.suffix) or _subject(one) == _subject(place) for one in beside
    )


def _subject(path: PurePosixPath) -> str:
    """Return the subject of a file, the same for `tests/test_auth.py` and `src/auth.py`."""
    stem = path.name.split(".")[0].lower()
    return stem.removeprefix("test_").removesuffix("_test").removesuffix("_spec")


def _how(record: IterationRecord) -> str:
    """Return the iteration's own account of its change: its first decision, else the summary's first sentence."""
    if record.decisions:
        return _told(record.decisions[0], 180)
    first = first_sentence(record.summary, 180)
    return first if WORDING["says_what"].search(first) else ""


def _told(decision: DecisionEntry, most: int) -> str:
    because = f" (because {one_line(decision.rationale, most // 2).rstrip('.')})" if decision.rationale else ""
    return as_decision(first_sentence(decision.description, most)).rstrip(".") + because + "."
