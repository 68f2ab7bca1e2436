"""Files of JSON objects, one a line: reading, with every error naming the line, and appending."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from sluice.contracts.errors import InvalidInput

MAX_LINE_BYTES = 10_000_000
"""Largest line, in bytes: the limit of one document everywhere in Sluice."""


def read_objects(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each line's place (`file:line`, for error messages) and its object; blank lines are passed over.

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


def append_lines(path: Path, lines: Iterable[dict[str, object]]) -> int:
    """Append lines of JSON to a file and flush it to the disk. Returns the number of lines.

    A last line that a crash left without a line feed is closed first, so that no line is joined to it.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    count = 0
    with path.open("a+b") as file:
        if file.tell():
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                file.write(b"\n")
        for line in lines:
            count += 1
            file.write((json.dumps(line, ensure_ascii=False) + "\n").encode("utf-8", "surrogatepass"))
        file.flush()
        os.fsync(file.fileno())
    return count


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
