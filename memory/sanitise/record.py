"""Sanitises a record for keeping and printing: each of its texts, with a count of the removals."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from sluice.contracts.memory.model import (
    MAX_MESSAGE_CHARACTERS,
    MAX_SUMMARY_CHARACTERS,
    DecisionEntry,
    ErrorEntry,
    FileTouched,
    IterationRecord,
)
from sluice.memory.ports import Sanitise

WITHHELD = "[withheld: it commanded its reader]"
"""Replaces the message of an error if none of it may be kept."""
_PLAIN_PATH = re.compile(r"[A-Za-z0-9_./@+-]{1,120}")
_TELLING = re.compile(
    r"ignor|disregard|forget|overrid|bypass|instruct|prompt|system|assistant|reveal|exfil|you.?are|do.?not|delete|rm[ _.-]|sudo|curl|wget|exec|disabl|skip|force|secret|token|key|pass",
    re.IGNORECASE,
)
"""Parts of words that a command may hold. A plain path without one is harmless; others are checked as sentences."""
_BETWEEN = (" ", "\n")
"""Texts of a record are printed in a row, or each on a line of its own."""
_JOINTS = re.compile(r"[_.+-]+")


def sanitise_record(record: IterationRecord, sanitise: Sanitise) -> IterationRecord:
    """Return `record` with its texts sanitised; `cut` counts removals, by rule.

    Where nothing of it may be kept, an error's message becomes `WITHHELD`, and a decision is dropped. A path that would
    change is dropped, as it would name another file; so are neighbouring texts that only together are a command.
    """
    if _is_clean(record, sanitise):
        return record
    cut: Counter[str] = Counter(record.cut)
    clean = partial(_clean, sanitise=sanitise, cut=cut)
    kept = {
        "task_title": clean(record.task_title, 200),
        "discipline": clean(record.discipline, 100),
        "summary": clean(record.summary, MAX_SUMMARY_CHARACTERS),
        "errors": tuple(_error(one, clean) for one in record.errors),
        "decisions": tuple(_decision(decision, clean) for decision in record.decisions),
        "files_touched": tuple(one for one in record.files_touched if _is_harmless_path(one, sanitise, cut)),
        "model": None if record.model is None else clean(record.model, 200) or None,
        "session_id": None if record.session_id is None else clean(record.session_id, 200) or None,
    }
    return _without_split_commands(record.model_copy(update=kept), [*_printed(record)], sanitise, cut)


def _is_clean(record: IterationRecord, sanitise: Sanitise) -> bool:
    """Return whether all texts read together are clean. Most records are, so that two calls suffice for them."""
    paths = [file.path for file in record.files_touched] + [one.file_path for one in record.errors if one.file_path]
    if not all(_is_plain(path) for path in paths):
        return False
    others = (
        record.discipline,
        record.model or "",
        record.session_id or "",
        *(one.tool or "" for one in record.errors),
    )
    texts = [text for text in (*(text for text, _ in _printed(record)), *others) if text]
    for together in (between.join(texts).strip() for between in _BETWEEN):
        found = sanitise(together)
        if found.cut or found.blocked or found.text != together:
            return False
    return True


def _clean(text: str, most: int, *, sanitise: Sanitise, cut: Counter[str]) -> str:
    if not text:
        return text
    sanitised = sanitise(text)
    cut.update(sanitised.cut)
    return "" if sanitised.blocked else sanitised.text[:most]


Clean = Callable[[str, int], str]


def _error(error: ErrorEntry, clean: Clean) -> ErrorEntry:
    path = error.file_path
    if path is not None and not _is_plain(path) and clean(path, 1_024) != path:
        path = None
    return error.model_copy(
        update={
            "message": clean(error.message, MAX_MESSAGE_CHARACTERS) or WITHHELD,
            "evidence": clean(error.evidence or "", MAX_MESSAGE_CHARACTERS) or None,
            "tool": None if error.tool is None else clean(error.tool, 100) or None,
            "file_path": path,
            "line": error.line if path else None,
        }
    )


def _decision(decision: DecisionEntry, clean: Clean) -> DecisionEntry:
    """Sanitise a decision. An empty description marks one of which nothing may be kept; it is dropped later."""
    description = clean(decision.description, 1_000)
    rationale = clean(decision.rationale, 1_000) if decision.rationale else None
    return decision.model_copy(update={"description": description, "rationale": rationale or None})


def _is_harmless_path(file: FileTouched, sanitise: Sanitise, cut: Counter[str]) -> bool:
    """Check a path as it stands and as the words in it: `ignore_all_previous_instructions.md`."""
    if _is_plain(file.path):
        return True
    as_it_stands = sanitise(file.path)
    as_words = sanitise("\n".join(_JOINTS.sub(" ", part) for part in file.path.split("/")))
    found = {**as_words.cut, **as_it_stands.cut}
    if as_it_stands.text == file.path and not as_it_stands.blocked and not as_words.commands:
        return True
    cut.update(found)
    cut["file_path"] += 1
    return False


def _is_plain(path: str) -> bool:
    return bool(_PLAIN_PATH.fullmatch(path)) and not _TELLING.search(path)


def _without_split_commands(
    record: IterationRecord, printed: Sequence[tuple[str, Withhold]], sanitise: Sanitise, cut: Counter[str]
) -> IterationRecord:
    """Return `record` without those texts that form a command only together with the ones printed next to them."""
    texts = [sanitise(text).text for text, _ in printed]
    cut_fields: set[int] = set()
    start, is_split = 0, len(texts) > 1 and _found(sanitise, texts)
    for end in range(2, len(texts) + 1) if is_split else ():
        if end - start > 1 and _found(sanitise, texts[start:end]):
            start = next(at for at in range(end - 2, start - 1, -1) if _found(sanitise, texts[at:end]))
            cut_fields.update(range(start, end))
            start = end
    for place in cut_fields:
        cut["split-over-fields"] += 1
        record = printed[place][1](record)
    return record.model_copy(
        update={"cut": dict(cut), "decisions": tuple(one for one in record.decisions if one.description)}
    )


def _found(sanitise: Sanitise, texts: Sequence[str]) -> bool:
    """Return whether texts in a row are a command."""
    return any(one.commands or one.blocked for one in (sanitise(between.join(texts)) for between in _BETWEEN))


Withhold = Callable[[IterationRecord], IterationRecord]


def _printed(record: IterationRecord) -> Iterator[tuple[str, Withhold]]:
    """Yield the printed texts of a record, in the order of printing, and how each is withheld."""
    yield record.task_title, lambda one: one.model_copy(update={"task_title": ""})
    yield record.summary, lambda one: one.model_copy(update={"summary": ""})
    for place, error in enumerate(record.errors):
        yield error.message, partial(_changed, "errors", place, {"message": WITHHELD})
    for place, decision in enumerate(record.decisions):
        text = f"{decision.description} {decision.rationale or ''}"
        yield text, partial(_changed, "decisions", place, {"description": "", "rationale": None})
    for place, error in enumerate(record.errors):
        if error.evidence:
            yield error.evidence, partial(_changed, "errors", place, {"evidence": None})


def _changed(field: str, place: int, changes: dict[str, object], record: IterationRecord) -> IterationRecord:
    values = [*getattr(record, field)]
    values[place] = values[place].model_copy(update=changes)
    return record.model_copy(update={field: tuple(values)})
