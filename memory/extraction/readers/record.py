"""Reads a plain `IterationRecord` as JSON, from agents that keep account themselves.

Strict: an unknown field, a value of a wrong type and a path that leads out of the project are errors that name the
field. Missing values are filled in: the feature, the time, the iteration's number. Too long texts are cut.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from sluice.contracts.errors import InvalidInput, first_problem
from sluice.contracts.memory.api import IterationContext
from sluice.contracts.memory.model import MAX_MESSAGE_CHARACTERS, MAX_SUMMARY_CHARACTERS, IterationRecord
from sluice.memory.block_marks import cut_blocks
from sluice.memory.extraction.decisions import MAX_DECISION_CHARACTERS
from sluice.memory.extraction.files import effect_of_record
from sluice.memory.extraction.result import ExtractionResult, cut_text, fit
from sluice.memory.extraction.source import Source, source_id

_TEXTS = {"summary": MAX_SUMMARY_CHARACTERS, "task_title": 200, "discipline": 100, "model": 200, "session_id": 200}
_TEXTS_OF_ENTRIES = {
    "errors": {"message": MAX_MESSAGE_CHARACTERS, "tool": 100},
    "solved": {"message": MAX_MESSAGE_CHARACTERS, "tool": 100},
    "decisions": {"description": MAX_DECISION_CHARACTERS, "rationale": MAX_DECISION_CHARACTERS},
}
_NAMED_BY_CONTEXT = ("timestamp", "task_title", "discipline", "model_tier", "session_id", "outcome")


def extract_record(source: Source, *, feature: str, context: IterationContext, now: datetime) -> ExtractionResult:
    """Return the record that a source holds, completed from the context.

    If neither it nor the context gives a number, an equal record at another time is another iteration; with a number,
    it is the same iteration again. Raises `InvalidInput` if it is no record of this feature, or there are several.
    """
    if len(source.values) != 1 or not isinstance(source.values[0], dict):
        raise InvalidInput("data", "is not one JSON object", "hand in one record at a time")
    told = source.values[0]
    not_kept: Counter[str] = Counter()
    record = _read(told, feature=feature, now=context.timestamp or now, not_kept=not_kept)
    number = context.iteration_number or (record.iteration_number if "iteration_number" in told else None)
    hashed = json.dumps({name: value for name, value in told.items() if name != "timestamp"}, sort_keys=True)
    apart = "" if number else record.timestamp.isoformat()
    kept = {name: getattr(record, name) for name in IterationRecord.model_fields if name != "stagnating"}
    named = {name: getattr(context, name) or kept[name] for name in _NAMED_BY_CONTEXT}
    counted = context.model_dump(include={"task_id", "duration_ms"}, exclude_none=True)
    changed = {
        "source_id": record.source_id or source_id(hashlib.sha256(hashed.encode()).hexdigest(), context, apart=apart),
        "iteration_number": number or 1,
        "is_numbered": number is not None,
        "effect_sha256": record.effect_sha256 or effect_of_record(record),
        "errors": fit(record.errors, "errors", not_kept),
        "decisions": fit(record.decisions, "decisions", not_kept),
        "files_touched": fit(record.files_touched, "files", not_kept),
        "not_kept": not_kept + Counter(record.not_kept),
    }
    return ExtractionResult(format="record", **kept | named | counted | changed)


def _read(told: Mapping[str, Any], *, feature: str, now: datetime, not_kept: Counter[str]) -> IterationRecord:
    if (named := told.get("feature", feature)) != feature:
        raise InvalidInput("data.feature", f"{named!r} is not {feature!r}", "record it under its own feature")
    filled = {"iteration_number": 1, "feature": feature, "timestamp": now.isoformat()} | _cut(told, not_kept)
    try:
        return IterationRecord.model_validate_json(json.dumps(filled), strict=True)
    except RecursionError as error:
        raise InvalidInput("data", "is nested too deeply", "see the schema of IterationRecord") from error
    except ValidationError as error:
        field, problem = first_problem(error, ("data",))
        raise InvalidInput(field, problem, "see the schema of IterationRecord") from error


def _cut(told: Mapping[str, Any], not_kept: Counter[str]) -> dict[str, Any]:
    """Return the record without blocks that memory printed, its texts cut to their limits."""
    found = {name: _shorter(value, _TEXTS.get(name), not_kept) for name, value in told.items()}
    for name, limits in _TEXTS_OF_ENTRIES.items():
        if isinstance(entries := found.get(name), list):
            found[name] = [
                {key: _shorter(text, limits.get(key), not_kept) for key, text in entry.items()}
                if isinstance(entry, dict)
                else entry
                for entry in entries
            ]
    return found


def _shorter(value: Any, limit: int | None, not_kept: Counter[str]) -> Any:
    if limit is None or not isinstance(value, str):
        return value
    text, removed = cut_blocks(value)
    not_kept["echo"] += removed
    return cut_text(text if text.strip() or not removed else "…", limit, not_kept)
