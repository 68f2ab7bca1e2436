"""Keeps an instance's files readable for its own user alone: folders 0700, files 0600.

The command line's file mask does so for everything that its processes write; `make_private` repairs a data directory
that an older Sluice, or a wider file mask, has left readable for others.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import structlog

log = structlog.get_logger(__name__)

FOR_OTHERS = 0o077
"""The permission bits of the group and of all others."""


def make_private(folder: Path) -> None:
    """Make a missing data directory, and remove the permissions of others in an existing one.

    With nothing to repair it reads only the folder and its direct entries. Another user's files stay
    as they are, which is logged. A folder that Sluice shares (see `is_shared`) is left as it is.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if is_shared(folder):
        return
    if _is_open(folder.stat().st_mode):
        _close(folder)  # first: then nobody else reaches open files below
    entries = [Path(entry.path) for entry in os.scandir(folder) if not entry.is_symlink()]
    open_entries = [entry for entry in entries if _is_open(_mode_of(entry))]
    if not open_entries:
        return
    mended = sum(_close(path) for entry in entries for path in _open_below(entry))
    mended += sum(map(_close, open_entries))  # last: an interrupted repair starts again
    log.info("data_directory_mended", folder=str(folder), mended=mended)


def open_to_others(folder: Path) -> Iterator[Path]:
    """Yield the folder and its contents that other users may read or write by their own permissions."""
    if _is_open(_mode_of(folder)):
        yield folder
    yield from _open_below(folder)


def is_shared(folder: Path) -> bool:
    """Return whether the folder holds more than an instance's data: a home, the working directory, the root, `/tmp`."""
    resolved = folder.resolve()
    own = [Path("/"), Path.cwd()]
    with suppress(RuntimeError):  # a user without a home
        own.append(Path.home().resolve())
    return resolved in own or bool(resolved.stat().st_mode & stat.S_ISVTX)


def _open_below(folder: Path) -> Iterator[Path]:
    """Yield the open entries below the folder, the innermost first. Does not follow links; skips vanished entries."""
    for parent, folders, files in os.walk(folder, topdown=False):
        for name in (*files, *folders):
            path = Path(parent, name)
            if _is_open(_mode_of(path)):
                yield path


def _mode_of(path: Path) -> int:
    try:
        found = path.lstat().st_mode
    except FileNotFoundError:
        return 0
    return 0 if stat.S_ISLNK(found) else found


def _is_open(mode: int) -> bool:
    return bool(mode & FOR_OTHERS)


def _close(path: Path) -> bool:
    try:
        path.chmod(stat.S_IMODE(path.lstat().st_mode) & ~FOR_OTHERS)
    except FileNotFoundError:
        return False
    except OSError as error:
        log.warning("not_mended", path=str(path), error=error.strerror)
        return False
    return True
