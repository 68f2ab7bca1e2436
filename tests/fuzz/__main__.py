"""Fuzzing: `python -m tests.fuzz [--minutes N] [--only url|robots|html|pdf] [--seed N] [--folder FOLDER]`.

Each target is fed in a process of its own, one after the other. Ends with 1 when something was found; what was, lies
in the folder with what it did.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.fuzz.targets import TARGETS
from tests.fuzz.watch import fuzz


def main(arguments: Sequence[str] | None = None) -> int:
    """Fuzz what is asked for; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="for each target")
    parser.add_argument("--only", action="append", choices=TARGETS, help="one target; may be given again")
    parser.add_argument("--seed", type=int, default=1, help="of the inputs")
    parser.add_argument("--folder", type=Path, help="where findings go; a new one by default")
    asked = parser.parse_args(arguments)
    folder = asked.folder or Path(tempfile.mkdtemp(prefix="fuzz-"))
    findings = 0
    for name in asked.only or TARGETS:
        done = fuzz(name, asked.minutes * 60, asked.seed, folder)
        findings += len(done.findings)
        told = ", ".join(done.findings) or "nothing found"
        print(f"{name}: {done.inputs:,} inputs in {done.seconds:.0f} s: {told}", flush=True)
    print(f"{findings} findings in {folder}" if findings else "no crash, no hang")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
