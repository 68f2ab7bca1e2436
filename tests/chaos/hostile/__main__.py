"""The whole suite: `python -m tests.chaos.hostile [--only NAME] [--short] [--json FILE]`.

Every check but that of a real site, which needs none, runs in a world of its own (`tests.chaos.hostile.world`). Prints a
table of what was done, what was found and the limit, and ends with 1 when a check failed.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tests.chaos.hostile.git_doc import real_site
from tests.chaos.hostile.inside import CHECKS
from tests.chaos.hostile.world import LONG_SECONDS, SHORT_SECONDS, run_inside, why_not
from tests.chaos.report import Result, print_table

REAL_SITE = "git-doc"
NAMES = (*CHECKS, REAL_SITE)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the checks asked for; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.hostile", description=__doc__)
    parser.add_argument("--only", action="append", choices=NAMES, help="one check; may be given again")
    parser.add_argument("--short", action="store_true", help="a taste of each")
    parser.add_argument("--json", type=Path, help="write the results there, after every check")
    asked = parser.parse_args(arguments)
    if reason := why_not():
        print(f"no world can be made here: {reason}", file=sys.stderr)
        return 1
    results: list[Result] = []
    for name in asked.only or NAMES:
        results += _run(name, short=asked.short)
        print_table(results)
        if asked.json:
            asked.json.write_text(json.dumps([one.as_json() for one in results], indent=1))
    return 0 if all(one.passed for one in results) else 1


def _run(name: str, *, short: bool) -> list[Result]:
    print(name, flush=True)
    started = time.monotonic()
    try:
        found = (
            real_site(short=short)
            if name == REAL_SITE
            else run_inside(name, *["--short"] * short, seconds=SHORT_SECONDS if short else LONG_SECONDS)
        )
    except AssertionError as error:
        found = [Result(name, "broken off", "", False, {}, (str(error),))]
    return [replace(found[0], seconds=time.monotonic() - started), *found[1:]]


if __name__ == "__main__":
    sys.exit(main())
