"""The newest release of a package that some passages tell of: changelogs, release notes, registry pages."""

from __future__ import annotations

import re
from collections.abc import Iterable

from sluice.gate.domains.repository import Version, parse_version

_VERSION = r"v?((?>\d{1,4}(?:\.\d{1,5}){1,3}))(?!\w|\.\w|-(?:alpha|beta|rc|pre|dev)\b)"
"""A whole release number: neither a part of a longer one nor a pre-release."""
_HEADING = re.compile(
    rf"^\s{{0,3}}(?:#{{1,6}}\s*|=+\s*|\*\*|\[)?(?:release|version|release notes)?:?\s*\[?{_VERSION}", re.I | re.M
)
_TOLD = re.compile(
    rf"\b(?:release[sd]?|version|latest|stable|upgrade[sd]? to|announc\w+)\b[^\n.]{{0,30}}?\b{_VERSION}", re.I
)
MOST_PLAUSIBLE_MAJOR = 2_100
"""Above, it is a date or a build number; years are majors of some packages."""


def newest_release(name: str, passages: Iterable[tuple[str, str]]) -> str | None:
    """The highest released version of `name` that passages (headings, text) tell; None where none does.

    A passage counts where its headings, path or address name the package, or where its own words name it beside a
    version: `requests 2.32.0`. Pre-releases do not count.
    """
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
    """A package's name, in which `-`, `_` and `.` are one (PEP 503)."""
    return re.sub(r"(?:\\?[-_.])+", "[-_.]", re.escape(name))
