"""The witness: an append-only file to which the processes under test say what they do, and which the suite reads.

A fact is one line of JSON, written by one `write(2)` to a file opened with O_APPEND: a process that is killed leaves
whole lines, and the lines of all processes stand in the order in which they were written. The facts:

| fact | said by | when |
|---|---|---|
| `sent` | the suite | the instance has accepted a request (the run's id came back) |
| `reached` | a process | its first passing of a failpoint |
| `fired` | a process | a fault is about to happen at a failpoint |
| `claimed` | a process | the ledger gave it a claim, committed |
| `started` | a process | a handler begins |
| `effected` | a process | a handler has returned: what it does outside the ledger is done |
| `settled`, `retried`, `parked` | a process | the ledger has committed the outcome |
| `ticked` | the reconciler | at the end of every tick |
| `killed` | the suite | it has sent SIGKILL to a process, or to the broker |
| `broker` | the suite | it has flushed, cut or mended the broker |
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Fact:
    """One line. `event` and `epoch` are empty where a fact is about no event; `more` holds what only some facts have."""

    what: str
    at: float
    pid: int
    role: str
    event: str
    epoch: int
    more: dict[str, Any]


class Witness:
    """The file, as one process writes to it. Safe for threads and forks."""

    def __init__(self, path: Path, role: str) -> None:
        self.path = path
        self._of_process = role
        self._at_hand = threading.local()
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    @property
    def role(self) -> str:
        """The stage of the event that this thread has at hand; else the process's role."""
        return getattr(self._at_hand, "stage", self._of_process)

    def turns_to(self, stage: str) -> None:
        """Remember the stage of what this thread has at hand from now on."""
        self._at_hand.stage = stage

    def say(self, what: str, *, event: str = "", epoch: int = 0, **more: Any) -> None:
        """Add a fact."""
        line = {"what": what, "at": time.time(), "pid": os.getpid(), "role": self.role, "event": event, "epoch": epoch}
        os.write(self._descriptor, json.dumps(line | {"more": more}).encode() + b"\n")

    def close(self) -> None:
        """Give the file back."""
        os.close(self._descriptor)


def facts(path: Path, *whats: str, after_byte: int = 0) -> Iterator[Fact]:
    """The facts of these kinds (all, when none is named), in order, from a position on."""
    wanted = tuple(f'{{"what": "{what}"' for what in whats)
    with path.open("rb") as file:
        file.seek(after_byte)
        for line in file:
            text = line.decode()
            if not wanted or text.startswith(wanted):
                yield Fact(**json.loads(text))
