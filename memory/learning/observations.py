"""What an iteration teaches by rule, beside those before it: errors that return, what made them go, reasons."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sluice.contracts.memory.learning import LearningSource
from sluice.contracts.memory.model import ErrorType, IterationOutcome, IterationRecord
from sluice.memory.learning.candidate import Candidate
from sluice.memory.learning.fixes import find_fixes
from sluice.memory.learning.history import History, task_of, teaching_errors
from sluice.memory.learning.statements import find_statements
from sluice.memory.learning.wording import (
    as_decision,
    first_sentence,
    fit,
    is_about_excluded_files,
    one_line,
    the_error,
)

MOST_ERRORS, MOST_DECISIONS = 10, 5
"""Of one iteration: a broken import makes hundreds of errors, and one learning."""


def observe(history: History, at: int) -> Iterator[Candidate]:
    """What the iteration at place `at` teaches, beside those before it; the same each time it is asked."""
    record = history.records[at]
    yield from _repeated_errors(history, at)
    yield from find_fixes(history, at)
    yield from _refusals(record)
    if record.stagnating and not (at and history.records[at - 1].stagnating):
        yield from _stagnation(record)
    if record.outcome is IterationOutcome.SUCCESS:
        yield from _decisions(record)
    yield from find_statements(record)


def _repeated_errors(history: History, at: int) -> Iterator[Candidate]:
    told = 0
    for mark, error in history.errors[at].items():
        earlier = history.before(mark, at)
        if not earlier or error.error_type is ErrorType.PERMISSION:
            continue
        first = history.errors[earlier[0]][mark]
        records = [history.records[place] for place in (*earlier, at)]
        text = fit(f"{the_error(first, 350)} came up in more than one iteration.")
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


def _refusals(record: IterationRecord) -> Iterator[Candidate]:
    for error in teaching_errors(record).values():
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
        decided_on = as_decision(first_sentence(decision.description, 250)).rstrip(".")
        text = fit(f"{decided_on}, because {one_line(decision.rationale or '', 200)}")
        reason = f"a decision of iteration {record.iteration_number}, which ended with Success"
        yield Candidate(text, reason, LearningSource.AUTO, record.iteration_number, task_of(record))
