"""Identifiers that sort by the time they were made."""

from __future__ import annotations

import secrets
import time
from datetime import UTC, datetime


def new_run_id() -> str:
    """A fresh run id, which is also the correlation id of everything the run causes."""
    return _sortable("run")


def new_event_id() -> str:
    """A fresh event id."""
    return _sortable("evt")


def made_at(identifier: str) -> datetime:
    """When an id was made, to the millisecond.

    Raises:
        ValueError: it is none of ours.
    """
    milliseconds = int(identifier.split("_", 1)[1][:12], 16)
    return datetime.fromtimestamp(milliseconds / 1_000, UTC)


def _sortable(prefix: str) -> str:
    return f"{prefix}_{time.time_ns() // 1_000_000:012x}{secrets.token_hex(8)}"
