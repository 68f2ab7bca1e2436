"""Reads a file of JSON objects, one a line; every error names the line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sluice.contracts.errors import InvalidInput

MAX_LINE_BYTES = 10_000_000
"""As much as one document may have anywhere else in Sluice."""


def read_objects(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each line's place (`file:line`, for error messages) and its object; blank lines are passed over.

    Raises:
        InvalidInput: the file cannot be read, or a line is too long, not UTF-8, not JSON or not an object.
    """
    try:
        with path.open("rb") as file:
            number = 0
            while line := file.readline(MAX_LINE_BYTES + 1):
                number += 1
                if line.strip():
                    where = f"{path}:{number}"
                    yield where, _object(line, where)
    except OSError as error:
        raise InvalidInput(str(path), f"cannot be read: {error.strerror or error}") from error


def _object(line: bytes, where: str) -> dict[str, Any]:
    if len(line) > MAX_LINE_BYTES:
        raise InvalidInput(where, f"longer than {MAX_LINE_BYTES:,} bytes")
    try:
        found = json.loads(line)
        json.dumps(found, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise InvalidInput(where, "not JSON, or not UTF-8", "one object per line") from error
    if not isinstance(found, dict):
        raise InvalidInput(where, f"a JSON {type(found).__name__}, not an object", "one object per line")
    return found
