"""A backup is whole or none, whatever dies: `python -m tests.chaos.backup [--only NAME] [--short] [--seed N]`.

Prints a table of what was done, what was found and the limit, and ends with 1 when a check failed.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from tests.chaos.backup.kills import kills_at_points, random_kills
from tests.chaos.report import Result, print_table

CHECKS: dict[str, Callable[[Path, int, bool], Result]] = {"points": kills_at_points, "kills": random_kills}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the checks asked for; the exit code."""
    asked = _parser().parse_args(arguments)
    results = []
    for name in asked.only or CHECKS:
        started = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="backup-faults-") as folder:
            found = CHECKS[name](Path(folder), asked.seed, asked.short)
        results.append(replace(found, seconds=time.monotonic() - started))
    print_table(results)
    if asked.json:
        asked.json.write_text(json.dumps([one.as_json() for one in results], indent=1))
    return 0 if all(one.passed for one in results) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.backup", description=__doc__)
    parser.add_argument("--only", action="append", choices=CHECKS, help="one check; may be given again")
    parser.add_argument("--short", action="store_true", help="a few of each harm")
    parser.add_argument("--seed", type=int, default=1, help="of what is written, and when who is killed")
    parser.add_argument("--json", type=Path, help="write the results there")
    return parser


if __name__ == "__main__":
    sys.exit(main())
