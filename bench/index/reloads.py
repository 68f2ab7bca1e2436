"""Reloads under load: a process publishes, another searches without pause; nothing fails, mixes, stalls or grows.

Each publish waits until a search has come from the generation before, so that every one of them is a reload.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from bench.index.beacons import version_at
from bench.peers.environment import ONE_THREAD
from tests.support.repository import REPOSITORY

Figures = dict[str, float]
PAUSE_SECONDS = 0.1
"""Between a reload and the next publish: ten reloads a second are far more than an instance makes."""
LONGEST_SECONDS = 600.0
STEADY, RELOADING = "steady", "reloading"


def measure_reloads(chunks: int, reloads: int, folder: Path) -> Figures:
    """Failures, mixed results, the tail of the latency against a steady phase as long, and the memory."""
    with Child("publisher", folder, chunks) as publisher:
        last_offsets = [int(publisher.read().split()[1])]
        with Child("searchers", folder) as searchers:
            searchers.read()
            _stay(searchers, STEADY, PAUSE_SECONDS * reloads)
            searchers.write(RELOADING)
            for _ in range(reloads):
                publisher.write("publish")
                name, last_offset = publisher.read().split()
                last_offsets.append(int(last_offset))
                while searchers.read() != name:
                    pass
                time.sleep(PAUSE_SECONDS)
            searchers.write("end")
            account = json.loads(searchers.read_account())
    return figures_of(account, last_offsets)


def figures_of(account: Mapping[str, Any], last_offsets: Sequence[int]) -> Figures:
    """What the searchers' account comes to, given the journal offset that each version's beacons end at."""
    steady, reloading = account["phases"][STEADY], account["phases"][RELOADING]
    return {
        "reloads": len(last_offsets) - 1,
        "searches under reloads": reloading["searches"],
        "failed searches": len(steady["failures"]) + len(reloading["failures"]),
        "mixed chunks": mixed(account["seen"], last_offsets),
        "steady p99, ms": steady["p99_ms"],
        "reloading p99, ms": reloading["p99_ms"],
        "reloading : steady, p50": reloading["p50_ms"] / steady["p50_ms"],
        "reloading : steady, p99": reloading["p99_ms"] / steady["p99_ms"],
        "memory drift, either way": drift(reloading["resident_bytes"]),
        "resident memory, MB": statistics.median(reloading["resident_bytes"]) / 1e6,
    }


def mixed(seen: Sequence[Sequence[int]], last_offsets: Sequence[int]) -> int:
    """Chunks whose text or metadata is not what it was at the journal offset that their result names."""
    return sum(
        times
        for journal_offset, number, of_text, of_metadata, times in seen
        if not of_text == of_metadata == version_at(journal_offset, number, last_offsets)
    )


def drift(resident_bytes: Sequence[int]) -> float:
    """By what share the median of the last quarter differs from that of the second; the first warms up."""
    quarter = max(1, len(resident_bytes) // 4)
    early = statistics.median(resident_bytes[quarter : 2 * quarter] or resident_bytes)
    return abs(statistics.median(resident_bytes[-quarter:]) / early - 1)


def _stay(searchers: Child, phase: str, seconds: float) -> None:
    searchers.write(phase)
    time.sleep(seconds)


class Child:
    """One side as a process that lines go to and come from. Raises `RuntimeError`, with its log, once it ended."""

    def __init__(self, module: str, folder: Path, *arguments: object) -> None:
        self._module = module
        folder.mkdir(parents=True, exist_ok=True)
        self._log = folder / f"{module}.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", f"bench.index.{module}", str(folder), *map(str, arguments)],
                cwd=REPOSITORY,
                env={**os.environ, **ONE_THREAD},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def write(self, line: str) -> None:
        """Send a line."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def read(self) -> str:
        """The next line."""
        assert self._process.stdout is not None
        overdue = threading.Timer(LONGEST_SECONDS, self._process.kill)
        overdue.start()
        line = self._process.stdout.readline()
        overdue.cancel()
        if not line:
            raise RuntimeError(f"{self._module} ended:\n{self._log.read_text(errors='replace')[-2_000:]}")
        return line.strip()

    def read_account(self) -> str:
        """The next line that is JSON; those before it are passed over."""
        while not (line := self.read()).startswith("{"):
            pass
        return line

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if error is not None:
            self._process.kill()
        self._process.communicate(timeout=LONGEST_SECONDS)
