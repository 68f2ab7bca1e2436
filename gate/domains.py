"""Features of one domain: pure functions of the measurements for profiles that weigh them.

Velocity is the rise in publications about the question's entity, now against before. A spike (a launch, a scandal)
means that the corpus ages faster than its newest hit shows, so it favours going outside. Only dates of publication
count: the day on which a corpus was filled is no event in the world.

For a repository: its age as far as a question touches it (versions behind, failing tests, unfinished code), and the
newest release of a package that passages mention (changelogs, release notes, registry pages).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import takewhile
from typing import Annotated

from pydantic import Field

from sluice.contracts.base import Switch, Value, is_empty
from sluice.contracts.profiles import Dependency, MentionVelocity

RECENT_DAYS = 7
EARLIER_DAYS = 28
LEAST_RECENT = 3
"""Fewest recent documents that can form a spike: two reports of one event are no chatter."""
DOUBLINGS_OF_A_SPIKE = 3.0
"""At eight times the earlier rate the feature is 1."""
SMOOTHING = 0.5
"""Documents added to both counts, so that a first report is no infinite rise (half a count, as Jeffreys' prior)."""
DECIMALS = 6
SECONDS_PER_DAY = 86_400.0


def measure_velocity(entity: str, published: Iterable[datetime], now: datetime) -> MentionVelocity:
    """Count documents that name `entity` by their dates of publication: the last 7 days, and the 28 before them."""
    ages = [(now - date).total_seconds() / SECONDS_PER_DAY for date in published]
    return MentionVelocity(
        entity=entity,
        recent_documents=sum(age < RECENT_DAYS for age in ages),
        recent_days=RECENT_DAYS,
        earlier_documents=sum(RECENT_DAYS <= age < RECENT_DAYS + EARLIER_DAYS for age in ages),
        earlier_days=EARLIER_DAYS,
    )


def rate_velocity(velocity: MentionVelocity | None) -> tuple[float, str]:
    """Return the feature, from 0 (no more than before) to 1 (eight times as much), and the measurement in words."""
    if velocity is None:
        return 0.0, "the question names no brand or company"
    recent = (velocity.recent_documents + SMOOTHING) / velocity.recent_days
    earlier = (velocity.earlier_documents + SMOOTHING) / velocity.earlier_days
    told = (
        f"{velocity.entity}: {velocity.recent_documents / velocity.recent_days:.2f} documents a day in "
        f"{velocity.recent_days} days, {velocity.earlier_documents / velocity.earlier_days:.2f} in the "
        f"{velocity.earlier_days} before"
    )
    if velocity.recent_documents < LEAST_RECENT:
        return 0.0, told
    return round(min(1.0, max(0.0, math.log2(recent / earlier) / DOUBLINGS_OF_A_SPIKE)), DECIMALS), told


BEHIND_MAJOR, BEHIND_MINOR, BEHIND_PATCH = 1.0, 0.5, 0.1
"""Rules: a major release may break calls, a minor one adds to them, a patch rarely affects an answer."""
UPGRADE_UNKNOWN = 1.0
"""Value for a question on a release or upgrade of a package without indexed releases: the corpus has no answer."""
FAILING_ENOUGH = 3
"""Failing tests about the question from which the feature is 1."""
TODO_MARKS_ENOUGH = 20
"""Marks per thousand lines from which the feature is 1; usual code has two or three."""
LEAST_CODE_LINES = 20
"""With fewer lines, a single mark would count as a density."""
_TODO = re.compile(r"(?<!\w)(?:TODO|FIXME|XXX|HACK)(?!\w)")
_NUMBER = re.compile(r"\d+")

Version = tuple[int, ...]


def parse_version(text: str) -> Version | None:
    """Return the leading numbers of a version, by which package systems order releases (PEP 440, Semantic Versioning
    2.0.0): `2.31.0rc1` is (2, 31, 0). None if it begins with none."""
    parts = text.strip().lstrip("vV=^~<>! ").split(".")
    numbers = [
        int(match[0]) for part in takewhile(lambda part: part[:1].isdigit(), parts) if (match := _NUMBER.match(part))
    ]
    return tuple(numbers[:4]) or None


def compare_versions(used: str, newest: str | None) -> float:
    """Return the distance of `used` behind `newest`, from 0 to 1; 0 if one of them cannot be parsed."""
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
    """Return the feature for the packages that a question names: that of the package farthest behind."""
    if not dependencies:
        return 0.0, "the question names no dependency of an indexed repository"
    rated = [(_drift(one, asks_for_version=asks_for_version), one) for one in dependencies]
    value, one = max(rated, key=lambda pair: pair[0])
    newest = f"the newest indexed release is {one.newest}" if one.newest else "no release of it is indexed"
    return value, f"{one.name} {one.used} in {one.file_path}, {newest}"


def rate_failing_tests(failing: Sequence[str]) -> tuple[float, str]:
    """Return the feature for the failing tests that a question names."""
    if not failing:
        return 0.0, "no failing test of a report is about the question"
    return round(min(1.0, len(failing) / FAILING_ENOUGH), DECIMALS), f"failing: {', '.join(failing[:3])}"


def count_todo_marks(texts: Iterable[str]) -> tuple[int, int]:
    """Return the number of marks of unfinished code, and of lines that are not blank."""
    marks = lines = 0
    for text in texts:
        marks += len(_TODO.findall(text))
        lines += sum(bool(line.strip()) for line in text.splitlines())
    return marks, lines


def rate_todo_density(marks: int | None, lines: int | None) -> tuple[float, str]:
    """Return the feature for marks of unfinished code in the retrieved passages."""
    if marks is None or not lines or lines < LEAST_CODE_LINES:
        return 0.0, f"{lines or 0} lines of code found, too few to tell"
    per_thousand = 1_000 * marks / lines
    return round(min(1.0, per_thousand / TODO_MARKS_ENOUGH), DECIMALS), f"{marks} marks in {lines} lines of code"


def _drift(one: Dependency, *, asks_for_version: bool) -> float:
    if one.newest is None:
        return UPGRADE_UNKNOWN if asks_for_version else 0.0
    return compare_versions(one.used, one.newest)


_VERSION = r"v?((?>\d{1,4}(?:\.\d{1,5}){1,3}))(?!\w|\.\w|-(?:alpha|beta|rc|pre|dev)\b)"
"""A whole release number: neither a part of a longer one nor a pre-release."""
_HEADING = re.compile(
    rf"^\s{{0,3}}(?:#{{1,6}}\s*|=+\s*|\*\*|\[)?(?:release|version|release notes)?:?\s*\[?{_VERSION}", re.I | re.M
)
_TOLD = re.compile(
    rf"\b(?:release[sd]?|version|latest|stable|upgrade[sd]? to|announc\w+)\b[^\n.]{{0,30}}?\b{_VERSION}", re.I
)
MOST_PLAUSIBLE_MAJOR = 2_100
"""A higher number is a date or a build number; some packages have years as major versions."""


def newest_release(name: str, passages: Iterable[tuple[str, str]]) -> str | None:
    """Return the highest released version of `name` that passages (headings, text) mention; None without any. A passage
    counts if its headings, path or address name the package, or if its own words name it beside a version, like
    "requests 2.32.0". Pre-releases do not count."""
    found: dict[Version, str] = {}
    beside = re.compile(rf"(?<![\w-]){_spelled(name)}(?:\s+(?:version|release))?[\s@=]+{_VERSION}", re.I)
    named = re.compile(rf"(?<![\w-]){_spelled(name)}(?!\w|-[a-z])", re.I)
    for headings, text in passages:
        patterns = [beside, _HEADING, _TOLD] if named.search(headings) else [beside]
        for pattern in patterns:
            for match in pattern.finditer(f"{headings}\n{text}"):
                version = parse_version(match[1])
                if version and version[0] < MOST_PLAUSIBLE_MAJOR:
                    found[version] = match[1]
    return found[max(found)] if found else None


def _spelled(name: str) -> str:
    """Return a pattern for a package's name, in which `-`, `_` and `.` are equal (PEP 503)."""
    return re.sub(r"(?:\\?[-_.])+", "[-_.]", re.escape(name))


class InsightSettings(Value):
    """Checks of an answer; a check that is off costs nothing."""

    sentiment: Switch = False
    disclosures: Switch = False
    claims: Switch = False
    voices: Switch = False
    """Share of voice, for the brands that the question names and for `brands`."""
    channels: Switch = False
    brands: Annotated[
        tuple[Annotated[str, Field(min_length=2, max_length=60)], ...], Field(max_length=8, exclude_if=is_empty)
    ] = ()
    code: Switch = False
    """Whether code in passages is marked as not executed, and judged by the policy of code samples."""
    repository_first: Switch = False
    """Whether passages of repositories rank before outside ones that match only slightly better."""
