"""Small values of an agent's memory, for tests."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from sluice.contracts.document import sha256_text
from sluice.contracts.memory.learning import FeatureLearning
from sluice.contracts.memory.model import IterationRecord
from sluice.memory.journal.entry import JournalEntry, LearningAdded
from sluice.memory.journal.feature_memory import FeatureMemory, fold

START = datetime(2026, 2, 7, 14, 30, tzinfo=UTC)


def record(number: int = 1, *, feature: str = "auth", **changes: Any) -> IterationRecord:
    """An iteration in which the login failed."""
    plain = {
        "iteration_number": number,
        "task_title": "Build login form",
        "feature": feature,
        "discipline": "frontend",
        "timestamp": START + timedelta(minutes=10 * number),
        "outcome": "Failure",
        "summary": f"Attempt {number}: the middleware returns the wrong shape",
        "errors": [
            {
                "message": "TypeError: cannot read 'user'",
                "error_type": "Runtime",
                "file_path": "src/auth.py",
                "line": 42,
            }
        ],
        "files_touched": [
            {"path": "src/auth.py", "action": "Modified"},
            {"path": "tests/test_auth.py", "action": "Read"},
        ],
        "source_id": sha256_text(f"{feature} {number} {changes}"),
    }
    return IterationRecord.model_validate(plain | changes)


def learning(text: str, *, feature: str = "auth", iteration: int = 1, task_id: int | None = None) -> FeatureLearning:
    """A learning that was made by rule."""
    return FeatureLearning.auto_extracted(text, iteration, task_id, feature=feature, timestamp=START)


def state_of(*facts: IterationRecord | FeatureLearning, feature: str = "auth") -> FeatureMemory:
    """The state of a feature whose journal has these facts in their order."""
    state = FeatureMemory(feature)
    for fact in facts:
        fold(state, entry_of(fact))
    return state


def entry_of(fact: IterationRecord | FeatureLearning) -> JournalEntry:
    """The entry that adds it."""
    if isinstance(fact, IterationRecord):
        return JournalEntry.new(fact)
    return JournalEntry.of(LearningAdded(learning=fact), key=fact.id, at=fact.timestamp)
