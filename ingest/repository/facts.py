"""Documents that tell of a repository as a whole, one fact a line, and how they are read back from passages.

    requests 2.31.0 (requirements.txt)           a dependency, the version that is used, the file that says so
    FAILED tests/test_leases.py::test_renewal    a failing test, as pytest names it, and the message behind it

They are found by the metadata `repository_facts`, and by questions like every text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from sluice.contracts.profiles.measures import Dependency

FACTS_KEY = "repository_facts"
DEPENDENCIES, TESTS = "dependencies", "tests"
_DEPENDENCY = re.compile(r"^(\S+) (\S+) \((\S[^)\n]*)\)$", re.MULTILINE)
_FAILED = re.compile(r"^FAILED (\S+)", re.MULTILINE)
_NAME_PARTS = re.compile(r"[-_.]+")


def write_dependencies(repository: str, dependencies: Iterable[Dependency]) -> str:
    """The text of a document of dependencies."""
    lines = sorted({f"{one.name} {one.used} ({one.file_path})" for one in dependencies})
    return "\n".join([f"Dependencies of {repository}, the versions that it uses:", "", *lines, ""])


def read_dependencies(text: str) -> list[Dependency]:
    """The dependencies of a passage of such a document."""
    return [Dependency(name=name, used=used, file_path=path) for name, used, path in _DEPENDENCY.findall(text)]


def write_failing_tests(source: str, failing: Sequence[tuple[str, str]], total: int) -> str:
    """The text of a document of failing tests: names with their messages."""
    lines = [f"FAILED {name} - {message}" if message else f"FAILED {name}" for name, message in failing]
    return "\n".join([f"Test report {source}: {len(failing)} of {total} tests fail.", "", *lines, ""])


def read_failing_tests(text: str) -> list[str]:
    """The names of failing tests of a passage of such a document."""
    return _FAILED.findall(text)


def names_dependency(question: str, name: str) -> bool:
    """Whether a question names a package: as a whole word, `-`, `_` and `.` being one."""
    words = {_NAME_PARTS.sub("-", word.casefold()) for word in re.findall(r"[\w.@/-]+", question)}
    bare = {word.strip("-@/.") for word in words} | {word.split("-", 1)[0] for word in words if "-" in word}
    return _NAME_PARTS.sub("-", name.casefold()) in words | bare
