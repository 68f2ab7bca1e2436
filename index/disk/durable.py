"""Durable writes: fsync of files and folders, atomic replacement, hashes of files."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

_FEW = 16
"""Up to this many files are flushed one by one, which takes less time than starting threads."""


_SHORT = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC, errno.EDQUOT})


def is_shortage(error: BaseException) -> bool:
    """Whether the machine was out of memory, file handles or disk: the file itself may be fine."""
    return isinstance(error, OSError) and error.errno in _SHORT


def sha256_file(path: Path) -> str:
    """Hex SHA-256 of the file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fsync_path(path: Path) -> None:
    """Flush one file or folder to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def fsync_together(paths: Iterable[Path]) -> None:
    """Flush several files concurrently: the file system combines their flushes into few journal commits."""
    paths = list(paths)
    if len(paths) <= _FEW:
        for path in paths:
            fsync_path(path)
        return
    with ThreadPoolExecutor(max_workers=8, thread_name_prefix="fsync") as pool:
        for _ in pool.map(fsync_path, paths):
            pass


def replace_file(path: Path, content: bytes) -> None:
    """Put `content` at `path` atomically and durably: temporary file, fsync, rename, fsync of the folder."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    fsync_path(path.parent)


def replace_pointer(pointer: Path, target: str) -> None:
    """Make the symbolic link `pointer` point to `target`, atomically and durably."""
    temporary = pointer.with_name(f".{pointer.name}.{os.getpid()}.tmp")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(target)
    temporary.replace(pointer)
    fsync_path(pointer.parent)


def link_or_copy(source: Path, target: Path) -> None:
    """Hard-link an immutable file; copy it, and flush the copy, where the file system cannot link."""
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in (errno.EXDEV, errno.EPERM, errno.ENOTSUP, errno.EMLINK):
            raise
        shutil.copyfile(source, target)
        fsync_path(target)
