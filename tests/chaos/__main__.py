"""Every family of faults, one after the other: `python -m tests.chaos [--only FAMILY] [--seed N] [--document FILE]`.

A family is a package with a command of its own (`python -m tests.chaos.delivery --help`), whose checks can be chosen
there. Each runs in a process of its own and prints its table; the command ends with 1 when one of them failed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.chaos.report import Result, document
from tests.support.repository import REPOSITORY

FAMILIES = {
    "delivery": "workers, broker and supervisor killed, cut off, hung and fed garbage: nothing is lost or doubled",
    "index": "journal and generations killed, damaged and written to a full disk: no corrupted byte is served",
    "memory": "journals of an agent's memory killed, cut off from power and written to a full disk: no record is lost",
    "graph": "workers of the graph killed at any point: the graph that grew is the one that is read anew",
    "backup": "backups and restorations killed at any point: a whole file or none, an instance that works or an empty folder",
    "machines": "two machines burnt, cut off and without their object store: nothing is lost or doubled, each answers",
    "hostile": "sites, names and addresses that want to reach what is inside: nothing is let out",
    "browser": "a browser whose processes die: every page ends, and no process is left",
    "fuzz": "made-up addresses, robots files, pages and PDFs: no crash and no hang",
}
"""What each family harms, and what has to hold."""
ARGUMENTS = {"hostile": (), "fuzz": ("--seed", "{seed}", "--minutes", "1")}
"""Where they are others than a seed: `make fuzz` has the ten minutes of each target."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the families asked for; the exit code."""
    asked = _parser().parse_args(arguments)
    results: list[Result] = []
    failed: list[str] = []
    for family in asked.only or FAMILIES:
        print(f"{family}: {FAMILIES[family]}", flush=True)
        found, passed = run(family, asked.seed)
        results += found
        failed += [family] * (not passed)
    if asked.document:
        only = "".join(f" --only {family}" for family in asked.only or ())
        asked.document.write_text(document(results, f"python -m tests.chaos{only} --seed {asked.seed}"))
    print(f"failed: {', '.join(failed)}" if failed else "every check passed")
    return 1 if failed else 0


def run(family: str, seed: int) -> tuple[list[Result], bool]:
    """What the family's own command found, and whether it ended well."""
    arguments = [one.format(seed=seed) for one in ARGUMENTS.get(family, ("--seed", "{seed}"))]
    with tempfile.TemporaryDirectory(prefix="chaos-report-") as folder:
        report = Path(folder) / "results.json"
        command = [sys.executable, "-m", f"tests.chaos.{family}", *arguments, "--json", str(report)]
        passed = subprocess.run(command, cwd=REPOSITORY, check=False).returncode == 0
        found = json.loads(report.read_text()) if report.exists() else []
    return [Result(**{**one, "problems": tuple(one["problems"])}) for one in found], passed


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--only", action="append", choices=FAMILIES, help="one family; may be given again")
    parser.add_argument("--seed", type=int, default=1, help="of everything that is drawn")
    parser.add_argument("--document", type=Path, help="write docs/reliability.md there, at the end")
    return parser


if __name__ == "__main__":
    sys.exit(main())
