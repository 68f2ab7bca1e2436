"""Facts of a repository: its dependencies and failing tests, read from its files and written as documents.

    requests 2.31.0 (requirements.txt)           a dependency, its version in use, the file that says so
    FAILED tests/test_leases.py::test_renewal    a failing test, as pytest names it, and its message

They are found by the metadata `repository_facts`, and by questions like every text. Test reports are JUnit's XML, as
pytest and most test runners write them (`pytest --junitxml=report.xml`). Packages and versions come from lock and
manifest files: a lock file names the version in use, a manifest the allowed ones. Of a range the lowest version is
reported, since that is what the code was written against. A file that cannot be read yields nothing: it
may be half edited, and no repository is refused for it.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lxml import etree

from sluice.contracts.profiles import Dependency

FACTS_KEY = "repository_facts"
DEPENDENCIES, TESTS = "dependencies", "tests"
_DEPENDENCY = re.compile(r"^(\S+) (\S+) \((\S[^)\n]*)\)$", re.MULTILINE)
_FAILED = re.compile(r"^FAILED (\S+)", re.MULTILINE)
_NAME_PARTS = re.compile(r"[-_.]+")


def write_dependencies(repository: str, dependencies: Iterable[Dependency]) -> str:
    """Return the text of a document of dependencies."""
    lines = sorted({f"{one.name} {one.used} ({one.file_path})" for one in dependencies})
    return "\n".join([f"Dependencies of {repository}, the versions that it uses:", "", *lines, ""])


def read_dependencies(text: str) -> list[Dependency]:
    """Return the dependencies in a passage of such a document."""
    return [Dependency(name=name, used=used, file_path=path) for name, used, path in _DEPENDENCY.findall(text)]


def write_failing_tests(source: str, failing: Sequence[tuple[str, str]], total: int) -> str:
    """Return the text of a document of failing tests: names with their messages."""
    lines = [f"FAILED {name} - {message}" if message else f"FAILED {name}" for name, message in failing]
    return "\n".join([f"Test report {source}: {len(failing)} of {total} tests fail.", "", *lines, ""])


def read_failing_tests(text: str) -> list[str]:
    """Return the names of failing tests in a passage of such a document."""
    return _FAILED.findall(text)


def names_dependency(question: str, name: str) -> bool:
    """Return whether a question names a package as a whole word; `-`, `_` and `.` are equal."""
    words = {_NAME_PARTS.sub("-", word.casefold()) for word in re.findall(r"[\w.@/-]+", question)}
    bare = {word.strip("-@/.") for word in words} | {word.split("-", 1)[0] for word in words if "-" in word}
    return _NAME_PARTS.sub("-", name.casefold()) in words | bare


MOST_FAILING = 1_000
MOST_MESSAGE_CHARACTERS = 300
_START = re.compile(r"\A\s*(?:<\?xml[^>]*\?>)?\s*(?:<!--.*?-->\s*)*<testsuites?[\s>]", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Report:
    """The number of tests that ran, and the failing ones: names as in pytest, with the first line of their message."""

    total: int
    failing: tuple[tuple[str, str], ...]


def is_report(text: str) -> bool:
    """Return whether an XML text is a test report."""
    return _START.match(text[:4_096]) is not None


def parse_report(text: str) -> Report | None:
    """Parse a report; None if it is not one or not well-formed. No entity and no address in it is followed."""
    if not is_report(text):
        return None
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
    try:
        root = etree.fromstring(text.encode("utf-8", "surrogatepass"), parser)
    except (etree.XMLSyntaxError, ValueError):
        return None
    failing: list[tuple[str, str]] = []
    total = 0
    for case in root.iter("testcase"):
        total += 1
        problem = next((child for child in case if child.tag in ("failure", "error")), None)
        if problem is not None and len(failing) < MOST_FAILING:
            failing.append((_name(case), _message(problem)))
    return Report(total, tuple(failing))


def _name(case: etree._Element) -> str:
    """Return `tests/test_x.py::TestY::test_z`; without a file, the class's dotted name replaces it."""
    file, owner, name = case.get("file"), case.get("classname") or "", case.get("name") or "?"
    words = [file or owner.replace(".", "/"), name]
    return "::".join("_".join(word.split()) for word in words if word)


def _message(problem: etree._Element) -> str:
    told = problem.get("message") or (problem.text or "").strip()
    return " ".join(told.split())[:MOST_MESSAGE_CHARACTERS]


MOST_DEPENDENCIES = 5_000
"""Most dependencies of one file."""
Pairs = Iterator[tuple[str, str]]
_REQUIREMENT = re.compile(
    r"^\s*(?P<name>[A-Za-z0-9][\w.-]*)\s*(?:\[[^\]]*\])?\s*\(?(?P<range>(?:===|==|~=|>=|>|\^)\s*v?\d[^;#\s]*)", re.M
)
_FIRST_VERSION = re.compile(r"\d+(?:\.\d+)*(?:[-+.]?\w+)*")


def parse_manifest(path: str, text: str) -> list[Dependency]:
    """Return the packages that a file names with versions; none if it is not a manifest or cannot be read."""
    read = _reader(path.rsplit("/", 1)[-1].lower())
    if read is None:
        return []
    try:
        pairs = list(read(text))[:MOST_DEPENDENCIES]
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
        return []
    return [Dependency(name=name, used=version, file_path=path) for name, version in dict.fromkeys(pairs) if name]


def is_manifest(path: str) -> bool:
    """Return whether the path has the name of a supported file."""
    return _reader(path.rsplit("/", 1)[-1].lower()) is not None


def is_lock_file(path: str) -> bool:
    """Return whether the path is a machine-written file of versions: its text answers no question."""
    return path.rsplit("/", 1)[-1].lower() in _LOCK_FILES


def effective(dependencies: Iterable[Dependency]) -> list[Dependency]:
    """Return the packages, with lock files overriding manifests of the same folder."""
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
    """Read `poetry.lock`, `uv.lock`, `Cargo.lock`: tables of packages."""
    for package in tomllib.loads(text).get("package", []):
        if isinstance(package.get("version"), str):
            yield package["name"], package["version"]


def _cargo(text: str) -> Pairs:
    found = tomllib.loads(text)
    workspace = found.get("workspace", {})
    for table in ("dependencies", "dev-dependencies", "build-dependencies"):
        yield from _versions(found.get(table, {}))
        yield from _versions(workspace.get(table, {}))


def _tables(*names: str) -> Callable[[str], Pairs]:
    """Return a reader of JSON whose tables of these names map packages to versions."""

    def read(text: str) -> Pairs:
        found = json.loads(text)
        for name in names:
            yield from _versions(found.get(name, {}))

    return read


def _matches(pattern: str) -> Callable[[str], Pairs]:
    """Return a reader of lines in which `pattern` finds a package and its version."""
    return lambda text: ((match[1], match[2]) for match in re.finditer(pattern, text, re.MULTILINE))


def _package_lock(text: str) -> Pairs:
    found = json.loads(text)
    for place, package in found.get("packages", {}).items():
        if "node_modules/" in place and isinstance(package.get("version"), str):
            yield place.rpartition("node_modules/")[2], package["version"]
    if not found.get("packages"):
        yield from _versions(found.get("dependencies", {}))


def _versions(table: Mapping[str, Any]) -> Pairs:
    for name, said in table.items():
        told = said.get("version", "") if isinstance(said, dict) else said
        if isinstance(told, str) and (version := _lowest(told)):
            yield name, version


def _lowest(told: str) -> str:
    """Return the first version in a range: `>=2.28,<3` is 2.28; empty if none (`*`, a path, an address)."""
    if "://" in told or told.startswith(("file:", "workspace:", "link:", "git+")):
        return ""
    match = _FIRST_VERSION.search(told)
    return match[0] if match else ""


_READERS: dict[str, Callable[[str], Pairs]] = {
    "pyproject.toml": _pyproject,
    "poetry.lock": _toml_lock,
    "uv.lock": _toml_lock,
    "pipfile.lock": _tables("default", "develop"),
    "cargo.toml": _cargo,
    "cargo.lock": _toml_lock,
    "package.json": _tables("dependencies", "devDependencies", "peerDependencies", "optionalDependencies"),
    "package-lock.json": _package_lock,
    "npm-shrinkwrap.json": _package_lock,
    "yarn.lock": _matches(r'^"?(@?[^@\s"]+)@[^\n]*:\n\s+version:? "?([\w.+-]+)'),
    "go.mod": _matches(r"^\s*(?:require\s+)?([\w.-]+\.[\w.-]+/[\w./~-]+)\s+v(\d[\w.+-]*)"),
}
_LOCK_FILES = frozenset(
    [
        *("poetry.lock", "uv.lock", "pipfile.lock", "cargo.lock", "package-lock.json", "npm-shrinkwrap.json"),
        *("yarn.lock", "pnpm-lock.yaml", "go.sum", "composer.lock", "gemfile.lock"),
    ]
)
