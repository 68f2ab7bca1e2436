"""Swap two folders in one atomic step: at each moment both names exist."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import tempfile
from pathlib import Path

from sluice.contracts.errors import InvalidInput
from sluice.disk.durable import fsync_path

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_CANNOT = frozenset({errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EXDEV})


def swap(first: Path, second: Path) -> None:
    """Give each of the two folders the other's name, atomically and durably (renameat2(2), RENAME_EXCHANGE).

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
