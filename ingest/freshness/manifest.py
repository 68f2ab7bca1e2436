"""Manifests of normalised pages (`manifest.jsonl`): a line per document, with its address and its checksum.

Manifests written here are sorted; one in another order is sorted as it is read, by SQLite in a temporary
file. So two manifests of any length are compared line by line, and memory holds a few megabytes of each. A manifest
of another program needs only `url` and `checksum`; unknown fields are ignored.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError
from pydantic_core import from_json

from sluice.contracts.base import LaterText, Moment, Value, is_none
from sluice.contracts.document import document_id_for
from sluice.contracts.errors import InvalidInput, NotFound, first_problem
from sluice.disk.durable import replacing


class ManifestEntry(Value):
    """An entry of a manifest. `url` is the document's address; for a file its path, else its id."""

    url: Annotated[str, Field(min_length=1)]
    checksum: Annotated[str, Field(min_length=1)]
    """Checksum of the normalised content: equal checksums mean nothing to embed again."""
    document_id: LaterText = None
    """Without one the entry is about the page at `url` itself."""
    fetched_at: Annotated[Moment | None, Field(exclude_if=is_none)] = None
    """Time when it was last read, or found unchanged."""
    source: LaterText = None
    """Origin of the document: crawl, search, submission or file."""

    @property
    def key(self) -> tuple[str, str]:
        """The key by which manifests are sorted and entries matched."""
        return self.url, self.document_id or document_id_for(self.url)


_KNOWN = frozenset(ManifestEntry.model_fields)


def read_manifest(path: Path) -> Iterator[ManifestEntry]:
    """Yield the entries of a manifest, sorted by their keys.

    Raises NotFound if there is no such file, and InvalidInput, naming file and line, if a line is not an entry or two
    lines are about one document.
    """
    last_key, last_number = None, 0
    for number, entry in _sorted(_lines(path)):
        if last_key == entry.key:
            problem = f"{entry.url!r} stands in line {last_number} already"
            raise InvalidInput(f"{path}:{number}", problem, "one line per document")
        last_key, last_number = entry.key, number
        yield entry


def write_manifest(entries: Iterable[ManifestEntry], path: Path) -> int:
    """Write the entries to `path`, sorted, atomically; return their count."""
    count = 0
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with replacing(path) as file:
        for _, entry in _sorted(enumerate(entries, 1)):
            file.write(f"{entry.model_dump_json()}\n".encode())
            count += 1
    return count


def _sorted(lines: Iterable[tuple[int, ManifestEntry]]) -> Iterator[tuple[int, ManifestEntry]]:
    """Yield entries with their line numbers, sorted by key and then by number."""
    with closing(sqlite3.connect("")) as table:  # in a temporary file of its own, once it is large
        table.execute("CREATE TABLE lines (url TEXT, document TEXT, number INTEGER, entry TEXT)")
        rows = ((*entry.key, number, entry.model_dump_json()) for number, entry in lines)
        table.executemany("INSERT INTO lines VALUES (?, ?, ?, ?)", rows)
        for number, entry in table.execute("SELECT number, entry FROM lines ORDER BY url, document, number"):
            yield number, ManifestEntry.model_validate_json(entry)


def _lines(path: Path) -> Iterator[tuple[int, ManifestEntry]]:
    try:
        file = path.open("rb")
    except FileNotFoundError as error:
        raise NotFound(f"there is no manifest {path}") from error
    with file:
        for number, raw in enumerate(file, 1):
            if raw.strip():
                yield number, _entry(raw, f"{path}:{number}")


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
