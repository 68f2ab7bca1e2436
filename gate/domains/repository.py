"""How far a repository has aged, as far as a question touches it: versions behind, failing tests, unfinished code."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import takewhile

from sluice.contracts.profiles.measures import Dependency

DECIMALS = 6
BEHIND_MAJOR, BEHIND_MINOR, BEHIND_PATCH = 1.0, 0.5, 0.1
"""Rules: a major release may break calls, a minor one adds to them, a patch changes little that is asked."""
UPGRADE_UNKNOWN = 1.0
"""Asked for a release or an upgrade of a package of which no release is indexed, the corpus cannot tell."""
FAILING_ENOUGH = 3
"""Failing tests about the question from which the feature is full."""
TODO_MARKS_ENOUGH = 20
"""A thousand lines with so many marks are unfinished; usual code has two or three."""
LEAST_CODE_LINES = 20
"""Below, one mark would be a density."""
_TODO = re.compile(r"(?<!\w)(?:TODO|FIXME|XXX|HACK)(?!\w)")
_NUMBER = re.compile(r"\d+")

Version = tuple[int, ...]


def parse_version(text: str) -> Version | None:
    """The leading numbers of a version: `2.31.0rc1` is (2, 31, 0); None where it begins with none.

    Releases of the package systems are ordered by them (PEP 440, Semantic Versioning 2.0.0); what follows is left out.
    """
    parts = text.strip().lstrip("vV=^~<>! ").split(".")
    numbers = [
        int(match[0]) for part in takewhile(lambda part: part[:1].isdigit(), parts) if (match := _NUMBER.match(part))
    ]
    return tuple(numbers[:4]) or None


def compare_versions(used: str, newest: str | None) -> float:
    """How far `used` is behind, from 0 to 1; 0 where one of them cannot be read."""
    ours, theirs = parse_version(used), parse_version(newest or "")
    if ours is None or theirs is None:
        return 0.0
    width = max(len(ours), len(theirs), 3)
    ours, theirs = (version + (0,) * (width - len(version)) for version in (ours, theirs))
    if theirs <= ours:
        return 0.0
    if theirs[0] != ours[0]:
        return BEHIND_MAJOR
    return BEHIND_MINOR if theirs[1] != ours[1] else BEHIND_PATCH


def rate_drift(dependencies: Sequence[Dependency], *, asks_for_version: bool) -> tuple[float, str]:
    """The feature for the packages that a question names: the one that is farthest behind counts."""
    if not dependencies:
        return 0.0, "the question names no dependency of an indexed repository"
    rated = [(_drift(one, asks_for_version=asks_for_version), one) for one in dependencies]
    value, one = max(rated, key=lambda pair: pair[0])
    newest = f"the newest indexed release is {one.newest}" if one.newest else "no release of it is indexed"
    return value, f"{one.name} {one.used} in {one.file_path}, {newest}"


def rate_failing_tests(failing: Sequence[str]) -> tuple[float, str]:
    """The feature for the failing tests that a question's words name."""
    if not failing:
        return 0.0, "no failing test of a report is about the question"
    return round(min(1.0, len(failing) / FAILING_ENOUGH), DECIMALS), f"failing: {', '.join(failing[:3])}"


def count_todo_marks(texts: Iterable[str]) -> tuple[int, int]:
    """Marks of unfinished code, and lines with something on them."""
    marks = lines = 0
    for text in texts:
        marks += len(_TODO.findall(text))
        lines += sum(bool(line.strip()) for line in text.splitlines())
    return marks, lines


def rate_todo_density(marks: int | None, lines: int | None) -> tuple[float, str]:
    """The feature for marks of unfinished code in the passages found."""
    if marks is None or not lines or lines < LEAST_CODE_LINES:
        return 0.0, f"{lines or 0} lines of code found, too few to tell"
    per_thousand = 1_000 * marks / lines
    return round(min(1.0, per_thousand / TODO_MARKS_ENOUGH), DECIMALS), f"{marks} marks in {lines} lines of code"


def _drift(one: Dependency, *, asks_for_version: bool) -> float:
    if one.newest is None:
        return UPGRADE_UNKNOWN if asks_for_version else 0.0
    return compare_versions(one.used, one.newest)
