"""An iteration as it may be kept: what tools and agents printed may hold secrets, and orders to whoever reads it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from contracts.memory.model import DecisionEntry, ErrorEntry, FileTouched, IterationRecord
from memory.ports import Sanitise

WITHHELD = "[withheld: it would command its reader]"
"""Stands for a text of which nothing may be kept."""


def sanitise_record(record: IterationRecord, sanitise: Sanitise) -> IterationRecord:
    """The record with every text that may be printed sanitised; `cut` counts what was taken out, by rule.

    A file whose name does not pass is left out, as half of a path is none.
    """
    cut: Counter[str] = Counter(record.cut)

    def clean(text: str) -> str:
        if not text.strip():
            return text
        found = sanitise(text)
        cut.update(found.cut)
        return WITHHELD if found.blocked else found.text

    changes: dict[str, object] = {
        "task_title": clean(record.task_title),
        "discipline": clean(record.discipline),
        "summary": clean(record.summary),
        "model": clean(record.model) if record.model else record.model,
        "errors": tuple(_clean_error(one, clean) for one in record.errors),
        "decisions": tuple(_clean_decision(one, clean) for one in record.decisions),
        "files_touched": tuple(one for one in record.files_touched if _passes(one, clean)),
    }
    return IterationRecord.model_validate({**dict(record), **changes, "cut": dict(cut)})


def _clean_error(error: ErrorEntry, clean: Callable[[str], str]) -> ErrorEntry:
    path = error.file_path if error.file_path is None or clean(error.file_path) == error.file_path else None
    message = clean(error.message) or WITHHELD
    return error.model_copy(update={"message": message, "file_path": path, "line": error.line if path else None})


def _clean_decision(decision: DecisionEntry, clean: Callable[[str], str]) -> DecisionEntry:
    rationale = clean(decision.rationale) if decision.rationale else decision.rationale
    return decision.model_copy(update={"description": clean(decision.description) or WITHHELD, "rationale": rationale})


def _passes(file: FileTouched, clean: Callable[[str], str]) -> bool:
    return clean(file.path) == file.path
