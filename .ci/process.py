"""Programs that the setup runs, what it says meanwhile, and how it fails."""

# ruff: noqa: T201, S603 (it talks to a terminal and runs programs)

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CACHE = ROOT / ".cache"
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"


class SetupFailed(Exception):
    """Setting up cannot go on; the message says what to do."""


def is_root() -> bool:
    """Whether the system may be changed."""
    return os.geteuid() == 0


def say(message: str) -> None:
    """Tell the user what takes time."""
    print(f"setup: {message}", flush=True)


def succeeds(
    command: Sequence[str],
    variables: dict[str, str] | None = None,
    *,
    quiet: bool = False,
    seconds: float | None = None,
) -> bool:
    """Whether the command ran and ended well."""
    sink = subprocess.DEVNULL if quiet else None
    try:
        ended = subprocess.run(
            command, env={**os.environ, **(variables or {})}, stdout=sink, stderr=sink, timeout=seconds, check=False
        )
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return False
    return ended.returncode == 0


def run(
    command: Sequence[str],
    complaint: str,
    variables: dict[str, str] | None = None,
    *,
    folder: Path = ROOT,
    seconds: float | None = None,
) -> None:
    """Run the command; its failure ends the setup with `complaint`."""
    try:
        subprocess.run(
            command,
            env={**os.environ, **(variables or {})},
            cwd=folder,
            stdin=subprocess.DEVNULL,
            timeout=seconds,
            check=True,
        )
    except (FileNotFoundError, subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        raise SetupFailed(f"{complaint} ({error})") from error


def output(command: Sequence[str]) -> str:
    """What the command prints; it must end well."""
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
