"""What a power cut would take: bytes and names that were written and never flushed to the disk.

Follows a traced child's calls from outside. `lose` then does the worst that POSIX allows to what is under the root:
every file is cut to the size it had at its last fsync, and names whose folder was not flushed since are taken back,
but for the pointer, which a disk may well write first. Not modelled: overwriting in place, folders themselves, and
names that are moved out of the way (to a hidden name) or removed: file systems keep those in order.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.index.tracer import Call

_WRITES = {"write": 0, "pwrite64": 0, "writev": 0, "sendfile": 0, "copy_file_range": 2, "ftruncate": 0, "fallocate": 0}
_NEW_NAMES = {"open": 0, "openat": 1, "link": 1, "linkat": 3, "symlink": 1, "symlinkat": 2}
_RENAMES = {"rename": (0, 1), "renameat": (1, 3), "renameat2": (1, 3)}
"""Positions of the descriptor or the path among the arguments."""

Name = tuple[int, str]
"""A name as the disk knows it: the inode of its folder, and the last part of the path."""


@dataclass(frozen=True, slots=True)
class _Change:
    """A name that is new, and where it came from when it was renamed."""

    new: Name
    old: Name | None = None


class Unsynced:
    """Everything under `root` is on the disk at the start; `seen` is told of each call that ended well."""

    def __init__(self, root: Path, pointer: str) -> None:
        self._root = str(root)
        self._pointer = pointer
        self._safe_bytes: dict[int, int] = {}
        self._dirty: set[int] = set()
        self._changes: list[_Change] = []
        self._names: set[Name] = set()
        for folder, _, names in os.walk(root):
            inode = os.stat(folder).st_ino
            for name in names:
                status = os.lstat(os.path.join(folder, name))
                self._safe_bytes[status.st_ino] = status.st_size
                self._names.add((inode, name))

    def seen(self, call: Call) -> None:
        """Take in one call."""
        with contextlib.suppress(FileNotFoundError):  # another thread was faster, and it is gone: nothing to lose
            if call.name in _WRITES:
                self._written(call.file_of(_WRITES[call.name]))
            elif call.name in ("fsync", "fdatasync"):
                self._flushed(call.file_of(0))
            elif call.name in _RENAMES:
                old, new = _RENAMES[call.name]
                self._renamed(call.path_of(old), call.path_of(new))
            elif call.name in _NEW_NAMES and call.changes_files:
                self._named(call.path_of(_NEW_NAMES[call.name]))

    def lose(self) -> list[str]:
        """Take it all away; says what was taken."""
        lost = [self._take_back(change) for change in reversed(self._changes)]
        for path in _files(self._root):
            inode = path.lstat().st_ino
            if inode in self._dirty and path.stat().st_size > self._safe_bytes.get(inode, 0):
                os.truncate(path, self._safe_bytes.get(inode, 0))
                lost.append(f"cut {path}")
        return [what for what in lost if what]

    def _written(self, path: str) -> None:
        if path.startswith(self._root):
            self._dirty.add(os.stat(path).st_ino)

    def _flushed(self, path: str) -> None:
        if path.startswith(self._root):
            status = os.stat(path)
            self._safe_bytes[status.st_ino] = status.st_size
            self._dirty.discard(status.st_ino)
            self._changes = [change for change in self._changes if change.new[0] != status.st_ino]

    def _named(self, path: str) -> None:
        if not path.startswith(self._root):
            return
        name, status = _name(path), os.lstat(path)
        if name in self._names:
            return
        self._names.add(name)
        self._changes.append(_Change(name))
        if status.st_nlink == 1 and status.st_size == 0:
            self._safe_bytes[status.st_ino] = 0
            self._dirty.discard(status.st_ino)

    def _renamed(self, old: str, new: str) -> None:
        if not new.startswith(self._root):
            return
        before, after = _name(old), _name(new)
        self._names.discard(before)
        self._changes = [change for change in self._changes if change.new != before]
        if after not in self._names and after[1] != self._pointer and not after[1].startswith("."):
            self._changes.append(_Change(after, before))
        self._names.add(after)

    def _take_back(self, change: _Change) -> str:
        folders = {os.stat(folder).st_ino: folder for folder, _, _ in os.walk(self._root)}
        folder = folders.get(change.new[0])
        path = os.path.join(folder, change.new[1]) if folder else ""
        if not os.path.lexists(path):
            return ""
        if change.old is not None and change.old[0] in folders:
            os.rename(path, os.path.join(folders[change.old[0]], change.old[1]))
        elif os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)
        return f"took back {path}"


def _name(path: str) -> Name:
    folder, last = os.path.split(path)
    return os.stat(folder).st_ino, last


def _files(root: str) -> list[Path]:
    paths = (Path(folder) / name for folder, _, names in os.walk(root) for name in names)
    return [path for path in paths if not path.is_symlink()]
