"""Environments of the peers, each made where it is missing: what they need stays out of the project's own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path


def python_with(folder: Path, *steps: Sequence[str], seconds: float) -> Path:
    """The interpreter of the environment in `folder`, which has the packages of all `steps`.

    They are installed one step after the other; `seconds` is what a step may take. An environment with other packages
    is made anew.

    Raises:
        subprocess.SubprocessError: they cannot be installed, or not in time.
    """
    python, stamp = folder / "bin" / "python", folder / "installed"
    wanted = " ".join(package for step in steps for package in step)
    if not stamp.exists() or stamp.read_text() != wanted:
        stamp.unlink(missing_ok=True)
        commands = [[sys.executable, "-m", "venv", "--clear", str(folder)]]
        commands += [[str(python), "-m", "pip", "install", "--quiet", *step] for step in steps]
        for command in commands:
            subprocess.run(command, check=True, timeout=seconds)
        stamp.write_text(wanted)
    return python
