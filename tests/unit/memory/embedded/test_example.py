"""The ten lines of docs/memory.md do what the page says, in an empty git repository, without a service."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.memory.example import agents_repository, example
from tests.support.repository import IMPORT_PATH


def test_the_example_has_ten_lines() -> None:
    assert len([line for line in example().splitlines() if line.strip()]) <= 10


def test_the_example_runs_in_an_empty_repository(tmp_path: Path) -> None:
    repository = agents_repository(tmp_path)
    (repository / "loop.py").write_text(example())
    for is_new in (True, False):
        done = subprocess.run(
            [sys.executable, "loop.py"],
            cwd=repository,
            env={"PYTHONPATH": IMPORT_PATH, "PATH": "/usr/bin:/bin", "HOME": str(Path.home())},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert "login() reads the token from the header X-Auth" in done.stdout
        assert "<sluice-memory-block" in done.stdout
        journal = (repository / ".ralph/db/memory/auth.jsonl").read_text().splitlines()
        assert sum('"kind":"iteration"' in line for line in journal) == 1, is_new
