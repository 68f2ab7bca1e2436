"""Identifiers that sort by creation time."""

from __future__ import annotations

import secrets
import time
from datetime import UTC, datetime


def new_run_id() -> str:
    """Return a new run id, which is also the correlation id of everything the run causes."""
    return _sortable("run")


def new_event_id() -> str:
    """Return a new event id."""
    return _sortable("evt")


def made_at(identifier: str) -> datetime:
    """Return the creation time of an id, to the millisecond. Raises `ValueError` if the id has another form."""
    milliseconds = int(identifier.split("_", 1)[1][:12], 16)
    return datetime.fromtimestamp(milliseconds / 1_000, UTC)


def _sortable(prefix: str) -> str:
    return f"{prefix}_{time.time_ns() // 1_000_000:012x}{secrets.token_hex(8)}"
