"""Durable writes: fsync of files and folders, atomic replacement and exchange, hashes and locks of files."""

from __future__ import annotations

import ctypes
import errno
import hashlib
import json
import os
import shutil
import tempfile
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from filelock import FileLock, Timeout

from sluice.contracts.errors import InvalidInput

StrPath = str | os.PathLike[str]
"""A path or its text. A generation has dozens of files, and joining text takes a tenth of the time of `Path`s."""

FLUSHING_THREADS = 4
"""Twelve small files take 5 to 60 ms one after the other (ext4, idle and busy disk), 2 to 9 in four threads, and no
less in eight: the file system commits waiting files together."""
_BLOCK_BYTES = 1 << 18
"""Bytes read and hashed at a time."""


_SHORT = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC, errno.EDQUOT})


def is_shortage(error: BaseException) -> bool:
    """Return whether the machine was out of memory, file handles or disk: the file itself may be fine."""
    return isinstance(error, OSError) and error.errno in _SHORT


def sha256_file(path: StrPath) -> str:
    """Return the hex SHA-256 of the file's bytes."""
    digest = hashlib.sha256()
    with open(path, "rb", buffering=0) as file:
        while block := file.read(_BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()


def fsync_path(path: StrPath) -> None:
    """Flush one file or folder to the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def fsync_together(paths: Iterable[StrPath]) -> None:
    """Flush several files and folders concurrently."""
    with ThreadPoolExecutor(FLUSHING_THREADS, thread_name_prefix="fsync") as threads, fsync_meanwhile(paths, threads):
        pass


@contextmanager
def fsync_meanwhile(paths: Iterable[StrPath], threads: Executor) -> Iterator[None]:
    """Flush files and folders in `threads` while the block runs; all are on the disk when it is left without an error.

    Raises `OSError` at the end of the block when one of them cannot be flushed.
    """
    flushes = [threads.submit(fsync_path, path) for path in paths]
    try:
        yield
    finally:
        wait(flushes)
    for flush in flushes:
        flush.result()


def make_folder(folder: Path, mode: int = 0o777) -> None:
    """Make a folder and its missing parents, and flush each folder in which one was made."""
    if folder.is_dir():
        return
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    folder.mkdir(parents=True, exist_ok=True, mode=mode)
    for one in missing:
        fsync_path(one.parent)


def write_durably(path: StrPath, content: bytes) -> None:
    """Write a file in place and flush it. For files in a folder that nobody reads yet; others need `replace_file`."""
    with open(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def replace_file(path: Path, content: bytes, mode: int = 0o666) -> None:
    """Put `content` at `path` atomically and durably. `mode` is that of `replacing`."""
    with replacing(path, mode) as file:
        file.write(content)


@contextmanager
def replacing(path: Path, mode: int = 0o666) -> Iterator[BinaryIO]:
    """Yield a file that takes the place of `path`, atomically and durably, when the block ends without an error.

    Its permissions are `mode` without the bits of the umask. After an error `path` is as it was and nothing is left
    behind; a process that is killed leaves a hidden file `.NAME.….tmp`. Any number of threads and processes may
    replace the same path at once: one of them wins, whole.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident():x}.tmp")
    try:
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode), "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    fsync_path(path.parent)


def replace_pointer(pointer: Path, target: str) -> None:
    """Make the symbolic link `pointer` point to `target`, atomically and durably.

    A folder in its place, as a copy that follows links makes, is a copy of what the link named: it is removed.
    """
    temporary = pointer.with_name(f".{pointer.name}.{os.getpid()}.tmp")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(target)
    try:
        temporary.replace(pointer)
    except IsADirectoryError:
        shutil.rmtree(pointer)
        temporary.replace(pointer)
    fsync_path(pointer.parent)


def link_or_copy(source: StrPath, target: StrPath) -> None:
    """Hard-link an immutable file; copy it, and flush the copy, where the file system cannot link."""
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in (errno.EXDEV, errno.EPERM, errno.ENOTSUP, errno.EMLINK):
            raise
        shutil.copyfile(source, target)
        fsync_path(target)


_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_CANNOT = frozenset({errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EXDEV})


def swap(first: Path, second: Path) -> None:
    """Exchange the names of two folders, atomically and durably (renameat2(2), RENAME_EXCHANGE).

    Raises `InvalidInput` where the system or the file system cannot swap, and `OSError` when it refuses; then nothing
    has changed.
    """
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        raise _cannot(first.parent)
    if rename(_AT_FDCWD, os.fsencode(first), _AT_FDCWD, os.fsencode(second), _RENAME_EXCHANGE) != 0:
        number = ctypes.get_errno()
        if number in _CANNOT:
            raise _cannot(first.parent)
        raise OSError(number, os.strerror(number), str(first))
    for folder in {first.parent, second.parent}:
        fsync_path(folder)


def require_swap(folder: Path) -> None:
    """Raise `InvalidInput` unless folders within `folder` can be swapped. Tries it on two empty ones."""
    trial = Path(tempfile.mkdtemp(prefix=".exchange-", dir=folder))
    try:
        for name in ("one", "two"):
            (trial / name).mkdir()
        swap(trial / "one", trial / "two")
    finally:
        shutil.rmtree(trial)


def _cannot(folder: Path) -> InvalidInput:
    problem = f"the file system of {folder} cannot swap two folders in one step"
    return InvalidInput("data_dir", problem, "keep it on ext4, xfs, btrfs or tmpfs of this machine, on Linux")


POLL_SECONDS = 0.05
"""Seconds between attempts on a lock that another process holds."""


@contextmanager
def lock_file(
    path: Path, refusal: Exception, *, timeout_seconds: float = 0.0, poll_seconds: float = POLL_SECONDS
) -> Iterator[None]:
    """Hold the lock of the file `path` for the block. The file stays behind; its folder must exist.

    The file is opened anew for each block, so a forked process holds no lock of its parent's. The lock does not hold
    over NFS.

    Raises:
        refusal: another process held it for all of `timeout_seconds`.
        OSError: the file cannot be opened, or its file system knows no `flock`.
    """
    lock = FileLock(
        path, timeout=timeout_seconds, thread_local=False, poll_interval=poll_seconds, fallback_to_soft=False
    )
    try:
        lock.acquire()
    except Timeout as error:
        raise refusal from error
    try:
        yield
    finally:
        lock.release()


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
