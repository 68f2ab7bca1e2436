"""Writes to a journal: its path, its lock (one writer at a time, on one machine), and the steps of the lock's holder.

A torn end is set aside; new lines reach the disk completely or not at all.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from sluice.contracts.errors import Corrupted, DiskFull, InvalidInput, Unavailable, is_disk_full
from sluice.contracts.memory.names import FEATURE_NAME, FEATURE_REMEDY
from sluice.disk import durable
from sluice.disk.durable import fsync_path, lock_file
from sluice.memory.journal.entry import JournalEntry

LOCK_TIMEOUT_SECONDS = 10.0
"""A transaction holds the lock for one flush of the disk, so some hundred writers may wait."""
_POLL_SECONDS = 0.002
"""About the time of one flush: at filelock's own 0.05, eight writers would wait for nothing most of the time."""


@contextmanager
def lock_journal(journal: Path, timeout_seconds: float = LOCK_TIMEOUT_SECONDS) -> Iterator[None]:
    """Hold the lock of a journal, which is a file beside it that stays.

    The lock file is opened for each transaction, so a forked process holds no lock of its parent. The kernel releases
    the lock when a process dies. It does not work over NFS. Raises `Unavailable` if another process holds it for all of
    `timeout_seconds`, or the file cannot be locked (a file system without `flock`).
    """
    path = journal.with_name(f"{journal.name}.lock")
    refusal = Unavailable(f"another process holds {path} for {timeout_seconds:g} s; try again later")
    with ExitStack() as held:
        with refusals(path, "locked"):
            lock = lock_file(path, refusal, timeout_seconds=timeout_seconds, poll_seconds=_POLL_SECONDS)
            held.enter_context(lock)
        yield


@contextmanager
def refusals(path: Path, what: str) -> Iterator[None]:
    """Turn an `OSError` in the block into `DiskFull` or `Unavailable`: `path` cannot be `what` (written, read)."""
    try:
        yield
    except OSError as error:
        failure = DiskFull if is_disk_full(error) else Unavailable
        raise failure(f"{path} cannot be {what}: {error}") from error


DEFAULT_FOLDER = Path(".ralph/db/memory")
"""Default folder, relative to the repository."""


def journal_path(folder: Path, feature: str) -> Path:
    """Return the path of a feature's journal. Raises `InvalidInput` if `feature` is not a valid name."""
    if not FEATURE_NAME.fullmatch(feature):
        raise InvalidInput("feature", f"{feature!r} is no name of a feature", FEATURE_REMEDY)
    return folder / f"{feature}.jsonl"


JOURNAL_MODE, FOLDER_MODE = 0o600, 0o700
"""An agent's view of a project, errors and all, belongs to its user alone."""


def open_journal(path: Path) -> int:
    """Return a descriptor for reading and appending. Makes a missing journal, and flushes its folder.

    Does not follow symbolic links: in somebody else's repository one could lead to any file. Raises `DiskFull`, or
    `Unavailable` if the journal cannot be made or opened for another reason.
    """
    flags = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW
    with refusals(path, "written"):
        try:
            return open_regular(path, flags)
        except FileNotFoundError:
            descriptor = open_regular(path, flags | os.O_CREAT)
            fsync_path(path.parent)
            return descriptor


def open_regular(path: Path, flags: int) -> int:
    """Return a descriptor of a regular file; a pipe or a device of the journal's name would keep its reader waiting.

    Raises `OSError` if it cannot be opened or is another kind of file.
    """
    descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK, JOURNAL_MODE)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file")
    return descriptor


def make_folder(folder: Path) -> None:
    """Make a folder and its missing parents, all flushed. Raises as `open_journal`."""
    with refusals(folder, "written"):
        durable.make_folder(folder, FOLDER_MODE)


def flush(path: Path, descriptor: int) -> None:
    """Flush everything written to a journal to the disk. Raises as `open_journal`."""
    with refusals(path, "written"):
        os.fdatasync(descriptor)


def check_is_still_at(path: Path, descriptor: int) -> None:
    """Raise `Unavailable` if another file has replaced the journal: that file lacks the lines just written."""
    with refusals(path, "written"):
        ours, found = os.fstat(descriptor), os.stat(path)
    if (ours.st_dev, ours.st_ino) != (found.st_dev, found.st_ino):
        raise Unavailable(f"{path} was replaced by another file meanwhile; try again")


def heal(path: Path, descriptor: int, whole_bytes: int) -> None:
    """Set aside a dead writer's unfinished lines behind the first `whole_bytes` of a journal.

    The bytes go to a file beside the journal, which nothing deletes, and are then cut off. An end that lacks only its
    line feed gets one instead. Raises as `open_journal`; then nothing was cut off that was not set aside.
    """
    with refusals(path, "written"):
        torn = _read_from(descriptor, whole_bytes)
        if not torn:
            return
        if _lacks_a_line_feed(torn):
            os.write(descriptor, b"\n")
        else:
            _set_aside(path, torn, whole_bytes)
            os.ftruncate(descriptor, whole_bytes)
        os.fdatasync(descriptor)


def lines_of(entries: Sequence[JournalEntry]) -> bytes:
    """Return the lines of entries that are written together. Raises `InvalidInput` if one is too long for a line."""
    last = len(entries) - 1
    lines = [one.model_copy(update={"continued": at < last}).to_json_line() for at, one in enumerate(entries)]
    return "".join(f"{line}\n" for line in lines).encode("ascii")


def append_lines(path: Path, descriptor: int, content: bytes) -> None:
    """Write lines in one call, and flush them; on an error, remove them again.

    Raises:
        DiskFull: there is no room.
        Unavailable: the disk refuses otherwise, or refuses the removal; then the message says so.
    """
    size_before = os.fstat(descriptor).st_size
    try:
        written = os.write(descriptor, content)
        if written < len(content):
            raise DiskFull(f"the disk took {written} of {len(content)} bytes for {path}: {DiskFull.remedy}")
        os.fdatasync(descriptor)
    except BaseException as error:  # an interruption too: unacknowledged lines must not stay
        _take_back(path, size_before, error)
        with refusals(path, "written"):
            raise


def _take_back(path: Path, size_bytes: int, why: BaseException) -> None:
    """Cut off the lines written. Uses a new descriptor: one whose flush failed once may report success later."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.ftruncate(descriptor, size_bytes)
            os.fdatasync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        told = f"{path}: {why}; what was written from byte {size_bytes} on cannot be taken back: {error}"
        raise Unavailable(told) from why


def _set_aside(path: Path, torn: bytes, offset: int) -> None:
    """Keep the bytes in a file named after their hash, so that a repetition after a crash makes no second one."""
    name = f"{path.name}.torn-{offset}-{hashlib.sha256(torn).hexdigest()[:12]}"
    descriptor = os.open(path.with_name(name), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, JOURNAL_MODE)
    try:
        if (written := os.write(descriptor, torn)) < len(torn):
            raise DiskFull(f"the disk took {written} of {len(torn)} bytes for {name}: {DiskFull.remedy}")
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    fsync_path(path.parent)


def _lacks_a_line_feed(torn: bytes) -> bool:
    try:
        return not JournalEntry.from_json_line(torn.rpartition(b"\n")[2]).continued
    except Corrupted:
        return False


def _read_from(descriptor: int, offset: int) -> bytes:
    parts = []
    while part := os.pread(descriptor, 1 << 22, offset):
        parts.append(part)
        offset += len(part)
    return b"".join(parts)
