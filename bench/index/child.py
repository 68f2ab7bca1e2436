"""A measure in a process of its own with one processor and one thread: its memory and its threads end with it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from bench.peers.environment import ONE_THREAD
from tests.support.repository import REPOSITORY


def measured(module: str, *arguments: object, timeout_seconds: float) -> Any:
    """What `python -m module arguments` prints as its last line, as JSON. Raises `RuntimeError` when it fails."""
    command = [sys.executable, "-m", module, *map(str, arguments)]
    ended = subprocess.run(
        command,
        cwd=REPOSITORY,
        env={**os.environ, **ONE_THREAD},
        capture_output=True,
        text=True,
        timeout=timeout_seconds,
        check=False,
    )
    if ended.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{ended.stderr[-2_000:]}")
    return json.loads(ended.stdout.splitlines()[-1])
