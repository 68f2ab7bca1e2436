"""Patterns that are data: regular expressions in TOML files, in readable pieces, built from named parts."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_PART = re.compile(r"@([a-z_]+)@")


class PatternFile:
    """One file. A pattern is a text, or several pieces in sequence; `@name@` in it stands for one of the table `parts`.

    A part may use those before it. Raises KeyError for a part that the file does not have.
    """

    def __init__(self, path: Path) -> None:
        self.tables: dict[str, Any] = tomllib.loads(path.read_text("utf-8"))
        self._parts: dict[str, str] = {}
        for name, pieces in self.tables.get("parts", {}).items():
            self._parts[name] = self.text(pieces)

    def text(self, pieces: str | Sequence[str]) -> str:
        """The whole expression."""
        return _PART.sub(lambda found: self._parts[found[1]], "".join(pieces))

    def compiled(self, pieces: str | Sequence[str], flags: int = 0) -> re.Pattern[str]:
        """The expression, compiled."""
        return re.compile(self.text(pieces), flags)

    def table(self, name: str, flags: int = 0) -> Mapping[str, re.Pattern[str]]:
        """Every pattern of a table, compiled, in the order of the file."""
        return {key: self.compiled(pieces, flags) for key, pieces in self.tables[name].items()}
