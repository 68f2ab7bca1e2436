"""Places in a transaction at which a writer is killed from inside. The product has no hooks: calls are wrapped.

`tests.chaos.memory.calls` kills at every system call of a single transaction; these are the telling ones, among others
that write at the same time.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

POINTS = (
    "write.before",
    "write.half",
    "write.group",
    "write.after",
    "flush.after",
    "aside.after",
    "cut.before",
    "cut.after",
)
"""`write.half` leaves half of what was to be written, `write.group` whole lines of it without the last."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A writer dies when it passes a point for the `passes`-th time."""

    point: str
    passes: int


def arm(fault: Fault) -> None:
    """Let the fault happen to this process."""
    left = [fault.passes]

    def passes(point: str) -> bool:
        if point != fault.point:
            return False
        left[0] -= 1
        return left[0] == 0

    def die_at(point: str) -> None:
        if passes(point):
            os.kill(os.getpid(), signal.SIGKILL)

    def write(descriptor: int, content: bytes, original: Callable[[int, bytes], int] = os.write) -> int:
        if not _is_journal(descriptor):
            return original(descriptor, content)
        die_at("write.before")
        if passes("write.half"):
            original(descriptor, content[: len(content) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        if content.count(b"\n") > 1 and passes("write.group"):
            original(descriptor, content[: content.index(b"\n") + 1])
            os.kill(os.getpid(), signal.SIGKILL)
        written = original(descriptor, content)
        die_at("write.after")
        return written

    def around(name: str, concerns: Callable[[int], bool], before: str, after: str) -> None:
        original = getattr(os, name)

        def call(descriptor: int, *arguments: Any) -> Any:
            if not concerns(descriptor):
                return original(descriptor, *arguments)
            die_at(before)
            result = original(descriptor, *arguments)
            die_at(after)
            return result

        setattr(os, name, call)

    os.write = write
    around("fdatasync", _is_journal, "", "flush.after")
    around("ftruncate", _is_journal, "cut.before", "cut.after")
    around("fsync", _is_side_file, "", "aside.after")


def _is_journal(descriptor: int) -> bool:
    return _path(descriptor).endswith(".jsonl")


def _is_side_file(descriptor: int) -> bool:
    return ".jsonl.torn-" in _path(descriptor)


def _path(descriptor: int) -> str:
    return os.readlink(f"/proc/self/fd/{descriptor}")
