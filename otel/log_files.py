"""The log files of an instance: one for each process, of JSON lines, rotated by the process that writes.

`NAME.log` is written, `NAME.log.1` is the one before. A process's two outputs *are* the file, so that a traceback of
the interpreter or a library's last words stand in it too; children of a process share it. Who finds it too large moves
it away, the others notice within a second and follow. A process that died leaves its file to the next of its name.
"""

from __future__ import annotations

import fcntl
import heapq
import json
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

VARIABLE = "SLUICE_LOG_FILE"
"""The variable by which a supervisor tells a process the file that its outputs are."""
FOLDER = "logs"
MOST_BYTES, MOST_FILES = 10_000_000, 10
_LOOK_SECONDS = 1.0
_MOST_AT_ONCE = 1 << 18


class OwnFile:
    """This process's log file as a stream for a logging handler: its outputs, or a file beside them."""

    def __init__(self, path: Path, *, is_output: bool = True) -> None:
        self._path, self._look_at = path, 0.0
        self._descriptors = (1, 2) if is_output else (opened(path),)

    def write(self, text: str) -> None:
        """Append a whole line."""
        if time.monotonic() >= self._look_at:
            self._look_at = time.monotonic() + _LOOK_SECONDS
            with suppress(OSError):
                self._look()
        os.write(self._descriptors[-1], text.encode("utf-8", "backslashreplace"))

    def flush(self) -> None:
        """Do nothing: nothing is kept back."""

    def _look(self) -> None:
        if os.fstat(self._descriptors[-1]).st_size >= MOST_BYTES:
            rotate(self._path)
        if not self._path.exists() or not os.path.samestat(os.fstat(self._descriptors[-1]), self._path.stat()):
            descriptor = opened(self._path)
            for own in self._descriptors:
                os.dup2(descriptor, own, inheritable=own in (1, 2))
            os.close(descriptor)


def opened(path: Path) -> int:
    """Open a log file for appending, readable by its owner alone; return the descriptor."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)


def rotate(path: Path) -> None:
    """Move the file away if it is too large and nobody else is doing so; the oldest one goes."""
    if not path.exists() or path.stat().st_size < MOST_BYTES:
        return
    lock = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists() or path.stat().st_size < MOST_BYTES:
            return
        for number in range(MOST_FILES - 2, 0, -1):
            with suppress(FileNotFoundError):
                _numbered(path, number).replace(_numbered(path, number + 1))
        path.replace(_numbered(path, 1))
    finally:
        os.close(lock)


def _numbered(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}") if number else path


class Line(NamedTuple):
    """A line of a file, as bytes, with its time as it is written there, and the name of the process."""

    at: str
    process: str
    text: bytes


def read(folder: Path, since: datetime | None = None, containing: bytes = b"") -> Iterator[Line]:
    """Yield the lines of all files that were written since then and contain this, in order of time.

    A line that is no JSON, such as of a traceback, has the time of the one before it.
    """
    paths = [path for path in folder.glob("*.log*") if path.suffix != ".lock"]
    names = {path.name.partition(".log")[0] for path in paths}
    each = (_of_process(folder / f"{name}.log", since, containing) for name in sorted(names))
    yield from heapq.merge(*each, key=itemgetter(0))


def _of_process(path: Path, since: datetime | None, containing: bytes) -> Iterator[Line]:
    at, first = "", f"{since.astimezone(UTC):%Y-%m-%dT%H:%M:%S}" if since else ""
    for number in range(MOST_FILES, -1, -1):
        one = _numbered(path, number)
        with suppress(FileNotFoundError):
            if since and one.stat().st_mtime < since.timestamp():
                continue
            with one.open("rb") as file:
                for line in file:
                    at = timestamp_of(line) or at
                    if containing in line and at >= first:
                        yield Line(at, path.stem, line.rstrip(b"\n"))


def timestamp_of(line: bytes) -> str:
    """Return the time of a line as it is written there; empty where it has none."""
    _, found, rest = line.partition(b'"timestamp": "')
    return rest[: rest.find(b'"')].decode("ascii", "replace") if found else ""


def parsed(line: bytes) -> dict[str, Any] | None:
    """Return a line's facts; None if it is no JSON object."""
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


class Tail:
    """Reads what is appended to the files of a folder, from now on or from their beginning."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[Path, tuple[int, int]] = {}
        """Inode and position, by path."""

    def skip(self) -> None:
        """Leave out what stands there now."""
        for path in self._folder.glob("*.log"):
            with suppress(FileNotFoundError):
                found = path.stat()
                self._files[path] = (found.st_ino, found.st_size)

    def lines(self) -> Iterator[Line]:
        """Yield the whole lines that came since the last look, at most a quarter of a megabyte of a file."""
        for path in sorted(self._folder.glob("*.log")):
            with suppress(FileNotFoundError):
                found, (inode, position) = path.stat(), self._files.get(path, (0, 0))
                if inode and inode != found.st_ino:
                    yield from self._read(path, 1, inode, position)
                    position = 0
                if found.st_size > position or inode != found.st_ino:
                    yield from self._read(path, 0, found.st_ino, position)

    def _read(self, path: Path, number: int, inode: int, position: int) -> Iterator[Line]:
        with suppress(FileNotFoundError), _numbered(path, number).open("rb") as file:
            if os.fstat(file.fileno()).st_ino != inode:
                return
            file.seek(position)
            some = file.read(_MOST_AT_ONCE)
            whole = some.rfind(b"\n") + 1 or (len(some) if len(some) == _MOST_AT_ONCE else 0)
            self._files[path] = (inode, position + whole)
            yield from (Line(timestamp_of(line), path.stem, line) for line in some[:whole].splitlines())
