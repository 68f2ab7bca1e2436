"""The short forms as tests run them: in a process of their own, which forks and never runs the index itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support.repository import IMPORT_PATH, REPOSITORY

_TIMEOUT_SECONDS = 580.0


def short_form(*names: str, arguments: Sequence[str] = ()) -> dict[str, dict[str, Any]]:
    """The results of the checks' short forms, as JSON, by name. Raises `AssertionError` when there are none."""
    chosen = [word for name in names for word in ("--only", name)]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "results.json"
        done = subprocess.run(
            [sys.executable, "-m", "tests.chaos.index", "--short", "--json", str(report), *chosen, *arguments],
            cwd=REPOSITORY,
            env={**os.environ, "PYTHONPATH": IMPORT_PATH, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
        assert report.exists(), done.stderr
        return {result["check"]: result for result in json.loads(report.read_text())}
