"""Named places in the life of an event at which the suite can break a process, and the faults it knows.

The product has no hooks. In each process of an instance under test `tests.chaos.delivery.seams` wraps the functions named
here before it runs. Each wrapper passes a failpoint before and one after the call.

A fault is armed by a file, `arms/{role}/{point}/{name}.json`. The process that removes the file is the one that it
happens to, so one arm is one fault, however many processes pass; it is witnessed before it happens.
"""

from __future__ import annotations

import errno
import functools
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from sluice.contracts.errors import InvalidInput
from sluice.contracts.event import AFTERWARDS, QUEUES
from tests.chaos.delivery.witness import Witness

Fault = Literal["kill", "exception", "hang", "enospc", "refusal", "pause"]
FAULTS: tuple[Fault, ...] = ("kill", "exception", "hang", "enospc")
"""Those of the matrix. A `refusal` is an error that no second try mends: it makes dead letters. A `pause` ends."""
HANG_SECONDS, PAUSE_SECONDS = 3_600.0, 15.0
_ARMS = "arms"

SEAMS: dict[str, tuple[str, tuple[str, ...]]] = {
    "accept": ("Ledger.create_run", ("api",)),
    "claim": ("Ledger.claim_next", tuple(queue for queue in QUEUES if queue != "gate")),
    "handler": ("sluice.workers.handlers.HANDLERS[kind]", QUEUES),
    "settle": ("Ledger.settle", QUEUES),
    "go_on": ("what follows was claimed by Ledger.settle", ("query",)),
    "publish": (
        "Transport.publish_wake_ups",
        ("api", *(queue for queue in QUEUES if queue not in {"query", *AFTERWARDS})),
    ),
    "ack": ("the channel's basic_ack", tuple(queue for queue in QUEUES if queue != "gate")),
    "tick": ("Reconciler.tick", ("reconcile",)),
    "journal_append": ("Journal.append", ("index",)),
    "journal_fsync": ("os.fsync of a journal segment", ("index",)),
    "snapshot_rename": ("os.rename of a generation to its name", ("index",)),
    "pointer_swap": ("os.replace of CURRENT", ("index",)),
}
"""Each seam: what is wrapped, and the roles (stages, `api`, `reconcile`) whose processes pass it.

A process of several stages passes a seam in the role of the stage whose event it has at hand. Workers of a stage that
no run waits for hand nothing on, so they publish no wake-up. The gate and the answers share a process, which goes on
from one to the other: the gate takes no wake-up, and queries publish none.
"""

ERASING: dict[str, tuple[str, tuple[str, ...]]] = {
    "hold": ("Quarantine.hold", ("embed",)),
    "release": ("Quarantine.release", ("api",)),
    "forget": ("Forgotten.forget", ("api",)),
    "removal": ("IndexWriter.remove", ("index",)),
    "erase": ("IndexWriter.erase", ("index",)),
    "drop": ("drop_others, of the older generations", ("index",)),
    "blob": ("BlobStore.remove_unused", ("index",)),
    "pages": ("Erasure.forget_pages", ("index",)),
}
"""The seams that only what is quarantined or forgotten passes: `tests.chaos.delivery.erasing` breaks these."""

MOVING: dict[str, tuple[str, tuple[str, ...]]] = {"export": ("transfer.pack", ("index",))}
"""The seams that only an export passes: `tests.chaos.delivery.moving` breaks these, and others while it moves a corpus."""

HOOKS: dict[str, tuple[str, tuple[str, ...]]] = {
    "hook_sign": ("webhook_sender.sign", ("reconcile",)),
    "hook_record": ("WebhookSender.record", ("reconcile",)),
}
"""The seams that only deliveries to webhooks pass: `tests.chaos.delivery.hooks` breaks these."""

SCHEDULES: dict[str, tuple[str, tuple[str, ...]]] = {
    "schedule_begin": ("schedules.begin", ("reconcile",)),
    "schedule_move": ("Schedules.ran", ("reconcile",)),
}
"""The seams that only scheduled runs pass: `tests.chaos.delivery.schedules` breaks these."""

FAILPOINTS: dict[str, tuple[str, ...]] = {
    f"{seam}.{side}": roles for seam, (_, roles) in SEAMS.items() for side in ("before", "after")
}
"""Every failpoint with its roles."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One fault at one failpoint of one role."""

    point: str
    role: str
    fault: Fault

    def __str__(self) -> str:
        return f"{self.role}:{self.point}:{self.fault}"


def cells() -> Iterator[Cell]:
    """The whole matrix."""
    for point, roles in FAILPOINTS.items():
        for role in roles:
            for fault in FAULTS:
                yield Cell(point, role, fault)


def arm(folder: Path, cell: Cell, *, name: str = "once", corpus: str | None = None, keep: bool = False) -> None:
    """Let `cell` happen at the next passing (of an event of `corpus`); with `keep` at every one."""
    path = folder / _ARMS / cell.role / cell.point / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps({"fault": cell.fault, "corpus": corpus, "keep": keep, "cell": str(cell)}))
    partial.rename(path)


def disarm(folder: Path) -> None:
    """Take every arm away that has not happened."""
    for path in (folder / _ARMS).glob("*/*/*.json"):
        path.unlink(missing_ok=True)


@dataclass
class Failpoints:
    """The failpoints of one process."""

    folder: Path
    role: str
    """Of the process where it has no event at hand."""
    witness: Witness
    _reached: set[tuple[int, str, str]] = field(default_factory=set)
    _thread: threading.local = field(default_factory=threading.local)

    def around(self, seam: str, call: Callable[..., Any], concerns: Callable[..., bool] | None = None) -> Any:
        """`call` between its two failpoints, for the calls that concern the seam."""

        @functools.wraps(call)
        def wrapped(*arguments: Any, **named: Any) -> Any:
            if concerns is not None and not concerns(*arguments, **named):
                return call(*arguments, **named)
            self.passes(f"{seam}.before")
            result = call(*arguments, **named)
            self.passes(f"{seam}.after")
            return result

        return wrapped

    def handles(self, corpus: str) -> None:
        """Remember whose event this thread handles, for arms that mean one corpus."""
        self._thread.corpus = corpus

    def turns_to(self, stage: str) -> None:
        """Remember of which stage the event is that this thread has at hand."""
        self.witness.turns_to(stage)

    def passes(self, point: str) -> None:
        """Pass a failpoint: where it is armed, the fault happens here."""
        if (os.getpid(), self.witness.role, point) not in self._reached:
            self._reached.add((os.getpid(), self.witness.role, point))
            self.witness.say("reached", point=point)
        armed = self._take(point)
        if armed is not None:
            self.witness.say("fired", point=point, **armed)
            _happen(armed["fault"], point)

    def _take(self, point: str) -> dict[str, Any] | None:
        folder = self.folder / _ARMS / self.witness.role / point
        try:
            paths = [entry.path for entry in os.scandir(folder) if entry.name.endswith(".json")]
        except FileNotFoundError:
            return None
        return next((armed for path in sorted(paths) if (armed := self._consume(Path(path), point))), None)

    def _consume(self, path: Path, point: str) -> dict[str, Any] | None:
        try:
            armed: dict[str, Any] = json.loads(path.read_text())
            if armed["corpus"] not in (None, getattr(self._thread, "corpus", None)):
                return None
            if not armed["keep"]:
                path.unlink()
        except FileNotFoundError:  # another thread or process was first
            return None
        return armed


def _happen(fault: Fault, point: str) -> None:
    match fault:
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "exception":
            raise RuntimeError(f"the suite broke {point}")
        case "hang":
            time.sleep(HANG_SECONDS)
        case "pause":
            time.sleep(PAUSE_SECONDS)
        case "refusal":
            raise InvalidInput("suite", f"refused at {point}")
        case "enospc":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), point)
