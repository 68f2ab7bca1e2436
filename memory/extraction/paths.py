"""Makes paths of an agent's output relative to its project, by their text alone: no file is looked at.

Agents name files absolutely (Claude Code), by the root of a container (`/repo__name/src/a.py`), or relative to their
working folder. Each is resolved against that folder and its `..` are removed. A path that is then not below the
project's root, or starts at a home folder (`~`), is outside: counted, and never kept.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

MAX_PATH_CHARACTERS = 1_024
_DRIVE = re.compile(r"([A-Za-z]):(?=/|$)")
_DRIVE_OF_A_UNIX_SHELL = re.compile(r"/([A-Za-z])(?=/|$)")


@dataclass(frozen=True, slots=True)
class Lexical:
    """A path taken apart: `anchor` is "/", a drive as "c:/", a share as "//", or "" for a relative path."""

    anchor: str
    parts: tuple[str, ...]


@dataclass(slots=True)
class ProjectPaths:
    """Resolves the paths of one run. `not_kept` counts the paths left out."""

    root: Lexical | None
    not_kept: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, root: str | None) -> ProjectPaths:
        """Build for a project below the absolute path `root`. If None or relative, only relative paths are inside."""
        taken = take_apart(root) if root else None
        parts = _without_dots(taken) if taken and taken.anchor else None
        return cls(Lexical(taken.anchor, parts) if taken and parts is not None else None)

    def relative(self, path: str, working_directory: str | None = None) -> str | None:
        """Return `path` relative to the root; None, counted as `path_outside`, if it is not below the root."""
        found = self.find(path, working_directory)
        if found is None:
            self.not_kept["path_outside"] += 1
        return found

    def find(self, path: str, working_directory: str | None = None) -> str | None:
        """Return the same as `relative`, without counting."""
        taken = take_apart(path, self.root.anchor if self.root else "")
        if taken is None or not path.strip() or any(ord(character) < 32 for character in path):
            return None
        base = take_apart(working_directory) if working_directory else None
        if not taken.anchor:
            base = base if base and base.anchor else self.root
            taken = Lexical(base.anchor if base else "", (base.parts if base else ()) + taken.parts)
        parts = _without_dots(taken)
        if parts is None:
            return None
        if self.root is None:
            inside = None if taken.anchor else parts
        else:
            inside = _below(Lexical(taken.anchor, parts), self.root)
        relative = "/".join(inside or ())
        if len(relative) > MAX_PATH_CHARACTERS or re.match(r"~|[A-Za-z]:", relative):
            return None
        return relative or None


def take_apart(path: str, root_anchor: str = "") -> Lexical | None:
    """Return a path's parts, reading backslashes as slashes; None if it begins with a home folder (`~`)."""
    slashed = path.strip().replace("\\", "/")
    if slashed.startswith("//?/"):
        slashed = slashed[4:]
    if slashed.startswith("~"):
        return None
    if root_anchor.endswith(":/") and (unix := _DRIVE_OF_A_UNIX_SHELL.match(slashed)):
        slashed = f"{unix[1]}:{slashed[2:]}"
    drive = _DRIVE.match(slashed)
    anchor = f"{drive[1].lower()}:/" if drive else next((one for one in ("//", "/") if slashed.startswith(one)), "")
    rest = slashed[2:] if drive else slashed
    return Lexical(anchor, tuple(part for part in rest.split("/") if part not in ("", ".")))


def is_below(path: str, root: str) -> bool:
    """Return whether an absolute path is `root`, an absolute path as well, or lies below it."""
    project = ProjectPaths.of(root).root
    taken = ProjectPaths.of(path).root
    return project is not None and taken is not None and _below(taken, project) is not None


def _without_dots(path: Lexical) -> tuple[str, ...] | None:
    parts: list[str] = []
    for part in path.parts:
        if part != "..":
            parts.append(part)
        elif parts:
            parts.pop()
        elif not path.anchor:
            return None
    return tuple(parts)


def _below(path: Lexical, root: Lexical) -> tuple[str, ...] | None:
    """Return the parts after the root's; None if `path` is not below it. Windows paths compare without case."""
    count = len(root.parts)
    mine, its = path.parts[:count], root.parts
    if path.anchor != "/":
        mine, its = tuple(part.casefold() for part in mine), tuple(part.casefold() for part in its)
    return path.parts[count:] if path.anchor == root.anchor and mine == its else None
