"""No record of an agent's memory is lost: `python -m tests.chaos.memory [--only NAME] [--short] [--seed N] [--json FILE]`.

Prints a table of what was done, what was found and the limit, and ends with 1 when a check failed or did not notice one
of the bugs planted for it.
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

from tests.chaos.memory.bugs import BUGS
from tests.chaos.memory.checks import CHECKS, ON_DISK, planted, why_not
from tests.chaos.report import Result, print_table

_IN_MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
"""For single transactions at every call."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the checks asked for; the exit code."""
    asked = _parser().parse_args(arguments)
    gc.freeze()  # what is forked shares its memory for longer
    results: list[Result] = []
    for name in asked.only or CHECKS:
        if reason := why_not(name):
            results.append(Result(name, f"skipped: {reason}", "", True))
            continue
        if not asked.only_planted:
            results.append(_timed(name, lambda folder: CHECKS[name](folder, asked.seed, asked.short)))  # noqa: B023
        if not asked.unplanted and name in BUGS:
            results.append(_timed(name, lambda folder: planted(name, folder, asked.seed)))  # noqa: B023
    print_table(results)
    if asked.json:
        asked.json.write_text(json.dumps([one.as_json() for one in results], indent=1))
    return 0 if all(one.passed for one in results) else 1


def _timed(name: str, check: Callable[[Path], Result]) -> Result:
    started = time.monotonic()
    where = None if name in ON_DISK else _IN_MEMORY
    with tempfile.TemporaryDirectory(prefix="memory-faults-", dir=where) as folder:
        result = check(Path(folder))
    return replace(result, seconds=time.monotonic() - started)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.memory", description=__doc__)
    parser.add_argument("--only", action="append", choices=CHECKS, help="one check; may be given again")
    parser.add_argument("--short", action="store_true", help="the form that `make test` runs")
    parser.add_argument("--seed", type=int, default=1, help="of what is written, who is killed, and when")
    parser.add_argument("--json", type=Path, help="write the results there")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--unplanted", action="store_true", help="without the planted bugs")
    which.add_argument("--only-planted", action="store_true", help="nothing but the planted bugs")
    return parser


if __name__ == "__main__":
    sys.exit(main())
