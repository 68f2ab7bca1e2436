"""Recorded streams with damage done to them: each gives a record that can be kept, or an error that names a field."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from sluice.contracts.errors import InvalidInput
from sluice.contracts.memory.names import relative_path
from sluice.memory.extraction.result import ExtractionResult
from sluice.memory.journal.entry import JournalEntry
from tests.support.memory.agent_streams import STREAMS, extracted

FILES = sorted(str(path.relative_to(STREAMS)) for path in STREAMS.rglob("*") if path.is_file())
HOSTILE: list[Any] = [
    None,
    True,
    -1,
    1e308,
    float("nan"),
    10**400,
    "",
    "\ud800",
    "x" * 5_000,
    "../../../etc/passwd",
    "C:\\Windows\\win.ini",
    "~/.ssh/id_rsa",
    "\x00\x1b[31m\r\n\u2028",
    [],
    {},
    [[[[]]]],
    {"type": "text"},
    ["x", 1, None],
]


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place of a JSON value: the container and the key or index in it."""
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        yield value, key
        if isinstance(inner, (dict, list)):
            yield from places(inner)


def check(data: Any) -> None:
    """What is extracted can be kept, or the error names a field of the data."""
    try:
        result: ExtractionResult | InvalidInput = extracted(data)
    except InvalidInput as error:
        result = error
    if isinstance(result, ExtractionResult):
        record = result.to_record(1, False)
        JournalEntry.new(record).to_json_line().encode("ascii")
        paths = [one.path for one in record.files_touched] + [one.file_path for one in record.errors if one.file_path]
        assert all(relative_path(path) == path for path in paths)
    else:
        assert result.field.startswith("data")


def values_of(name: str) -> Any:
    text = (STREAMS / name).read_text(encoding="utf-8")
    try:
        return json.loads(text)
    except ValueError:
        return [value for line in text.split("\n") if (value := value_of(line)) is not None]


def value_of(line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


@pytest.mark.parametrize("name", FILES)
def test_a_stream_that_is_cut_anywhere(name: str) -> None:
    data = (STREAMS / name).read_bytes()
    for cut in random.Random(name).sample(range(len(data)), 25):
        check(data[:cut])


@pytest.mark.parametrize("name", FILES)
def test_a_stream_with_values_of_wrong_types_anywhere(name: str) -> None:
    dice = random.Random(name)
    document = json.dumps(values_of(name))
    for _ in range(40):
        damaged = json.loads(document)
        for container, key in dice.sample(list(places(damaged)), 3):
            container[key] = dice.choice(HOSTILE)
        check(damaged)
