"""Writes the engine's file of the current generation, in a process of its own.

A crash of the engine ends that process and nothing else. One process writes at a time in a corpus, held by a file lock;
one that takes too long is killed, and what it left is thrown away by the next.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Mapping
from math import ceil
from pathlib import Path

from filelock import FileLock, Timeout

import sluice
from sluice.contracts.errors import TimedOut, Unavailable
from sluice.graph.cypher.engine_file import write_file
from sluice.graph.cypher.files import CypherFile, file_of
from sluice.graph.cypher.rows import DocumentFacts, edge_rows, node_rows
from sluice.graph.generations.publish import current, open_generation

LOCK = ".cypher.lock"
_PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv[1]); from sluice.graph.cypher.build import main; "
    "sys.exit(main(sys.argv[2]))"
)
_SOURCES = Path(sluice.__file__).resolve().parents[1]
_TOLD_CHARACTERS = 500


def build_in_child(
    folder: Path, timeout_seconds: float, *, corpus: str = "default", facts: Mapping[str, DocumentFacts] | None = None
) -> CypherFile | None:
    """Write the engine's file of the current generation, unless it is there; None: nothing is published.

    `folder` holds the generations of the corpus. Raises TimedOut after the time limit, Unavailable where another
    process writes, or the child fails.
    """
    generation = current(folder)
    if generation is None:
        return None
    try:
        with FileLock(folder / LOCK, timeout=0, thread_local=False):
            written = file_of(folder / generation.name)
            if written is None:
                _in_child(folder, timeout_seconds, corpus, facts or {})
                written = file_of(folder / generation.name)
    except Timeout as error:
        raise Unavailable(f"another process writes the file of the Cypher engine in {folder}") from error
    if written is None:
        raise Unavailable(f"the file of the Cypher engine of {generation.name} was not written")
    return written


def main(folder: str) -> int:
    """The child: build for the generation that is current, with what standard input says."""
    told = json.load(sys.stdin)
    # Who waits for this may be gone by then.
    resource.setrlimit(resource.RLIMIT_CPU, (told["cpu_seconds"], told["cpu_seconds"]))
    facts = {key: DocumentFacts(*values) for key, values in told["facts"].items()}
    build(Path(folder), told["corpus"], facts)
    return 0


def build(folder: Path, corpus: str, facts: Mapping[str, DocumentFacts]) -> CypherFile | None:
    """Write the file here and now; see `build_in_child`. Raises Corrupted where the generation is damaged."""
    generation = current(folder)
    if generation is None:
        return None
    view = open_generation(folder, generation)
    return write_file(folder / generation.name, node_rows(view, corpus, facts), edge_rows(view), generation.version)


def _in_child(folder: Path, timeout_seconds: float, corpus: str, facts: Mapping[str, DocumentFacts]) -> None:
    process = subprocess.Popen(  # noqa: S603 - our own interpreter and sources
        [sys.executable, "-I", "-B", "-c", _PROGRAM, str(_SOURCES), str(folder.resolve())],
        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        env={"OMP_NUM_THREADS": "1"}, cwd="/", start_new_session=True, text=True,
    )  # fmt: skip
    try:
        request = {"corpus": corpus, "facts": facts, "cpu_seconds": ceil(timeout_seconds) + 1}
        _, told = process.communicate(json.dumps(request), timeout=timeout_seconds)
    except subprocess.TimeoutExpired as error:
        raise TimedOut(f"writing the file of the Cypher engine took longer than {timeout_seconds:g} s") from error
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    if process.returncode:
        raise Unavailable(
            f"the process that writes the file of the Cypher engine ended with {process.returncode}: "
            f"{told.strip()[-_TOLD_CHARACTERS:]}"
        )
