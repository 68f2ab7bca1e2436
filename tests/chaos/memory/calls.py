"""A transaction that is killed, cut off from power, or refused by the disk at each of its system calls."""

from __future__ import annotations

import errno
import itertools
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from sluice.contracts.errors import DiskFull, Unavailable
from sluice.memory.journal.file import state_sha256
from tests.chaos.index.child import ChildFailed, in_child
from tests.chaos.index.tracer import KILL, Call, Trace, mark
from tests.chaos.index.unsynced import Unsynced
from tests.chaos.memory.transactions import KINDS, Kind, look, open_journal, undisturbed

States = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Trial:
    """A transaction that was disturbed at its call number `point`, and what was wrong afterwards."""

    kind: str
    point: int
    call: str
    problems: tuple[str, ...]
    lost_count: int = 0
    """Files and names that a power cut took."""

    def told(self) -> tuple[str, ...]:
        """The problems, each with its place."""
        return tuple(f"{self.kind}, call {self.point} ({self.call}): {problem}" for problem in self.problems)


Disturb = Callable[[Kind, Path, States, int], Trial | None]
"""Takes a root that was prepared for the kind, and the number of the call; None when there were fewer."""


def trials(disturb: Disturb, folder: Path, every: int = 1) -> Iterator[Trial]:
    """A trial for each `every`-th call of each kind of transaction."""
    for kind in KINDS:
        expected = in_child(partial(undisturbed, kind, folder / "undisturbed"))
        shutil.rmtree(folder / "undisturbed")
        for point in itertools.count(1, every):
            root = folder / "root"
            root.mkdir()
            in_child(partial(kind.prepare, root))
            try:
                trial = disturb(kind, root, expected, point)
            finally:
                shutil.rmtree(root)
            if trial is None:
                break
            yield trial


def die(kind: Kind, root: Path, expected: States, point: int, cuts_power: bool = False) -> Trial | None:
    """SIGKILL just before the call, or after the last; with `cuts_power` what was not flushed is gone too."""
    calls: list[str] = []

    def decide(call: Call) -> int | None:
        if not call.changes_files:
            return None
        calls.append(call.name)
        return KILL if len(calls) == point else None

    unsynced = Unsynced(root, "") if cuts_power else None
    ours, theirs = os.pipe()
    try:
        Trace(decide, unsynced.seen if unsynced else None).follow(partial(kind.perform, root, theirs))
        os.close(theirs)
        told = os.read(ours, 100)
    finally:
        os.close(ours)
    if len(calls) < point - 1:
        return None
    lost = unsynced.lose() if unsynced else []
    return Trial(
        kind.name, point, calls[-1] if len(calls) == point else "done", _look(kind, root, told, expected), len(lost)
    )


def refuse(kind: Kind, root: Path, expected: States, point: int, number: int = errno.ENOSPC) -> Trial | None:
    """The call fails. With ENOSPC so do all after it, until there is room again; else only this one."""
    calls: list[str] = []

    def decide(call: Call) -> int | None:
        if not _is_refused(call, root):
            return None
        calls.append(call.name)
        is_full = number == errno.ENOSPC and len(calls) >= point
        return number if is_full or len(calls) == point else None

    ours, theirs = os.pipe()
    try:
        Trace(decide).follow(partial(_endure, kind, root, expected, number, theirs))
        os.close(theirs)
        answer = os.read(ours, 1 << 16).decode()
    finally:
        os.close(ours)
    if len(calls) < point:
        return None
    problems = tuple(filter(None, answer.split("\0"))) if answer else ("the child died",)
    return Trial(kind.name, point, calls[point - 1], problems + _look(kind, root, b"", expected))


def _endure(kind: Kind, root: Path, expected: States, number: int, answer: int) -> None:
    """The transaction while the disk refuses, and again by the same journal once it does not."""
    journal, problems, is_refused = open_journal(root), list[str](), False
    mark()
    try:
        journal.append(kind.entries)
    except Unavailable as error:
        is_refused = True
        if number == errno.ENOSPC and not isinstance(error, DiskFull) and "taken back" not in str(error):
            problems.append(f"a full disk is told as {error!r}")
    except Exception as error:
        problems.append(f"the refusal is told as {error!r}")
    mark()
    found = state_sha256(open_journal(root).read())
    if is_refused and number != errno.ENOSPC and found not in expected[:-1]:
        problems.append("what was refused is there")
    if not is_refused and found != expected[-1]:
        problems.append("what was acknowledged is lost")
    journal.append(kind.entries)
    if state_sha256(journal.read()) != expected[-1]:
        problems.append("the same journal does not go on")
    os.write(answer, "\0".join(problems).encode() + b"\0")


def _is_refused(call: Call, root: Path) -> bool:
    if not call.changes_files:
        return False
    if call.name in ("write", "fsync", "fdatasync", "ftruncate"):
        return call.file_of(0).startswith(str(root))
    return call.name in ("open", "openat", "mkdir")


def _look(kind: Kind, root: Path, told: bytes, expected: States) -> tuple[str, ...]:
    try:
        return tuple(in_child(partial(look, kind, root, told, expected)))
    except ChildFailed as error:
        return (str(error),)
