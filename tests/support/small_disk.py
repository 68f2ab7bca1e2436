"""A disk of a few megabytes that a test may fill up."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


class SmallDisk:
    """A file system of its own, mounted at `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def fill(self) -> None:
        """Leave no byte."""
        with (self.folder / "filler").open("ab") as filler:
            size = 1 << 20
            while size:
                try:
                    os.write(filler.fileno(), b"x" * size)
                except OSError:
                    size //= 2

    def make_room(self) -> None:
        """Take what `fill` wrote away again."""
        (self.folder / "filler").unlink()

    @property
    def free_bytes(self) -> int:
        """What is left."""
        return shutil.disk_usage(self.folder).free


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """400 MB; skipped where this user may not mount anything."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=400m,mode=0700", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.decode().strip()}")
    yield SmallDisk(folder)
    subprocess.run(["umount", "--lazy", str(folder)], check=True)
