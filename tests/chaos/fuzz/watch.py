"""Watches a feeder from outside: an input that hangs or kills its process is a finding like any other."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from bench.crawl.protocol import cpu_seconds
from tests.chaos.fuzz.targets import TARGETS
from tests.support.repository import IMPORT_PATH, REPOSITORY

LOOK_SECONDS = 0.25
START_SECONDS = 120.0
WORKED_SHARE = 0.5
"""Of the time that an input may take at most: on the processor, it hangs and does not merely wait for its turn."""
DEAD_TIMES = 10
"""As many times as long without a word, and it hangs whatever it did."""
SEEDS_APART = 100_000
"""Between one process and the next that takes its place, so that none repeats what killed it."""


@dataclass(frozen=True, slots=True)
class Fuzzed:
    """What came of one target: how many inputs, in how many seconds, and the findings by file name."""

    name: str
    inputs: int
    seconds: float
    findings: tuple[str, ...]


def fuzz(name: str, seconds: float, first_seed: int, folder: Path) -> Fuzzed:
    """Feed the target `name` for so long; inputs that were found to go wrong are left in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    before = set(folder.glob("*.input"))
    started, fed, number = time.monotonic(), 0, first_seed
    while (left := seconds - (time.monotonic() - started)) > 0:
        fed += _watched(name, left, number, folder)
        number += SEEDS_APART
    found = sorted(path.name for path in set(folder.glob("*.input")) - before if path.name.startswith(f"{name}-"))
    return Fuzzed(name, fed, time.monotonic() - started, tuple(found))


def _watched(name: str, seconds: float, first_seed: int, folder: Path) -> int:
    """How many inputs a process of its own took; 0 where it was ended by one of them."""
    current = folder / f"{name}.current"
    current.unlink(missing_ok=True)
    command = [sys.executable, "-m", "tests.chaos.fuzz.child", name, str(seconds), str(first_seed), str(folder)]
    with (folder / f"{name}.log").open("ab") as log:
        child = subprocess.Popen(
            command, cwd=REPOSITORY, env=_environment(), stdout=subprocess.PIPE, stderr=log, text=True
        )
    try:
        if hung := _await(child, current, TARGETS[name].wall_seconds):
            _keep(current, folder, name, "Hang", hung)
            return 0
    finally:
        child.kill()
        told, _ = child.communicate()
    if child.returncode:
        _keep(current, folder, name, "Death", f"ended with {child.returncode}")
        return 0
    return int(told)


def _await(child: subprocess.Popen[str], current: Path, wall_seconds: float) -> str:
    """Until it has ended, or says nothing new for too long: then what is wrong.

    On a busy machine little happens in a long time, so that it must have worked as well, or be silent for very long.
    """
    changed, cpu_then, seen = time.monotonic() + START_SECONDS, 0.0, 0
    while child.poll() is None:
        time.sleep(LOOK_SECONDS)
        latest = current.stat().st_mtime_ns if current.exists() else 0
        if latest != seen:
            changed, cpu_then, seen = time.monotonic(), cpu_seconds(child.pid), latest
            continue
        silent_seconds = time.monotonic() - changed
        if silent_seconds < wall_seconds:
            continue
        worked_seconds = cpu_seconds(child.pid) - cpu_then
        if worked_seconds > WORKED_SHARE * wall_seconds or silent_seconds > DEAD_TIMES * wall_seconds:
            return f"one input took {silent_seconds:.0f} s, {worked_seconds:.0f} s of them on the processor"
    return ""


def _keep(current: Path, folder: Path, name: str, kind: str, told: str) -> None:
    raw = current.read_bytes() if current.exists() else b""
    path = folder / f"{name}-{kind}-{hashlib.sha256(raw).hexdigest()[:12]}"
    path.with_suffix(".input").write_bytes(raw)
    path.with_suffix(".txt").write_text(told)


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": IMPORT_PATH}
