"""Durable writes of files that are published by a pointer."""

from __future__ import annotations

import os
from pathlib import Path


def fsync_path(path: Path) -> None:
    """Flush a file or a folder to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_durably(path: Path, content: bytes) -> None:
    """Write a file and flush it to the disk."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def swap_pointer(pointer: Path, target: str) -> None:
    """Make the symbolic link `pointer` lead to `target`, atomically and durably."""
    temporary = pointer.with_name(f".{pointer.name}.{os.getpid()}.tmp")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(target)
    temporary.replace(pointer)
    fsync_path(pointer.parent)
