"""Work in a process of its own, forked from a warm parent: no thread, lock or open file outlives the work.

The parent imports the index and never runs it, so it has no thread and forking it is safe.
"""

from __future__ import annotations

import os
import pickle
import select
import signal
import time
import traceback
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")


class ChildFailed(AssertionError):
    """The work raised, or its process ended without an answer."""


def in_child(work: Callable[[], Result], timeout_seconds: float = 60.0) -> Result:
    """What `work` returns, from a forked child. Raises `ChildFailed` with the child's traceback."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(ours)
        _answer(work, theirs)
    os.close(theirs)
    try:
        content = read_to_end(ours, timeout_seconds)
    finally:
        os.close(ours)
        os.kill(child, signal.SIGKILL)  # it has answered, or never will
        os.waitpid(child, 0)
    if not content:
        raise ChildFailed(f"the child gave no answer within {timeout_seconds:.0f} s, or died")
    is_well, result = pickle.loads(content)
    if not is_well:
        raise ChildFailed(result)
    return result  # type: ignore[no-any-return]


def read_to_end(descriptor: int, timeout_seconds: float) -> bytes:
    """Everything until the other side closes; nothing when that takes too long."""
    deadline, parts = time.monotonic() + timeout_seconds, []
    while True:
        if not select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))[0]:
            return b""
        part = os.read(descriptor, 1 << 16)
        if not part:
            return b"".join(parts)
        parts.append(part)


def quiet() -> None:
    """Let this process write no more errors to the terminal: libraries report there what the tests provoke."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    os.close(nowhere)


def _answer(work: Callable[[], object], report: int) -> None:
    quiet()
    try:
        content = pickle.dumps((True, work()))
    except BaseException:
        content = pickle.dumps((False, traceback.format_exc(limit=-6)))
    with os.fdopen(report, "wb") as file:
        file.write(content)
    os._exit(0)
