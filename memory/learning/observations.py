"""What an iteration teaches by rule, beside those before it: errors that return, what made them go, reasons."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from contracts.memory.learning import LearningSource
from contracts.memory.model import DecisionEntry, ErrorEntry, ErrorType, IterationOutcome, IterationRecord
from memory.journal.feature_memory import RecordedIteration
from memory.learning.candidate import Candidate
from memory.learning.exclude import should_exclude_from_auto_accumulation
from memory.learning.fingerprint import Fingerprint, fingerprint
from memory.learning.statements import find_statements
from memory.learning.wording import (
    changed_files,
    first_sentence,
    fit,
    is_about_excluded_files,
    list_files,
    one_line,
    the_error,
)
from memory.sanitise.record import WITHHELD

MOST_ITERATIONS_TO_FIX = 10
"""What changed longer ago than that has little to do with an error that is gone."""
MOST_ERRORS, MOST_FIXES, MOST_DECISIONS = 10, 5, 5
"""Of one iteration: a broken import makes hundreds of errors, and one learning."""


class History:
    """The iterations of a feature, the oldest first, as errors are looked up in them."""

    def __init__(self, iterations: Sequence[RecordedIteration]) -> None:
        self.records = [one.record for one in iterations]
        self.errors: list[dict[Fingerprint, ErrorEntry]] = [_teaching_errors(record) for record in self.records]
        self._seen: dict[Fingerprint, list[int]] = defaultdict(list)
        for at, errors in enumerate(self.errors):
            for one in errors:
                self._seen[one].append(at)

    def before(self, one: Fingerprint, at: int) -> list[int]:
        """Where an error was seen before the place `at`."""
        return [place for place in self._seen[one] if place < at]


def observe(history: History, at: int) -> Iterator[Candidate]:
    """What the iteration at place `at` teaches, beside those before it; the same each time it is asked."""
    record = history.records[at]
    yield from _repeated_errors(history, at)
    yield from _fixes(history, at)
    yield from _refusals(record)
    if record.stagnating and not (at and history.records[at - 1].stagnating):
        yield from _stagnation(record)
    if record.outcome is IterationOutcome.SUCCESS:
        yield from _decisions(record)
    yield from find_statements(record)


def task_of(*records: IterationRecord) -> int | None:
    """The task that all of these iterations were about; None where they were about several, or none."""
    tasks = {record.task_id for record in records}
    return tasks.pop() or None if len(tasks) == 1 else None


def _teaching_errors(record: IterationRecord) -> dict[Fingerprint, ErrorEntry]:
    """The first error of each kind, without those in files that teach nothing."""
    errors: dict[Fingerprint, ErrorEntry] = {}
    for error in record.errors:
        path = error.file_path
        if error.message != WITHHELD and not (path and should_exclude_from_auto_accumulation(path)):
            errors.setdefault(fingerprint(error), error)
    return errors


def _repeated_errors(history: History, at: int) -> Iterator[Candidate]:
    told = 0
    for mark, error in history.errors[at].items():
        earlier = history.before(mark, at)
        if not earlier or error.error_type is ErrorType.PERMISSION:
            continue
        first = history.errors[earlier[0]][mark]
        records = [history.records[place] for place in (*earlier, at)]
        text = fit(f"It fails again and again: {the_error(first, 330)}.")
        for record in (records[0], records[-1]):
            reason = f"{first.error_type or 'an'} error seen in iterations {_numbers(records)}"
            yield Candidate(
                text, reason, LearningSource.AUTO, record.iteration_number, task_of(*records), observed=True
            )
        told += 1
        if told == MOST_ERRORS:
            return


def _numbers(records: Sequence[IterationRecord]) -> str:
    numbers = [str(one) for one in sorted({record.iteration_number for record in records})]
    if len(numbers) > 6:
        numbers = [*numbers[:3], "…", *numbers[-2:]]
    return f"{', '.join(numbers[:-1])} and {numbers[-1]}" if len(numbers) > 1 else numbers[0]


def _fixes(history: History, at: int) -> Iterator[Candidate]:
    record = history.records[at]
    told = 0
    for earlier in range(at - 1, max(-1, at - 1 - MOST_ITERATIONS_TO_FIX), -1):
        before = history.records[earlier]
        between = history.records[earlier + 1 : at + 1]
        files = changed_files(between)
        if files and _is_same_task(before, record):
            for mark, error in history.errors[earlier].items():
                if _is_last_seen(history, mark, earlier, at) and _is_gone(history, error, at):
                    yield _fix(before, record, error, files)
                    told += 1
                    if told == MOST_FIXES:
                        return
        if before.outcome is IterationOutcome.SUCCESS:
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


def _how(record: IterationRecord) -> str:
    """What the iteration did, in its own words: its first decision, else the first sentence of its summary."""
    if record.decisions:
        return _told(record.decisions[0], 180)
    return first_sentence(record.summary, 180)


def _told(decision: DecisionEntry, most: int) -> str:
    because = f" (because {one_line(decision.rationale, most // 2).rstrip('.')})" if decision.rationale else ""
    return first_sentence(decision.description, most).rstrip(".") + because + "."


def _refusals(record: IterationRecord) -> Iterator[Candidate]:
    for error in _teaching_errors(record).values():
        if error.error_type is ErrorType.PERMISSION:
            text = fit(f"Not permitted here: {the_error(error, 380)}.")
            reason = f"refused in iteration {record.iteration_number}"
            yield Candidate(text, reason, LearningSource.AUTO, record.iteration_number, None, observed=True)


def _stagnation(record: IterationRecord) -> Iterator[Candidate]:
    said = first_sentence(record.summary, 250)
    tried = said or next((the_error(one, 250) for one in record.errors), "")
    if not tried:
        return
    title = f' on "{record.task_title}"' if record.task_title else ""
    text = fit(f"Trying the same once more{title} did not help: {tried}")
    reason = f"iteration {record.iteration_number} brought about the same as those before it"
    task = task_of(record)
    yield Candidate(
        text, reason, LearningSource.AUTO, record.iteration_number, task, observed=True, words=record.summary
    )


def _decisions(record: IterationRecord) -> Iterator[Candidate]:
    decided = (one for one in record.decisions if one.rationale and not is_about_excluded_files(one.description))
    for decision, _ in zip(decided, range(MOST_DECISIONS), strict=False):
        decided_on = first_sentence(decision.description, 250).rstrip(".")
        text = fit(f"{decided_on}, because {one_line(decision.rationale or '', 200)}")
        reason = f"a decision of iteration {record.iteration_number}, which ended with Success"
        yield Candidate(text, reason, LearningSource.AUTO, record.iteration_number, task_of(record))
