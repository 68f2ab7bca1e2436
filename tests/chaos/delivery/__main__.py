"""Delivery under faults: `python -m tests.chaos.delivery [--only NAME] [--seed N] [--json FILE]`.

Every check runs on an instance of its own, in a folder that is kept when the check fails. Prints a table of what was
done, what was found and the limit, and ends with 1 when a check failed.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from tests.chaos.delivery.broker_faults import broker_faults
from tests.chaos.delivery.erasing import erasing
from tests.chaos.delivery.hooks import hooks
from tests.chaos.delivery.kills import kills_without_healing, random_kills
from tests.chaos.delivery.machine import any_order
from tests.chaos.delivery.malformed import malformed_items
from tests.chaos.delivery.matrix import failpoint_matrix, undisturbed
from tests.chaos.delivery.moving import moving
from tests.chaos.delivery.poison import poison
from tests.chaos.delivery.rabbit import rabbit_faults
from tests.chaos.delivery.replays import replays
from tests.chaos.delivery.schedules import schedules
from tests.chaos.delivery.traces import traces_of_short_lived_children, traces_under_kills
from tests.chaos.report import Result, print_table

Check = Callable[[Path, int], list[Result]]

CHECKS: dict[str, Check] = {
    "undisturbed": undisturbed,
    "matrix": failpoint_matrix,
    "kills": random_kills,
    "unhealed": kills_without_healing,
    "broker": broker_faults,
    "rabbit": rabbit_faults,
    "malformed": malformed_items,
    "poison": poison,
    "replays": replays,
    "erasing": erasing,
    "moving": moving,
    "hooks": hooks,
    "schedules": schedules,
    "traces": traces_under_kills,
    "children": traces_of_short_lived_children,
    "machine": any_order,
}
"""Every check by its name, in the order in which they run."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the checks asked for; the exit code."""
    asked = _parser().parse_args(arguments)
    results: list[Result] = []
    for name in asked.only or CHECKS:
        results += run(name, asked.seed)
        print_table(results)
        if asked.json:
            asked.json.write_text(json.dumps([one.as_json() for one in results], indent=1))
    return 0 if all(one.passed for one in results) else 1


def run(name: str, seed: int) -> list[Result]:
    """One check; its folder is removed when it passed."""
    folder, started = Path(tempfile.mkdtemp(prefix=f"chaos-{name}-")), time.monotonic()
    print(f"{name}: seed {seed}, folder {folder}", flush=True)
    try:
        results = CHECKS[name](folder, seed)
    except AssertionError as error:
        results = [Result(name, "broken off", "", False, {}, (str(error),))]
    seconds = time.monotonic() - started
    if all(one.passed for one in results):
        shutil.rmtree(folder)
    return [replace(results[0], seconds=seconds), *results[1:]]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.delivery", description=__doc__)
    parser.add_argument("--only", action="append", choices=CHECKS, help="one check; may be given again")
    parser.add_argument("--seed", type=int, default=1, help="of kill plans, broker faults and garbage")
    parser.add_argument("--json", type=Path, help="write the results there, after every check")
    return parser


if __name__ == "__main__":
    sys.exit(main())
