"""No corrupted byte is served: `python -m tests.chaos.index [--only NAME] [--short] [--seed N] [--json FILE]`.

Prints a table of what was done, what was found and the limit, and ends with 1 when a check failed or noticed one of
the bugs planted for it not. `make test` runs the short forms.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from tests.chaos.index.checks import CHECKS, planted, why_not
from tests.chaos.report import Result, print_table

_IN_MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
"""Thousands of publishes: what they leave is tested here, and not how the disk flushes it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the checks asked for; the exit code."""
    asked = _parser().parse_args(arguments)
    gc.freeze()  # what is forked shares its memory for longer
    results: list[Result] = []
    for name in asked.only or CHECKS:
        if reason := why_not(name):
            results.append(Result(name, f"skipped: {reason}", "", True))
            continue
        check = CHECKS[name]
        if not asked.only_planted:
            results.append(_timed(lambda folder: check(folder, asked.seed, asked.short)))  # noqa: B023
        if not asked.unplanted:
            results.append(_timed(lambda folder: planted(name, folder, asked.seed)))  # noqa: B023
        print_table(results[-2:])
        if asked.json:
            asked.json.write_text(json.dumps([one.as_json() for one in results], indent=1))
    return 0 if all(one.passed for one in results) else 1


def _timed(check: Callable[[Path], Result]) -> Result:
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="index-faults-", dir=_IN_MEMORY) as folder:
        result = check(Path(folder))
    return replace(result, seconds=time.monotonic() - started)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.index", description=__doc__)
    parser.add_argument("--only", action="append", choices=CHECKS, help="one check; may be given again")
    parser.add_argument("--short", action="store_true", help="the form that `make test` runs")
    parser.add_argument("--seed", type=int, default=1, help="of harms, points and sequences")
    parser.add_argument("--json", type=Path, help="write the results there, after every check")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--unplanted", action="store_true", help="without the planted bugs")
    which.add_argument("--only-planted", action="store_true", help="nothing but the planted bugs")
    return parser


if __name__ == "__main__":
    if "OMP_NUM_THREADS" not in os.environ:  # read when the library is loaded: idle threads spin on small corpora
        os.environ["OMP_NUM_THREADS"] = "1"
        os.execv(sys.executable, [sys.executable, "-m", "tests.chaos.index", *sys.argv[1:]])
    sys.exit(main())
