"""Fuzzing: `python -m tests.chaos.fuzz [--minutes N] [--only url|robots|html|pdf] [--seed N] [--folder FOLDER] [--json FILE]`.

Each target is fed in a process of its own, one after the other. Ends with 1 when something was found; what was, lies
in the folder with what it did.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.chaos.fuzz.targets import TARGETS
from tests.chaos.fuzz.watch import Fuzzed, fuzz
from tests.chaos.report import Result


def main(arguments: Sequence[str] | None = None) -> int:
    """Fuzz what is asked for; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="for each target")
    parser.add_argument("--only", action="append", choices=TARGETS, help="one target; may be given again")
    parser.add_argument("--seed", type=int, default=1, help="of the inputs")
    parser.add_argument("--folder", type=Path, help="where findings go; a new one by default")
    parser.add_argument("--json", type=Path, help="write the results there, after every target")
    asked = parser.parse_args(arguments)
    folder = asked.folder or Path(tempfile.mkdtemp(prefix="fuzz-"))
    findings, results = 0, []
    for name in asked.only or TARGETS:
        done = fuzz(name, asked.minutes * 60, asked.seed, folder)
        findings += len(done.findings)
        results.append(_result(done))
        if asked.json:
            asked.json.write_text(json.dumps([one.as_json() for one in results], indent=1))
        told = ", ".join(done.findings) or "nothing found"
        print(f"{name}: {done.inputs:,} inputs in {done.seconds:.0f} s: {told}", flush=True)
    print(f"{findings} findings in {folder}" if findings else "no crash, no hang")
    return 1 if findings else 0


def _result(done: Fuzzed) -> Result:
    figures = {"inputs": done.inputs, "findings": len(done.findings)}
    told = f"made-up inputs for {done.seconds:.0f} s"
    return Result(f"fuzz {done.name}", told, "0 findings", not done.findings, figures, done.findings, done.seconds)


if __name__ == "__main__":
    sys.exit(main())
