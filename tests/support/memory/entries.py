"""Made-up entries of a memory's journal: small, each with an id that follows from its number or its text."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime, timedelta
from typing import Any

from sluice.contracts.memory.learning import FeatureLearning, LearningSource, learning_id
from sluice.contracts.memory.model import (
    ErrorEntry,
    ErrorType,
    FileAction,
    FileTouched,
    IterationOutcome,
    IterationRecord,
)
from sluice.memory.journal import entry as entries
from sluice.memory.journal.entry import JournalEntry
from sluice.memory.journal.feature_memory import FeatureMemory, fold

BEGAN = datetime(2026, 2, 7, 14, 30, tzinfo=UTC)


def record(number: int = 1, feature: str = "auth", **fields: Any) -> IterationRecord:
    """The record of an iteration, of some 700 bytes, that ended `number` minutes after `BEGAN`."""
    return IterationRecord(
        **{
            "iteration_number": number,
            "feature": feature,
            "timestamp": BEGAN + timedelta(minutes=number),
            "outcome": IterationOutcome.FAILURE,
            "summary": f"The middleware returns a wrong shape, for the {number}th time",
            "errors": (ErrorEntry(message="TypeError: no 'user'", error_type=ErrorType.RUNTIME, file_path="src/a.py"),),
            "files_touched": (FileTouched(path="src/a.py", action=FileAction.MODIFIED),),
            "source_id": f"{number:064x}",
            **fields,
        }
    )


def iteration(number: int = 1, feature: str = "auth", **fields: Any) -> JournalEntry:
    """The entry of that record."""
    return JournalEntry.new(record(number, feature, **fields))


def learning(text: str = "The middleware wants a User", **fields: Any) -> FeatureLearning:
    """A learning of feature auth, made by rule in iteration 1."""
    values = {"feature": "auth", "source": LearningSource.AUTO, "iteration": 1, "task_id": None} | fields
    made_of = [values[name] for name in ("feature", "source", "iteration", "task_id")]
    known = {"id": learning_id(*made_of, text), "text": text, "reason": "seen in iteration 1", "timestamp": BEGAN}
    return FeatureLearning(**known | values)


def said(body: entries.EntryBody, key: str | None = None) -> JournalEntry:
    """An entry of any kind, at `BEGAN`."""
    return JournalEntry.of(body, key=key or body.model_dump_json(), at=BEGAN)


def added(text: str = "The middleware wants a User", **fields: Any) -> JournalEntry:
    """The entry that adds the learning of that text."""
    return said(entries.LearningAdded(learning=learning(text, **fields)))


def folded(*told: JournalEntry, feature: str = "auth") -> FeatureMemory:
    """What the entries add up to. Raises `AssertionError` where one of them does not apply."""
    state = FeatureMemory(feature)
    for one in told:
        assert fold(state, one) == ()
    return state


def line_of(plain: dict[str, Any] | str) -> bytes:
    """A journal's line with a right checksum around any content, also such as no program of ours would write."""
    content = (plain if isinstance(plain, str) else json.dumps(plain, separators=(",", ":")))[:-1].encode()
    return content + b',"checksum":"' + hashlib.sha256(content).hexdigest()[:16].encode() + b'"}\n'
