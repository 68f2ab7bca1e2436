"""Makes paths of an agent's output relative to its project, by their text alone: no file is looked at.

Agents name files absolutely (Claude Code), by the root of a container (`/repo__name/src/a.py`), or relative to their
working folder. Each is resolved against that folder and its `..` are removed. A path that is then not below the
project's root, or starts at a home folder (`~`), is outside: counted, and never kept.
"""

from __future__ import annotations

import ntpath
import posixpath
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import PurePath, PurePosixPath, PureWindowsPath

MAX_PATH_CHARACTERS = 1_024
_OF_WINDOWS = re.compile(r"[A-Za-z]:(?=/|$)|//")
_DRIVE_OF_A_UNIX_SHELL = re.compile(r"/([A-Za-z])(?=/|$)")


@dataclass(slots=True)
class ProjectPaths:
    """Resolves the paths of one run. `not_kept` counts the paths left out."""

    root: PurePath | None
    not_kept: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, root: str | None) -> ProjectPaths:
        """Build for a project below the absolute path `root`. If None or relative, only relative paths are inside."""
        path = _read(root) if root else None
        return cls(_without_dots(path) if path is not None and path.is_absolute() else None)

    def relative(self, path: str, working_directory: str | None = None) -> str | None:
        """Return `path` relative to the root; None, counted as `path_outside`, if it is not below the root."""
        found = self.find(path, working_directory)
        if found is None:
            self.not_kept["path_outside"] += 1
        return found

    def find(self, path: str, working_directory: str | None = None) -> str | None:
        """Return the same as `relative`, without counting."""
        named = _read(path, of_windows=isinstance(self.root, PureWindowsPath))
        if named is None or not path.strip() or any(ord(character) < 32 for character in path):
            return None
        if not named.is_absolute():
            base = _read(working_directory) if working_directory else None
            base = base if base is not None and base.is_absolute() else self.root
            named = base / named if base is not None else named
        named = _without_dots(named)
        if self.root is None:
            inside = None if named.is_absolute() or ".." in named.parts else named
        else:
            inside = named.relative_to(self.root) if _is_below(named, self.root) else None
        relative = inside.as_posix() if inside is not None and inside.parts else ""
        if len(relative) > MAX_PATH_CHARACTERS or re.match(r"~|[A-Za-z]:", relative):
            return None
        return relative or None


def is_relative(path: str) -> bool:
    """Return whether a path begins neither at a root nor at a home folder."""
    named = _read(path)
    return named is not None and not named.is_absolute()


def is_below(path: str, root: str) -> bool:
    """Return whether an absolute path is `root`, an absolute path as well, or lies below it."""
    project, named = ProjectPaths.of(root).root, ProjectPaths.of(path).root
    return project is not None and named is not None and _is_below(named, project)


def _read(path: str, *, of_windows: bool = False) -> PurePath | None:
    """Return a path, with backslashes read as slashes; None if it begins with a home folder (`~`)."""
    slashed = path.strip().replace("\\", "/").removeprefix("//?/")
    if slashed.startswith("~"):
        return None
    if of_windows and (unix := _DRIVE_OF_A_UNIX_SHELL.match(slashed)):
        slashed = f"{unix[1]}:{slashed[2:] or '/'}"
    return PureWindowsPath(slashed + "/") if _OF_WINDOWS.match(slashed) else PurePosixPath(slashed)


def _without_dots(path: PurePath) -> PurePath:
    module = ntpath if isinstance(path, PureWindowsPath) else posixpath
    return type(path)(module.normpath(path))


def _is_below(path: PurePath, root: PurePath) -> bool:
    """Windows paths compare without case."""
    return type(path) is type(root) and path.is_relative_to(root)
