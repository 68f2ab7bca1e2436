"""Reads a journal: whole lines only, lines written together only together, and no entry twice.

Reading needs no lock. A writer may be busy at the end of the file, so an unfinished end is left for later. Damage
before it is reported with its line and offset, and the lines after it are read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from sluice.contracts.errors import Corrupted, InvalidInput
from sluice.memory.journal.entry import MAX_LINE_BYTES, JournalEntry
from sluice.memory.journal.write import journal_path, open_regular, refusals

_BLOCK_BYTES = 1 << 22
"""Bytes read at a time."""


@dataclass(frozen=True, slots=True)
class Damage:
    """A problem in a journal: its line, counted from 1, where the line begins in bytes, and the problem."""

    line: int
    offset: int
    problem: str

    def __str__(self) -> str:
        return f"line {self.line} at byte {self.offset}: {self.problem}"


@dataclass(frozen=True, slots=True)
class ReadEntry:
    """An entry and its place in the journal."""

    entry: JournalEntry
    line: int
    offset: int


@dataclass(frozen=True, slots=True)
class JournalReading:
    """A whole journal as read, without an unfinished end."""

    entries: tuple[JournalEntry, ...]
    problems: tuple[Damage, ...]


@dataclass(slots=True)
class Position:
    """Position up to which a journal was read, and the data needed to read on from there."""

    offset: int = 0
    """In bytes. Everything before it was written completely and has been read."""
    line: int = 0
    last_line: bytes = b""
    """Line that ends at `offset`. A file with another line there is not the file that was read."""
    checksums: dict[str, bytes] = field(default_factory=dict)
    """By entry id, the end of the line that was read first, which is the hash of the whole line."""
    problems: list[Damage] = field(default_factory=list)

    def read_on(self, descriptor: int) -> list[ReadEntry]:
        """Return the new entries from here on, up to the last line that was written completely.

        Meanwhile another process may cut off a dead writer's lines and write its own in their place. Lines that mix
        both are left for the next reading.
        """
        found: list[ReadEntry] = []
        together: list[tuple[bytes, JournalEntry | Corrupted]] = []
        for line in _lines(descriptor, self.offset):
            decoded = _decode(line)
            together.append((line, decoded))
            if isinstance(decoded, JournalEntry) and decoded.continued:
                continue
            if (len(together) > 1 or isinstance(decoded, Corrupted)) and not self._stand_here(descriptor, together):
                break
            for one in together:
                found += self._pass(*one)
            together = []
        return found

    def _stand_here(self, descriptor: int, together: list[tuple[bytes, JournalEntry | Corrupted]]) -> bool:
        """Return whether the file holds exactly these lines from here on."""
        content = b"".join(line + b"\n" for line, _ in together)
        return os.pread(descriptor, len(content), self.offset) == content

    def is_still_in(self, descriptor: int) -> bool:
        """Return whether the last line read still stands in its place."""
        length = len(self.last_line)
        return length == 0 or os.pread(descriptor, length, self.offset - length) == self.last_line

    def _pass(self, line: bytes, decoded: JournalEntry | Corrupted) -> list[ReadEntry]:
        """Move past a line; return the entries that it adds."""
        offset, self.offset = self.offset, self.offset + len(line) + 1
        self.line += 1
        self.last_line = line + b"\n"
        if isinstance(decoded, Corrupted):
            self.problems.append(Damage(self.line, offset, str(decoded)))
            return []
        checksum = line.removesuffix(b"\r")[-20:]
        first = self.checksums.setdefault(decoded.id, checksum)
        if first is checksum:
            return [ReadEntry(decoded, self.line, offset)]
        if first != checksum:
            self.problems.append(Damage(self.line, offset, f"entry {decoded.id} stands before with another content"))
        return []


def read_journal(path: Path) -> JournalReading:
    """Return all entries of a journal, in order, and its problems. An absent file counts as empty.

    Raises `Unavailable` if the file cannot be read.
    """
    if not path.exists():
        return JournalReading((), ())
    position = Position()
    with opened_for_reading(path) as descriptor:
        entries = tuple(one.entry for one in position.read_on(descriptor))
    return JournalReading(entries, tuple(position.problems))


@contextmanager
def opened_for_reading(path: Path) -> Iterator[int]:
    """Yield a descriptor of a journal.

    Raises `Unavailable` if opening it, or reading it in the block, fails, or if it is no regular file.
    """
    with refusals(path, "read"):
        descriptor = open_regular(path, os.O_RDONLY)
        try:
            yield descriptor
        finally:
            os.close(descriptor)


def features_in(folder: Path) -> list[str]:
    """Return the features that have a journal in the folder, by name."""
    return sorted(path.stem for path in folder.glob("*.jsonl") if _is_journal(path))


def _is_journal(path: Path) -> bool:
    try:
        return path.is_file() and journal_path(path.parent, path.stem) == path
    except InvalidInput:
        return False


def _lines(descriptor: int, offset: int) -> Iterator[bytes]:
    """Yield the lines from `offset` on, without their line feed. Leaves out bytes after the last line feed.

    Stops at the file's present size: a torn end would be joined to lines that another process writes in its place.
    """
    rest, end = b"", os.fstat(descriptor).st_size
    while offset < end and (block := os.pread(descriptor, min(_BLOCK_BYTES, end - offset), offset)):
        offset += len(block)
        *lines, rest = (rest + block).split(b"\n")
        yield from lines


def _decode(line: bytes) -> JournalEntry | Corrupted:
    """Return a line's entry, or its problem; a carriage return that Git's `core.autocrlf` appended is passed over."""
    line = line.removesuffix(b"\r")
    if len(line) >= MAX_LINE_BYTES:
        return Corrupted(f"a line of {len(line)} bytes, and an entry has less than {MAX_LINE_BYTES}")
    try:
        return JournalEntry.from_json_line(line)
    except Corrupted as error:
        return error
