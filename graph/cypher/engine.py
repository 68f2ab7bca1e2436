"""Starts the process that forks, hands it questions, and ends what takes too long or says too much."""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import sluice
from sluice.contracts.errors import Overloaded, TimedOut, Unavailable
from sluice.graph.cypher.failures import judged
from sluice.graph.cypher.fork_server import FORKED, LENGTH
from sluice.graph.cypher.guard import Parameter, Statement

MAX_RESULT_BYTES = 8 << 20
MAX_AT_ONCE = 4
"""Questions that run at a time in one process of ours; each may take a processor and some hundred megabytes."""
_START_SECONDS = 20.0
_GRACE_SECONDS = 0.5
"""Given beyond the time limit for the answer of an engine that stopped at it."""
_PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv[1]); from sluice.graph.cypher.fork_server import main; sys.exit(main())"
)
_SOURCES = Path(sluice.__file__).resolve().parents[1]


class ForkServer:
    """The forking process of this process. Safe for threads; a new one is started when it is gone."""

    def __init__(self, at_once: int = MAX_AT_ONCE) -> None:
        """`at_once`: so many questions run at a time; others wait."""
        self._most = at_once
        self._begin()

    def forget(self) -> None:
        """In a process that was forked from ours: leave the forking process to ours, and have one of its own."""
        if self._socket is not None:
            self._socket.close()
        self._begin()

    def run(self, request: Mapping[str, Any], timeout_seconds: float) -> dict[str, Any]:
        """What the child answers to a request; see `graph.cypher.child`.

        Raises TimedOut after the time limit, Overloaded when too many run, Unavailable where no child can be had or one
        ends without an answer.
        """
        if not self._at_once.acquire(timeout=timeout_seconds):
            raise Overloaded("too many Cypher queries run at this time")
        try:
            until = time.monotonic() + timeout_seconds + _GRACE_SECONDS
            reading, child = self._fork(json.dumps(request).encode())
            try:
                written = _read(reading, until)
            finally:
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(child, signal.SIGKILL)
                os.close(child)
                os.close(reading)
        finally:
            self._at_once.release()
        try:
            told = json.loads(written)
        except ValueError:
            raise Unavailable(
                "the Cypher engine ended without an answer: the query took more memory or time than it may, "
                "or the engine failed; a smaller query can help"
            ) from None
        return dict(told)

    @property
    def process_id(self) -> int | None:
        """Of the forking process; None before the first request."""
        return self._process.pid if self._process is not None else None

    def stop(self) -> None:
        """End the forking process and its children."""
        with self._lock:
            self._stop()

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._at_once = threading.BoundedSemaphore(self._most)
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None

    def _fork(self, request: bytes) -> tuple[int, int]:
        """The reading end of a new child's pipe, and the child's descriptor."""
        reading, writing = os.pipe()
        try:
            with self._lock:
                try:
                    child = self._ask(request, writing)
                except OSError:
                    self._stop()
                    child = self._ask(request, writing)
        except OSError as error:
            os.close(reading)
            raise Unavailable(f"no process for a Cypher query can be had: {error}") from error
        except Unavailable:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        return reading, child

    def _ask(self, request: bytes, writing: int) -> int:
        connection = self._connected()
        message = LENGTH.pack(len(request)) + request
        sent = socket.send_fds(connection, [message], [writing])
        connection.sendall(message[sent:])
        told, descriptors, _, _ = socket.recv_fds(connection, 1, 1)
        if told != FORKED or not descriptors:
            raise ConnectionError("it does not fork")
        return descriptors[0]

    def _connected(self) -> socket.socket:
        if self._socket is None:
            self._start()
        assert self._socket is not None  # noqa: S101
        return self._socket

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            process = subprocess.Popen(  # noqa: S603 - our own interpreter and sources
                [sys.executable, "-I", "-B", "-c", _PROGRAM, str(_SOURCES)],
                stdin=theirs.fileno(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={}, cwd="/",
                start_new_session=True,
            )  # fmt: skip
        ours.settimeout(_START_SECONDS)
        try:
            is_up = ours.recv(1) == FORKED
        except TimeoutError:
            is_up = False
        if not is_up:
            ours.close()
            process.kill()
            process.wait()
            raise Unavailable("the Cypher engine does not start: is the package ladybug installed?")
        self._process, self._socket = process, ours

    def _stop(self) -> None:
        if self._socket is not None:
            self._socket.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._process = self._socket = None


_server = ForkServer()
atexit.register(_server.stop)
os.register_at_fork(after_in_child=_server.forget)


def run_statement(
    statement: Statement, folder: Path, timeout_seconds: float, *, without: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Run a statement on the file in `folder`: `columns`, `rows`, `is_cut`, `is_full`.

    Raises InvalidInput of `query` where the engine does not take it, TimedOut, Unavailable, and FileNotFoundError where
    the file is gone.
    """
    return run_text(
        statement.text, statement.parameters, statement.rows, folder, timeout_seconds,
        without=without, optimised=not statement.cuts_before_the_end,
    )  # fmt: skip


def run_text(
    text: str, parameters: Mapping[str, Parameter], rows: int, folder: Path, timeout_seconds: float, *,
    without: tuple[str, ...] = (), optimised: bool = True,
) -> dict[str, Any]:  # fmt: skip
    """Run any text in the locked process, as it is: what `run_statement` does behind the guard."""
    request = {
        "folder": str(folder.resolve()),
        "text": text,
        "parameters": dict(parameters),
        "rows": rows,
        "optimised": optimised,
        "bytes": MAX_RESULT_BYTES,
        "timeout_seconds": timeout_seconds,
        "without": without,
    }
    return judged(_server.run(request, timeout_seconds), timeout_seconds)


def find_layers(folder: Path, *, without: tuple[str, ...] = ()) -> dict[str, Any]:
    """Which layers of the jail hold here (`layers`), and why others do not (`missing`). Raises Unavailable: none."""
    request = {"folder": str(folder.resolve()), "probe": True, "timeout_seconds": 5.0, "without": without}
    return judged(_server.run(request, 5.0), 5.0)


def _read(reading: int, until: float) -> bytes:
    parts: list[bytes] = []
    total = 0
    waiting = select.poll()
    waiting.register(reading, select.POLLIN)
    while True:
        left = until - time.monotonic()
        if left <= 0 or not waiting.poll(left * 1000):
            raise TimedOut("the Cypher query took longer than its time limit, and was ended")
        part = os.read(reading, 1 << 16)
        if not part:
            return b"".join(parts)
        total += len(part)
        if total > 2 * MAX_RESULT_BYTES:
            raise Unavailable("the Cypher engine answers with more than it may")
        parts.append(part)
