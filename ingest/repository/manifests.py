"""Packages and their versions in lock and manifest files of a repository.

A lock file says which version is used; a manifest which ones may be. Of a range the lowest version that it admits is
told, since that is what the code was written against. Where a file cannot be read, it tells nothing: it may be half
edited, and no repository is refused for it.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from sluice.contracts.profiles.measures import Dependency

MOST_DEPENDENCIES = 5_000
"""Of one file."""
Pairs = Iterator[tuple[str, str]]
_REQUIREMENT = re.compile(
    r"^\s*(?P<name>[A-Za-z0-9][\w.-]*)\s*(?:\[[^\]]*\])?\s*\(?(?P<range>(?:===|==|~=|>=|>|\^)\s*v?\d[^;#\s]*)", re.M
)
_GO = re.compile(r"^\s*(?:require\s+)?([\w.-]+\.[\w.-]+/[\w./~-]+)\s+v(\d[\w.+-]*)", re.MULTILINE)
_FIRST_VERSION = re.compile(r"\d+(?:\.\d+)*(?:[-+.]?\w+)*")


def parse_manifest(path: str, text: str) -> list[Dependency]:
    """The packages that a file names with versions; none where it is no manifest or cannot be read."""
    read = _reader(path.rsplit("/", 1)[-1].lower())
    if read is None:
        return []
    try:
        pairs = list(read(text))[:MOST_DEPENDENCIES]
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
        return []
    return [Dependency(name=name, used=version, file_path=path) for name, version in dict.fromkeys(pairs) if name]


def is_manifest(path: str) -> bool:
    """Whether a path is called as one of the files that are read."""
    return _reader(path.rsplit("/", 1)[-1].lower()) is not None


def is_lock_file(path: str) -> bool:
    """Whether a path is a file of versions that a machine wrote: its text answers no question."""
    return path.rsplit("/", 1)[-1].lower() in _LOCK_FILES


def effective(dependencies: Iterable[Dependency]) -> list[Dependency]:
    """The packages, those of lock files in place of what manifests of the same folder say of them."""
    found = list(dependencies)
    locked = {(_folder(one.file_path), one.name.casefold()) for one in found if is_lock_file(one.file_path)}
    return [
        one
        for one in found
        if is_lock_file(one.file_path) or (_folder(one.file_path), one.name.casefold()) not in locked
    ]


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _reader(name: str) -> Callable[[str], Pairs] | None:
    if re.fullmatch(r"(?:[\w.-]*requirements[\w.-]*|constraints[\w.-]*)\.(?:txt|in)", name):
        return _requirements
    return _READERS.get(name)


def _requirements(text: str) -> Pairs:
    for match in _REQUIREMENT.finditer(text):
        yield match["name"], _lowest(match["range"])


def _pyproject(text: str) -> Pairs:
    found = tomllib.loads(text)
    project = found.get("project", {})
    groups = [project.get("dependencies", []), *project.get("optional-dependencies", {}).values()]
    groups += [*found.get("dependency-groups", {}).values()]
    for group in groups:
        yield from _requirements("\n".join(one for one in group if isinstance(one, str)))
    poetry = found.get("tool", {}).get("poetry", {})
    tables = [
        poetry.get("dependencies", {}),
        *(one.get("dependencies", {}) for one in poetry.get("group", {}).values()),
    ]
    for table in tables:
        yield from _versions({name: one for name, one in table.items() if name != "python"})


def _toml_lock(text: str) -> Pairs:
    """`poetry.lock`, `uv.lock`, `Cargo.lock`: tables of packages."""
    for package in tomllib.loads(text).get("package", []):
        if isinstance(package.get("version"), str):
            yield package["name"], package["version"]


def _cargo(text: str) -> Pairs:
    found = tomllib.loads(text)
    workspace = found.get("workspace", {})
    for table in ("dependencies", "dev-dependencies", "build-dependencies"):
        yield from _versions(found.get(table, {}))
        yield from _versions(workspace.get(table, {}))


def _package_json(text: str) -> Pairs:
    found = json.loads(text)
    for table in ("dependencies", "devDependencies", "peerDependencies", "optionalDependencies"):
        yield from _versions(found.get(table, {}))


def _package_lock(text: str) -> Pairs:
    found = json.loads(text)
    for place, package in found.get("packages", {}).items():
        if "node_modules/" in place and isinstance(package.get("version"), str):
            yield place.rpartition("node_modules/")[2], package["version"]
    if not found.get("packages"):
        yield from _versions(found.get("dependencies", {}))


def _pipfile_lock(text: str) -> Pairs:
    found = json.loads(text)
    for table in ("default", "develop"):
        yield from _versions(found.get(table, {}))


def _yarn_lock(text: str) -> Pairs:
    for match in re.finditer(r'^"?(@?[^@\s"]+)@[^\n]*:\n\s+version:? "?([\w.+-]+)', text, re.MULTILINE):
        yield match[1], match[2]


def _go_mod(text: str) -> Pairs:
    for match in _GO.finditer(text):
        yield match[1], match[2]


def _versions(table: Mapping[str, Any]) -> Pairs:
    for name, said in table.items():
        told = said.get("version", "") if isinstance(said, dict) else said
        if isinstance(told, str) and (version := _lowest(told)):
            yield name, version


def _lowest(told: str) -> str:
    """The first version that a range names: `>=2.28,<3` is 2.28; empty for none (`*`, a path, an address)."""
    if "://" in told or told.startswith(("file:", "workspace:", "link:", "git+")):
        return ""
    match = _FIRST_VERSION.search(told)
    return match[0] if match else ""


_READERS: dict[str, Callable[[str], Pairs]] = {
    "pyproject.toml": _pyproject,
    "poetry.lock": _toml_lock,
    "uv.lock": _toml_lock,
    "pipfile.lock": _pipfile_lock,
    "cargo.toml": _cargo,
    "cargo.lock": _toml_lock,
    "package.json": _package_json,
    "package-lock.json": _package_lock,
    "npm-shrinkwrap.json": _package_lock,
    "yarn.lock": _yarn_lock,
    "go.mod": _go_mod,
}
_LOCK_FILES = frozenset(
    {
        "poetry.lock",
        "uv.lock",
        "pipfile.lock",
        "cargo.lock",
        "package-lock.json",
        "npm-shrinkwrap.json",
        "yarn.lock",
        "pnpm-lock.yaml",
        "go.sum",
        "composer.lock",
        "gemfile.lock",
    }
)
