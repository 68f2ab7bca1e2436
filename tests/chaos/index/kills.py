"""SIGKILL at every system call of a publish: a complete generation always loads, nothing acknowledged is lost.

A first run counts the calls that change files; then one run for each dies just before it (between two of them a death
would leave the same files). After each death a reader serves exactly what was served before or exactly what was to be
published, everything listed verifies, and the next writer publishes everything that was acknowledged.

The same with the power cut: what was not flushed is gone too, as `unsynced` tells.
"""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.index.child import ChildFailed, in_child
from tests.chaos.index.corpus import copy_tree
from tests.chaos.index.publishes import Kind, look
from tests.chaos.index.tracer import KILL, Call, Trace
from tests.chaos.index.unsynced import Unsynced


@dataclass(frozen=True, slots=True)
class Death:
    """A child that was killed before call number `point`, what it lost, and what was wrong afterwards."""

    kind: str
    point: int
    call: str
    problems: tuple[str, ...]
    lost_count: int = 0
    """Files and names that the power cut took."""


def deaths(
    kind: Kind, folder: Path, cuts_power: bool = False, first: int = 1, every: int = 1, names: Sequence[str] = ()
) -> Iterator[Death]:
    """A death at every call of the publish that changes files, or at each `every`-th from the `first` on.

    With `names` only calls of these names count.
    """
    base = folder / "base"
    base.mkdir(parents=True)
    in_child(lambda: kind.prepare(base))
    for point in itertools.count(first, every):
        death = die(kind, base, folder / "copy", point, cuts_power, names)
        if death is None:
            break
        yield death
    shutil.rmtree(base)


def count_calls(kind: Kind, base: Path, root: Path) -> int:
    """The calls of an undisturbed run. Raises `AssertionError` when even that one leaves something wrong."""
    calls: list[str] = []
    copy_tree(base, root)
    trace, told = run(kind, root, lambda call: calls.append(call.name) if call.changes_files else None)
    problems = _problems(kind, root, told)
    shutil.rmtree(root)
    assert trace.exit_status == 0
    assert not problems, f"{kind.name}, undisturbed: {problems}"
    return len(calls)


def die(
    kind: Kind, base: Path, root: Path, point: int, cuts_power: bool = False, names: Sequence[str] = ()
) -> Death | None:
    """Kill a run just before call `point`; None when it ended before."""
    calls: list[str] = []

    def decide(call: Call) -> int | None:
        if call.changes_files and len(calls) < point and (not names or call.name in names):
            calls.append(call.name)
            return KILL if len(calls) == point else None
        return None

    copy_tree(base, root)
    try:
        unsynced = Unsynced(root, "CURRENT") if cuts_power else None
        _, told = run(kind, root, decide, unsynced.seen if unsynced else None)
        if len(calls) < point:
            return None
        lost = unsynced.lose() if unsynced else []
        return Death(kind.name, point, calls[-1], _problems(kind, root, told), len(lost))
    finally:
        shutil.rmtree(root)


def run(
    kind: Kind, root: Path, decide: Callable[[Call], int | None], seen: Callable[[Call], None] | None = None
) -> tuple[Trace, bytes]:
    """Follow a run to its end; the trace and what the child had told."""
    ours, theirs = os.pipe()
    trace = Trace(decide, seen)
    try:
        trace.follow(lambda: kind.perform(root, theirs))
        os.close(theirs)
        return trace, os.read(ours, 1_000)
    finally:
        os.close(ours)


def _problems(kind: Kind, root: Path, told: bytes) -> tuple[str, ...]:
    try:
        return tuple(in_child(lambda: look(root, kind, told)))
    except ChildFailed as error:
        return (str(error),)
