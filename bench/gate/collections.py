"""Questions with what is known of them, one JSON object a line."""

from __future__ import annotations

import json
from pathlib import Path


def read(path: Path) -> list[dict[str, str]]:
    """The objects of a file, in order."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
