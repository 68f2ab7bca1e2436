"""Decodes an iteration's data (JSON that others wrote, tolerantly) and detects its format."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from sluice.contracts.errors import InvalidInput
from sluice.contracts.memory.api import IterationContext, StreamFormat
from sluice.memory.extraction.agent_run import (
    NotJson,
    decode,
    decode_lines,
    lines,
    mapping,
    objects,
    scrubbed,
    without_surrogates,
)
from sluice.memory.extraction.readers import claude_code, codex

MAX_CHARACTERS = 64 << 20
_LINES_LOOKED_AT = 200
_REMEDY = "name the format: claude-code, swe-agent, mini-swe-agent, openhands, codex, trace or record"


@dataclass(frozen=True, slots=True)
class Source:
    """Data of an iteration: its JSON `values` (one for a document, many for lines), read from `text`.

    `counted` counts the lines of the text that are not JSON.
    """

    format: StreamFormat
    values: Sequence[Any]
    text: str | None
    sha256: str
    counted: Mapping[str, int] = field(default_factory=dict)


def open_source(data: object, format_name: StreamFormat) -> Source:
    """Decode the data, and detect its format if `format_name` is `auto`.

    Raises `InvalidInput` if `data` is neither text nor JSON, too long, empty, or in no known format.
    """
    if isinstance(data, list) and data and all(isinstance(line, str) for line in data):
        data = "\n".join(data) + "\n"
    if isinstance(data, (bytes, bytearray)):
        data = bytes(data).decode("utf-8", "replace")
    if isinstance(data, str):
        if len(data) > MAX_CHARACTERS:
            raise InvalidInput(
                "data", f"is longer than {MAX_CHARACTERS} characters", "leave out the middle of the output"
            )
        return _of_text(without_surrogates(data.removeprefix("\ufeff")), format_name)
    if not isinstance(data, (dict, list)):
        raise InvalidInput(
            "data", f"is {type(data).__name__}", "hand in the output as text, or as a JSON object or list"
        )
    try:
        values = scrubbed([data])
    except RecursionError as error:
        raise InvalidInput("data", "is nested too deeply", "hand in the output as the agent wrote it") from error
    named = detect(values[0]) if format_name == "auto" else format_name
    return Source(named, values, None, _hash_of_values(values))


def detect(value: object) -> StreamFormat:
    """Return the format of a JSON document or of a stream's first event. Raises `InvalidInput` if it is unknown."""
    found = _detected(value)
    if found is None:
        raise InvalidInput("data", "is in no format that is known", _REMEDY)
    return found


def _of_text(text: str, format_name: StreamFormat) -> Source:
    if not text.strip():
        if format_name != "claude-code":
            raise InvalidInput("data", "is empty", "hand in what the agent printed")
        return Source(format_name, [], text, hashlib.sha256(b"").hexdigest())
    try:
        values: list[Any] = [decode(text)]
        counted: Counter[str] = Counter()
    except NotJson as error:
        problem = str(error)
        named = _detected_in_lines(text) if format_name == "auto" else format_name
        if named == "claude-code":
            return Source(named, [], text, hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest())
        values, counted = decode_lines(text)
        if not values or named is None:
            raise InvalidInput("data", f"is no JSON: {problem}", _REMEDY) from error
        return Source(named, values, text, _hash_of_values(values), counted)
    named = detect(values[0]) if format_name == "auto" else format_name
    if named == "record":
        values = [_decode_strictly(text)]
    return Source(named, values, text, _hash_of_values(values))


def _decode_strictly(text: str) -> Any:
    try:
        return decode(text, finite=True)
    except NotJson as error:
        raise InvalidInput("data", f"is no JSON: {error}", "write no NaN and no infinity") from error


def _detected_in_lines(text: str) -> StreamFormat | None:
    for line in islice(lines(text), _LINES_LOOKED_AT):
        try:
            found = _detected(decode(line))
        except NotJson:
            continue
        if found is not None:
            return found
    return None


def _detected(value: object) -> StreamFormat | None:
    if isinstance(value, list):
        return next((found for item in value[:_LINES_LOOKED_AT] if (found := _detected(item))), None)
    fields = mapping(value)
    if "mini_version" in mapping(fields.get("info")) or str(fields.get("trajectory_format")).startswith("mini"):
        return "mini-swe-agent"
    if isinstance(fields.get("trajectory"), list) or isinstance(fields.get("history"), list):
        return "swe-agent"
    if isinstance(fields.get("steps"), list):
        return "trace"
    if str(fields.get("type")) in claude_code.TYPES | {claude_code.OVERFLOW}:
        return "claude-code"
    if str(fields.get("type")).startswith(codex.EVENTS):
        return "codex"
    if any(isinstance(fields.get(name), str) for name in ("kind", "action", "observation")):
        return "openhands"
    if fields.get("role") in ("system", "user", "assistant", "tool") and "content" in fields:
        return "swe-agent"
    return "record" if "outcome" in fields else None


def events_of(source: Source) -> list[Mapping[str, Any]]:
    """Return the JSON objects of a source, whether they came as lines or as a list."""
    found: list[Mapping[str, Any]] = []
    for value in source.values:
        found.extend([value] if isinstance(value, dict) else objects(value))
    return found


def source_id(sha256: str, context: IterationContext, *, apart: str = "") -> str:
    """Return the iteration's id, stable when it is handed in again: from its output and its caller's names for it.

    `apart` separates iterations with empty outputs, as of agents that were killed before their first word.
    """
    parts = (sha256, context.iteration_number, context.task_id, context.session_id, apart)
    return hashlib.sha256("\0".join("" if part is None else str(part) for part in parts).encode()).hexdigest()


def _hash_of_values(values: Sequence[Any]) -> str:
    """Return the hash of JSON values, the same for a document that came as text or as JSON.

    Raises `InvalidInput` if the values hold something that is not JSON.
    """
    try:
        return hashlib.sha256(json.dumps(values, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput("data", f"is no JSON: {error}", "hand in JSON values alone") from error
