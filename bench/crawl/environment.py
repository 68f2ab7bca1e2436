"""The peer's own environment, made where it is missing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from bench.instance import REPOSITORY

ENVIRONMENT = REPOSITORY / ".cache" / "peers-crawl"
PACKAGES = ("crawl4ai==0.9.5",)
INSTALL_SECONDS = 1_200


def peer_python() -> Path:
    """The interpreter that has Crawl4AI, installed at first use (minutes)."""
    python = ENVIRONMENT / "bin" / "python"
    stamp = ENVIRONMENT / "installed"
    if not stamp.exists() or stamp.read_text() != " ".join(PACKAGES):
        stamp.unlink(missing_ok=True)
        _run([sys.executable, "-m", "venv", "--clear", str(ENVIRONMENT)])
        _run([str(python), "-m", "pip", "install", "--quiet", *PACKAGES])
        stamp.write_text(" ".join(PACKAGES))
    return python


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, timeout=INSTALL_SECONDS)
