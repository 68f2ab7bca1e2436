"""Words and regular expressions as data: TOML files with patterns in readable pieces, built from named parts."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

_PART = re.compile(r"@([a-z_]+)@")


class PatternFile:
    """One file, read at its first use.

    A pattern is a text, or several pieces in sequence; `@name@` in it stands for one of the table `parts`, and a part
    may use those before it. Raises KeyError for a part that the file does not have.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._compiled: dict[str, re.Pattern[str]] = {}
        self._words: dict[str, frozenset[str]] = {}

    @cached_property
    def tables(self) -> Mapping[str, Any]:
        """The content of the file."""
        return tomllib.loads(self._path.read_text("utf-8"))

    @cached_property
    def _parts(self) -> Mapping[str, str]:
        parts: dict[str, str] = {}
        for name, pieces in self.tables.get("parts", {}).items():
            parts[name] = _filled_in(pieces, parts)
        return parts

    def __getitem__(self, name: str) -> re.Pattern[str]:
        """Return the expression of that name in the table `patterns`, compiled once."""
        if name not in self._compiled:
            self._compiled[name] = self.compiled(self.tables["patterns"][name])
        return self._compiled[name]

    def text(self, pieces: str | Sequence[str]) -> str:
        """Return the pieces as one expression, with its parts filled in."""
        return _filled_in(pieces, self._parts)

    def compiled(self, pieces: str | Sequence[str], flags: int = 0) -> re.Pattern[str]:
        """Return the expression, compiled."""
        return re.compile(self.text(pieces), flags)

    def table(self, name: str, flags: int = 0) -> Mapping[str, re.Pattern[str]]:
        """Return every pattern of a table, compiled, in the order of the file."""
        return {key: self.compiled(pieces, flags) for key, pieces in self.tables[name].items()}

    def words(self, name: str) -> frozenset[str]:
        """Return the blank-separated words of a text of the file."""
        if name not in self._words:
            self._words[name] = frozenset(self.tables[name].split())
        return self._words[name]


def _filled_in(pieces: str | Sequence[str], parts: Mapping[str, str]) -> str:
    return _PART.sub(lambda found: parts[found[1]], "".join(pieces))
