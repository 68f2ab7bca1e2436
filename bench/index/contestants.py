"""The contestants, each a process of its own with one processor and one thread, asked in turn over a pipe."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from bench.index.real import Vectors
from bench.peers.environment import ONE_THREAD, peers_python
from tests.support.repository import REPOSITORY

SLUICE = "sluice"
PEERS = ("txtai", "lancedb", "chroma", "sqlite")
"""Each is the module of `bench.peers` that runs it."""
LONGEST_SECONDS = 1_800.0
"""The slowest deed is the ingest of 100,000 chunks on a busy machine."""


class Contestant:
    """An engine in a process of its own. Raises `RuntimeError`, with the end of its log, when it fails."""

    def __init__(self, name: str, command: Sequence[str], folder: Path) -> None:
        folder.mkdir(parents=True)
        self.name = name
        self._log = folder.with_suffix(".log")
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*command, str(folder)],
                cwd=REPOSITORY,
                env={**os.environ, **ONE_THREAD},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        greeting = self._answer()
        self.durability: str = greeting["durability"]
        self.after_add: str = greeting["after_add"]
        self.strategies: list[str] = greeting["strategies"]

    def ingest(self, corpus: Written) -> dict[str, Any]:
        """Ingest everything; `wall_seconds` and `cpu_seconds` of it."""
        return self._ask(do="ingest", **corpus)

    def search(self, questions: Written, strategy: str, limit: int = 10) -> dict[str, Any]:
        """Ask every question; `wall_ms` of each, `cpu_ms` of one on average, `found` numbers of each."""
        return self._ask(do="search", strategy=strategy, limit=limit, **questions)

    def freshen(self, chunks: Written, first: int, strategy: str, finish: bool) -> dict[str, Any]:
        """Add chunks numbered from `first` and find the last; `wall_ms` and `cpu_ms` of both, `add_ms` of the first."""
        return self._ask(do="freshen", first=first, strategy=strategy, finish=finish, **chunks)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _ask(self, **request: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        overdue = threading.Timer(LONGEST_SECONDS, self._process.kill)
        overdue.start()
        line = self._process.stdout.readline()
        overdue.cancel()
        if not line:
            raise RuntimeError(f"{self.name} ended:\n{self._log.read_text(errors='replace')[-2_000:]}")
        answer: dict[str, Any] = json.loads(line)
        return answer


Written = dict[str, str]
"""Paths of texts (JSON) and vectors (.npy), which every contestant reads for itself."""


def write(folder: Path, name: str, texts: Sequence[str], vectors: Vectors) -> Written:
    """Put texts and vectors where contestants can read them."""
    paths = {"texts": folder / f"{name}.json", "vectors": folder / f"{name}.npy"}
    paths["texts"].write_text(json.dumps(list(texts)), encoding="utf-8")
    np.save(paths["vectors"], vectors)
    return {key: str(path) for key, path in paths.items()}


def command_of(name: str) -> list[str]:
    """How a contestant's process is started, without its folder."""
    if name == SLUICE:
        return [sys.executable, "-m", "bench.index.sluice"]
    return [str(peers_python()), "-m", f"bench.peers.{name}"]


@contextmanager
def line_up(names: Sequence[str], folder: Path) -> Iterator[list[Contestant]]:
    """All of them, started, each empty in a folder of its own below `folder`."""
    with ExitStack() as stack:
        yield [stack.enter_context(Contestant(name, command_of(name), folder / name)) for name in names]
