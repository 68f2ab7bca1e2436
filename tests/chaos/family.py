"""What families of faults share: a command that runs a family's checks, its short form, and a death at a point."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any

from tests.chaos.report import Result, print_table
from tests.support.repository import IMPORT_PATH, REPOSITORY

Checks = Mapping[str, Callable[[Path, int, bool], Result]]
"""The checks of a family by name. Each gets an empty folder, a seed, and whether it is to be short."""


def run_checks(family: str, about: str | None, checks: Checks, arguments: Sequence[str] | None = None) -> int:
    """Run the checks asked for of `tests.chaos.FAMILY`, print a table; the exit code."""
    parser = argparse.ArgumentParser(prog=f"python -m tests.chaos.{family}", description=about)
    parser.add_argument("--only", action="append", choices=checks, help="one check; may be given again")
    parser.add_argument("--short", action="store_true", help="a few of each harm")
    parser.add_argument("--seed", type=int, default=1, help="of what is written, and when who is killed")
    parser.add_argument("--json", type=Path, help="write the results there")
    asked = parser.parse_args(arguments)
    results = []
    for name in asked.only or checks:
        started = time.monotonic()
        with tempfile.TemporaryDirectory(prefix=f"{family}-faults-") as folder:
            found = checks[name](Path(folder), asked.seed, asked.short)
        results.append(replace(found, seconds=time.monotonic() - started))
    print_table(results)
    if asked.json:
        asked.json.write_text(json.dumps([one.as_json() for one in results], indent=1))
    return 0 if all(one.passed for one in results) else 1


def short_form(family: str, name: str, folder: Path) -> dict[str, int]:
    """The figures of a check's short form, which has passed."""
    report = folder / "results.json"
    done = subprocess.run(
        [sys.executable, "-m", f"tests.chaos.{family}", "--short", "--only", name, "--json", str(report)],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": IMPORT_PATH},
        capture_output=True,
        text=True,
        timeout=580,
        check=False,
    )
    assert report.exists(), done.stderr
    [result] = json.loads(report.read_text())
    assert result["problems"] == []
    figures: dict[str, int] = result["figures"]
    return figures


def arm(point: str) -> None:
    """Have this process die at a point, MODULE:NAME.before or MODULE:NAME.after a function."""
    seam, _, when = point.rpartition(".")
    module, _, name = seam.partition(":")
    owner: Any = importlib.import_module(module)
    *classes, function = name.split(".")
    for one in classes:
        owner = getattr(owner, one)
    setattr(owner, function, _dying(getattr(owner, function), when))


def _dying(original: Callable[..., Any], when: str) -> Callable[..., Any]:
    @wraps(original)
    def die(*arguments: Any, **named: Any) -> Any:
        if when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        original(*arguments, **named)
        os.kill(os.getpid(), signal.SIGKILL)

    return die
