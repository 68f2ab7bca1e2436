"""Finds an instance from any folder, by its `sluice.toml` and its data directory, and keeps its files for its own user.

The file is the one that `SLUICE_CONFIG` names, else the `sluice.toml` of this folder or of the nearest folder above it.
The data directory is the one that is set (a relative one in the file belongs to the file's folder), else a folder
`sluice-data` here or above, else `sluice` in the user's folder of data (XDG Base Directory Specification).

Folders are 0700, files 0600. The command line's file mask does so for everything that its processes write;
`make_private` repairs a data directory that an older Sluice, or a wider file mask, has left readable for others.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import structlog

log = structlog.get_logger(__name__)

CONFIG_FILE = "sluice.toml"
CONFIG_VARIABLE = "SLUICE_CONFIG"
DATA_FOLDER = "sluice-data"
SIGNING_FILE = "signing.key"
"""File of the data directory with random bytes, with which the instance signs what it hands out and takes back."""
INSTANCE_FILE = "instance"
"""File of the data directory of a restored instance with its own prefix of broker keys, which counts where none is
set."""
API_FILE = "api.json"
"""File of the data directory with the address of its HTTP interface and the key of its own user."""


def config_file() -> Path:
    """Return the path of the settings file. It need not exist: then it is where `sluice init` would write it."""
    named = os.environ.get(CONFIG_VARIABLE)
    if named:
        return Path(named)
    return next((path for path in _here_and_above(CONFIG_FILE) if path.is_file()), Path(CONFIG_FILE).absolute())


def default_data_dir() -> Path:
    """Return the data directory of an instance that sets none. Nothing is created."""
    standing = next((path for path in _here_and_above(DATA_FOLDER) if path.is_dir()), None)
    if standing is not None:
        return standing
    config = config_file()
    if config.is_file():
        return config.absolute().parent / DATA_FOLDER
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "sluice"


def is_standing() -> bool:
    """Return whether an instance exists here: a settings file, or a data directory."""
    return config_file().is_file() or default_data_dir().is_dir()


def _here_and_above(name: str) -> Iterator[Path]:
    """Yield `name` in this folder and in each one above that belongs to this user or to root.

    Above this folder other users' files do not count, as with git: who may write to /tmp could plant settings.
    """
    here = Path.cwd()
    yield here / name
    for folder in here.parents:
        path = folder / name
        try:
            is_ours = path.lstat().st_uid in (0, os.geteuid())
        except OSError:
            continue
        if is_ours:
            yield path


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
