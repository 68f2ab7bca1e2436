"""The example of docs/memory.md, as it stands there."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from tests.support.repository import GOLDEN, REPOSITORY

STREAM = GOLDEN / "memory/streams/claude_code/2_1_3_failing_test.jsonl"


def example() -> str:
    """The ten lines."""
    found = re.search(r"^## Ten lines$.*?^```python\n(.*?)^```$", _page(), re.MULTILINE | re.DOTALL)
    assert found, "docs/memory.md has no example below 'Ten lines'"
    return found[1]


def agents_repository(folder: Path) -> Path:
    """An empty git repository with the output of one iteration."""
    subprocess.run(["git", "init", "-q", folder], check=True, timeout=30)
    shutil.copy(STREAM, folder / "stream.jsonl")
    return folder


def _page() -> str:
    return (REPOSITORY / "docs/memory.md").read_text()
