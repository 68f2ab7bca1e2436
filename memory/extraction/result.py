"""The result of an extraction: an iteration's record, and the outcome of each tool call."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import Any, TypeVar

from pydantic import BaseModel, Field

from sluice.contracts.memory.api import StreamFormat
from sluice.contracts.memory.model import MAX_ENTRIES, IterationRecord


class ExtractionResult(IterationRecord):
    """An iteration's record, as extracted from an agent's output.

    `is_numbered`: the context or a plain record names the iteration's number; else it is 1, as a placeholder.
    `tool_calls` counts every call of the output by its status (`memory.extraction.agent_run.CallStatus`), including
    those of sub-agents. `unknown` holds events and blocks of unknown types as they came, while there was room.
    """

    format: StreamFormat
    is_numbered: bool = False
    tool_calls: dict[str, int] = Field(default_factory=dict)
    sub_agent_calls: int = 0
    unknown: tuple[Any, ...] = ()

    def to_record(self, iteration_number: int, stagnating: bool) -> IterationRecord:
        """Return the record under its iteration's number. Raises `pydantic.ValidationError` if that is below 1."""
        told: dict[str, Any] = {name: getattr(self, name) for name in IterationRecord.model_fields}
        told["not_kept"] = dict(sorted(self.not_kept.items()))
        return IterationRecord(**told | {"iteration_number": iteration_number, "stagnating": stagnating})


MAX_LIST_BYTES = 192 * 1024
"""Most bytes, as ASCII, that errors, decisions and files may each take of a journal's line of at most 1 MiB."""

Entry = TypeVar("Entry", bound=BaseModel)


def cut_text(text: str, max_characters: int, not_kept: Counter[str]) -> str:
    """Return at most `max_characters` of a text; count a longer one as `text_cut`."""
    if len(text) <= max_characters:
        return text
    not_kept["text_cut"] += 1
    return text[: max_characters - 1].rstrip() + "…"


def fit(entries: Iterable[Entry], name: str, not_kept: Counter[str]) -> tuple[Entry, ...]:
    """Return the first entries that fit; count the others as `{name}_over_limit`."""
    kept: list[Entry] = []
    room = MAX_LIST_BYTES
    for entry in entries:
        room -= len(json.dumps(entry.model_dump(mode="json")))
        if len(kept) >= MAX_ENTRIES or room < 0:
            not_kept[f"{name}_over_limit"] += 1
        else:
            kept.append(entry)
    return tuple(kept)
