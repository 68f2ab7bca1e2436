"""What of an iteration finds room in its record: texts are cut, lists are ended, and both are counted."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import TypeVar

from pydantic import BaseModel

from sluice.contracts.memory.model import MAX_ENTRIES

MAX_LIST_BYTES = 192 * 1024
"""Errors, decisions and files may take so much of a journal's line each, as ASCII, which is at most 1 MiB long."""

Entry = TypeVar("Entry", bound=BaseModel)


def cut_text(text: str, max_characters: int, not_kept: Counter[str]) -> str:
    """At most `max_characters` of a text; counted as `text_cut` where it was longer."""
    if len(text) <= max_characters:
        return text
    not_kept["text_cut"] += 1
    return text[: max_characters - 1].rstrip() + "…"


def fit(entries: Iterable[Entry], name: str, not_kept: Counter[str]) -> tuple[Entry, ...]:
    """The first entries that find room; the others are counted as `{name}_over_limit`."""
    kept: list[Entry] = []
    room = MAX_LIST_BYTES
    for entry in entries:
        room -= len(json.dumps(entry.model_dump(mode="json")))
        if len(kept) >= MAX_ENTRIES or room < 0:
            not_kept[f"{name}_over_limit"] += 1
        else:
            kept.append(entry)
    return tuple(kept)
