"""A real site to crawl: the HTML documents of Debian's git-doc, some two hundred pages."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.support.repository import REPOSITORY

PACKAGE = "git-doc"
PLACE = REPOSITORY / ".cache" / PACKAGE
FOLDER = Path("usr/share/doc/git-doc")
FETCH_SECONDS = 300.0


def git_doc() -> Path | None:
    """Where its documents are, fetched and unpacked at the first use; None where they cannot be had."""
    folder = PLACE / FOLDER
    if folder.is_dir():
        return folder
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        return None
    with tempfile.TemporaryDirectory() as fetched:
        fetch = ["apt-get", "-qq", "download", PACKAGE]
        done = subprocess.run(fetch, cwd=fetched, capture_output=True, timeout=FETCH_SECONDS, check=False)
        if done.returncode:
            return None
        archive = next(Path(fetched).glob("*.deb"))
        PLACE.mkdir(parents=True, exist_ok=True)
        subprocess.run(["dpkg", "-x", str(archive), str(PLACE)], check=True, capture_output=True)
    return folder
