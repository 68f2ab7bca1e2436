"""Regular expressions mean the same in every Python that is supported."""

from __future__ import annotations

import re

from tests.support.repository import REPOSITORY

PACKAGES = (
    "api",
    "cli",
    "contracts",
    "disk",
    "evaluation",
    "gate",
    "index",
    "ingest",
    "ledger",
    "graph",
    "memory",
    "otel",
    "text",
    "trust",
    "workers",
)
_POSSESSIVE_GROUP = re.compile(r"\)(?:[*+?]|\{\d*,?\d*\})\+(?![^\[\]]*\])")


def test_no_group_is_repeated_possessively() -> None:
    """Python before 3.11.5 does not go back where such a group fails half-way (CPython issue 106052)."""
    found = [
        f"{path.relative_to(REPOSITORY)}:{number}: write (?>(?:…)*) for (?:…)*+"
        for package in PACKAGES
        for path in sorted((REPOSITORY / package).rglob("*.py"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if "re.compile" in line or re.match(r'\s*(?:_[A-Z_]+ = )?r[f]?"', line) or re.search(r'= rf?"', line)
        if _POSSESSIVE_GROUP.search(line)
    ]
    assert not found
