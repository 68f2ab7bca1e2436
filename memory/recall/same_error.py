"""Which errors are the same error, met again: of one type, in one file, with one message but for numbers and quotes."""

from __future__ import annotations

import re
from collections.abc import Hashable

from contracts.memory.model import ErrorEntry

_VARYING = re.compile(r"0x[0-9a-f]+|\d+(?:\.\d+)?|[\"'`‘’“”]|\s+", re.IGNORECASE)
"""Line numbers, times and addresses change from run to run, where the error is the same."""


def error_key(error: ErrorEntry) -> Hashable:
    """Equal for the same error in two iterations."""
    return error.error_type, error.file_path, _VARYING.sub(" ", error.message).strip().lower()
