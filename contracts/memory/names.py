"""Names of projects and features, and paths inside a project: together they identify a memory."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field, WithJsonSchema

from sluice.contracts.base import Value

FEATURE_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,99}")
"""A feature's name is also a file name, also on file systems that ignore case."""

FEATURE_REMEDY = "use small letters, digits, '-', '_' and '.', at most 100 of them, as in event-search"


def feature_name(name: str) -> str:
    """Return `name`. Raises `ValueError` for an invalid feature name; the message describes valid ones."""
    if not FEATURE_NAME.fullmatch(name):
        raise ValueError(f"{name[:120]!r} is no name of a feature: {FEATURE_REMEDY}")
    return name


_AS_SCHEMA = WithJsonSchema({"type": "string", "pattern": rf"^{FEATURE_NAME.pattern}$"})
FeatureName = Annotated[str, AfterValidator(feature_name), _AS_SCHEMA]
ProjectPath = Annotated[str, Field(min_length=1, max_length=1_024, pattern=r"^[^\x00-\x1f]+$")]
"""The identifier of a project: its folder where an agent works on this machine, else any name."""

_DRIVE = re.compile(r"[A-Za-z]:")
_SHORTEST = re.compile(r"[\w-][\w.-]*(?:/[\w-][\w.-]*)*", re.ASCII)
"""Matches paths that are in shortest form already: most are, and the match is ten times as fast as the conversion."""


def relative_path(path: str) -> str:
    """Return `path` in its shortest form, with `/` between its parts. Raises `ValueError` if it is empty, absolute,
    names a drive, leads out of its project by `..`, or holds control characters."""
    if _SHORTEST.fullmatch(path):
        return path
    slashed = path.replace("\\", "/")
    parts = [part for part in slashed.split("/") if part not in ("", ".")]
    if slashed.startswith(("/", "~")) or _DRIVE.match(slashed):
        raise ValueError(f"{path!r} is an absolute path; give it relative to the project's folder")
    if ".." in parts:
        raise ValueError(f"{path!r} leads out of the project by '..'; give a path inside the project's folder")
    if not parts or any(ord(character) < 32 for character in path):
        raise ValueError(f"{path!r} is no path of a file")
    return "/".join(parts)


RelativePath = Annotated[str, Field(min_length=1, max_length=1_024), AfterValidator(relative_path)]
"""A file of the project, relative to its folder."""


class MemoryScope(Value):
    """One feature of one project."""

    project: ProjectPath
    feature: FeatureName
