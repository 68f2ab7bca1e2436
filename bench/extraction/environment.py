"""The peer's own environment, made where it is missing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from bench.instance import REPOSITORY

ENVIRONMENT = REPOSITORY / ".cache" / "peers-extraction"
PACKAGES = ("trafilatura==2.3.1", "lxml_html_clean==0.4.6", "resiliparse==2.0.1")
INSTALL_SECONDS = 600


def peers_python() -> Path:
    """The interpreter that has the peers, installed at first use (a minute)."""
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
