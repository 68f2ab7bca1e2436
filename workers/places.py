"""Finds an instance from any folder: its `sluice.toml` and its data directory.

The file is the one that `SLUICE_CONFIG` names, else the `sluice.toml` of this folder or of the nearest folder above it.
The data directory is the one that is set (a relative one in the file belongs to the file's folder), else a folder
`sluice-data` here or above, else `sluice` in the user's folder of data (XDG Base Directory Specification).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

CONFIG_FILE = "sluice.toml"
CONFIG_VARIABLE = "SLUICE_CONFIG"
DATA_FOLDER = "sluice-data"
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
