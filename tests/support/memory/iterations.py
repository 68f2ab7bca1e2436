"""Small iterations and learnings for tests of an agent's memory, and the state that they add up to."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from sluice.contracts.memory.learning import FeatureLearning, LearningSource, learning_id
from sluice.contracts.memory.model import (
    DecisionEntry,
    ErrorEntry,
    ErrorType,
    FileAction,
    FileTouched,
    IterationOutcome,
    IterationRecord,
)
from sluice.memory.journal.entry import ConflictFound, EntryBody, JournalEntry, LearningAdded
from sluice.memory.journal.feature_memory import FeatureMemory, fold

FEATURE = "authentication"
BEGINNING = datetime(2026, 2, 7, 14, 30, tzinfo=UTC)


def moment(number: int) -> datetime:
    """The time of an iteration, by its number."""
    return BEGINNING + timedelta(minutes=number)


def error(
    message: str, path: str | None = None, line: int | None = None, kind: ErrorType = ErrorType.TEST
) -> ErrorEntry:
    return ErrorEntry(message=message, error_type=kind, file_path=path, line=line)


def iteration(
    number: int,
    outcome: IterationOutcome = IterationOutcome.FAILURE,
    *,
    errors: Iterable[ErrorEntry] = (),
    decisions: Iterable[str] = (),
    changed: Iterable[str] = (),
    **fields: Any,
) -> JournalEntry:
    """The entry of an iteration; its time follows from its number unless `timestamp` is given."""
    values: dict[str, Any] = {"feature": FEATURE, "timestamp": moment(number)} | fields
    record = IterationRecord(
        iteration_number=number,
        outcome=outcome,
        errors=tuple(errors),
        decisions=tuple(DecisionEntry(description=one) for one in decisions),
        files_touched=tuple(FileTouched(path=one, action=FileAction.MODIFIED) for one in changed),
        **values,
    )
    return JournalEntry.new(record)


def learning(text: str, number: int = 1, **fields: Any) -> FeatureLearning:
    """A learning of an iteration."""
    source = fields.pop("source", LearningSource.AUTO)
    return FeatureLearning(
        id=learning_id(FEATURE, source, number, fields.get("task_id"), text),
        feature=FEATURE,
        text=text,
        iteration=number,
        source=source,
        **{"reason": "observed in a test", "timestamp": moment(number)} | fields,
    )


def memory_of(*said: JournalEntry | FeatureLearning, state: FeatureMemory | None = None) -> FeatureMemory:
    """The state after these entries and learnings, in this order."""
    state = state or FeatureMemory(FEATURE)
    for one in said:
        if isinstance(one, FeatureLearning):
            one = entry(LearningAdded(learning=one), key=one.id)
        assert not fold(state, one), f"{one} could not be applied"
    return state


def entry(body: EntryBody, *, key: str) -> JournalEntry:
    return JournalEntry.of(body, key=key, at=BEGINNING)


def conflict(one: FeatureLearning, other: FeatureLearning) -> JournalEntry:
    body = ConflictFound(learning_id=one.id, other_id=other.id, evidence="they say the contrary")
    return entry(body, key=one.id + other.id)
