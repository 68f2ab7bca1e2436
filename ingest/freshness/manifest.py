"""Manifests of normalised pages (`manifest.jsonl`): a line per document, with its address and its checksum.

A manifest that was written here is sorted, and one in another order is sorted as it is read, by runs in temporary
files. So two manifests of any length are compared line by line, and memory holds `RUN_ENTRIES` entries of each. `url`
and `checksum` are all that a manifest of another program needs to have; fields that are not known here are left out.
"""

from __future__ import annotations

import heapq
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Annotated, Any, NamedTuple

from pydantic import Field, ValidationError
from pydantic_core import from_json

from sluice.contracts.base import LaterText, Moment, Value, is_none
from sluice.contracts.document import document_id_for
from sluice.contracts.errors import InvalidInput, NotFound, first_problem
from sluice.disk.durable import replacing

RUN_ENTRIES = 50_000
"""Entries that are sorted in memory at a time: some 40 MB."""


class ManifestEntry(Value):
    """A document as a manifest has it. `url` is its address; of a file its path, else its id."""

    url: Annotated[str, Field(min_length=1)]
    checksum: Annotated[str, Field(min_length=1)]
    """Of the normalised content: equal checksums mean nothing to embed again."""
    document_id: LaterText = None
    """Without one the entry is about the page at `url` itself."""
    fetched_at: Annotated[Moment | None, Field(exclude_if=is_none)] = None
    """When it was read last, or seen to be as it was."""
    source: LaterText = None
    """How the document got here: crawl, search, submission or file."""

    @property
    def key(self) -> tuple[str, str]:
        """What a manifest is sorted by, and what an entry is known by in another one."""
        return self.url, self.document_id or document_id_for(self.url)


class Line(NamedTuple):
    """An entry with the number of its line. Lines are in the order of keys, then of numbers."""

    key: tuple[str, str]
    number: int
    entry: ManifestEntry


_KNOWN = frozenset(ManifestEntry.model_fields)


def read_manifest(path: Path, run_entries: int = RUN_ENTRIES) -> Iterator[ManifestEntry]:
    """The entries of a manifest, sorted by their keys.

    Raises:
        NotFound: there is no such file.
        InvalidInput: a line is no entry, or two lines are about one document; names the file and the line.
    """
    last: Line | None = None
    for line in sorted_lines(_lines(path), run_entries):
        if last is not None and last.key == line.key:
            problem = f"{line.entry.url!r} stands in line {last.number} already"
            raise InvalidInput(f"{path}:{line.number}", problem, "one line per document")
        last = line
        yield line.entry


def write_manifest(entries: Iterable[ManifestEntry], path: Path, run_entries: int = RUN_ENTRIES) -> int:
    """Write the entries to `path`, sorted, whole or not at all; how many there are."""
    count = 0
    numbered = (Line(entry.key, number, entry) for number, entry in enumerate(entries, 1))
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with replacing(path) as file:
        for line in sorted_lines(numbered, run_entries):
            file.write(f"{line.entry.model_dump_json()}\n".encode())
            count += 1
    return count


def sorted_lines(lines: Iterable[Line], run_entries: int = RUN_ENTRIES) -> Iterator[Line]:
    """The lines in their order: sorted in memory where there are few, else merged from sorted runs in files."""
    with ExitStack() as opened:
        runs: list[IO[str]] = []
        held: list[Line] = []
        for line in lines:
            held.append(line)
            if len(held) >= run_entries:
                runs.append(_spilled(held, opened))
                held = []
        held.sort(key=_order)
        yield from heapq.merge(*map(_of_run, runs), held, key=_order)


def _order(line: Line) -> tuple[tuple[str, str], int]:
    return line.key, line.number


def _lines(path: Path) -> Iterator[Line]:
    try:
        file = path.open("rb")
    except FileNotFoundError as error:
        raise NotFound(f"there is no manifest {path}") from error
    with file:
        for number, raw in enumerate(file, 1):
            if raw.strip():
                entry = _entry(raw, f"{path}:{number}")
                yield Line(entry.key, number, entry)


def _entry(raw: bytes, where: str) -> ManifestEntry:
    try:
        told: Any = from_json(raw)
    except ValueError as error:
        raise InvalidInput(where, "is no JSON", "a JSON object per line") from error
    if not isinstance(told, dict):
        raise InvalidInput(where, f"is a JSON {type(told).__name__}", "an object with url and checksum")
    try:
        return ManifestEntry.model_validate({name: value for name, value in told.items() if name in _KNOWN})
    except ValidationError as error:
        field, problem = first_problem(error)
        raise InvalidInput(where, f"{field}: {problem}", "an object with url and checksum") from error


def _spilled(held: list[Line], opened: ExitStack) -> IO[str]:
    file = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 - closed by `opened`
    opened.callback(file.close)
    for line in sorted(held, key=_order):
        file.write(f"{line.number} {line.entry.model_dump_json()}\n")
    file.seek(0)
    return file


def _of_run(file: IO[str]) -> Iterator[Line]:
    for text in file:
        number, _, told = text.partition(" ")
        entry = ManifestEntry.model_validate_json(told)
        yield Line(entry.key, int(number), entry)
