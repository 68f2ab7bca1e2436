"""A disk that is full from the n-th growing call on: the old generation serves, and a later call publishes by itself.

While the disk is full every refused append and publish must raise `Unavailable` and nothing else, a reader must serve
what was served before, and nothing half-written may be listed. When space returns the same writer object appends what
it had refused, publishes, and everything is found. Calls are refused by the tracer, each point exactly; and, where
this process may mount, by a small file system that is truly full.
"""

from __future__ import annotations

import ctypes
import errno
import itertools
import os
import shutil
import subprocess
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from sluice.contracts.document import ChunkedDocument
from sluice.contracts.errors import Unavailable
from sluice.index.local.writer import IndexWriter
from tests.chaos.index.child import ChildFailed, in_child, quiet
from tests.chaos.index.corpus import CORPUS, TODAY, Step, after, copy_tree, found, new_reader, passages
from tests.chaos.index.publishes import Kind, unverified
from tests.chaos.index.tracer import Call, Trace, mark

_DESCRIPTORS = {"write": 0, "pwrite64": 0, "writev": 0, "sendfile": 0, "fallocate": 0, "fsync": 0, "fdatasync": 0}
_PATHS = {"open": 0, "openat": 1, "mkdir": 0, "mkdirat": 1, "link": 1, "linkat": 3, "symlink": 1, "symlinkat": 2}
_RENAMES = {"rename": 1, "renameat": 3, "renameat2": 3}


@dataclass(frozen=True, slots=True)
class Shortage:
    """A disk that was full from `point` on: what was refused first, how many calls failed, what was wrong."""

    kind: str
    point: int
    call: str
    refused_steps: int
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Endured:
    """What the child saw: how many steps or publishes were refused, and what was wrong."""

    refused: int
    problems: tuple[str, ...]


def endure(kind: Kind, root: Path, fill: Callable[[], None], relieve: Callable[[], None]) -> Endured:
    """Append and publish on a disk that is full between `fill` and `relieve`, then again by the same writer."""
    died: list[str] = []
    threading.excepthook = lambda facts: died.append(f"a thread ended with {facts.exc_value!r}")
    writer = IndexWriter(root, CORPUS, kind.settings, clock=lambda: TODAY)
    fill()
    refused: list[Step] = []
    problems: list[str] = []
    for step in kind.steps:
        problems += _unless_unavailable(partial(step.perform, writer), refused, step)
    count = len(refused)
    problems += _unless_unavailable(writer.rebuild if kind.rebuilds else writer.publish, refused, Step())
    is_published = len(refused) == count
    recorded = [record for step in kind.steps if step not in refused for record in step.records]
    problems += [f"while full: {problem}" for problem in _served(root, kind, recorded, is_published)]
    relieve()
    for step in refused:
        step.perform(writer)
    published = writer.publish()
    reader = new_reader(root, problems)
    if found(reader) != passages(kind.new) or reader.generation != published.name:
        problems.append(f"with space again {reader.generation} is served and holds something else")
    problems += unverified(root)
    writer.close()
    return Endured(len(refused), tuple(problems + died))


def shortages(kind: Kind, folder: Path, first: int = 1, every: int = 1) -> Iterator[Shortage]:
    """A shortage from every call on that grows something, or from each `every`-th after the `first`."""
    base, root = folder / "base", folder / "copy"
    base.mkdir(parents=True)
    in_child(lambda: kind.prepare(base))
    for point in itertools.count(first, every):
        copy_tree(base, root)
        try:
            shortage = run_short(kind, root, point)
        finally:
            shutil.rmtree(root)
        if shortage is None:
            break
        yield shortage
    shutil.rmtree(base)


def run_short(kind: Kind, root: Path, point: int) -> Shortage | None:
    """Refuse every growing call from number `point` on; None when there were fewer."""
    calls: list[str] = []

    def decide(call: Call) -> int | None:
        if not grows(call, str(root)):
            return None
        calls.append(call.name)
        return errno.ENOSPC if len(calls) >= point else None

    ours, theirs = os.pipe()
    trace = Trace(decide)
    try:
        trace.follow(lambda: _report(kind, root, theirs))
        os.close(theirs)
        content = os.read(ours, 1 << 16).decode()
    finally:
        os.close(ours)
    if len(calls) < point:
        return None
    refused, *problems = content.split("\0") if content else ("0", f"the child ended with {trace.exit_status}")
    problems += _later(kind, root)
    return Shortage(kind.name, point, calls[point - 1], int(refused), tuple(problems))


def full_file_systems(kind: Kind, folder: Path, free_blocks: Iterable[int]) -> Iterator[Shortage]:
    """The same on a file system that has only so many blocks left. Raises `OSError` where mounting is forbidden."""
    base, disk = folder / "base", folder / "disk"
    base.mkdir(parents=True)
    in_child(lambda: kind.prepare(base))
    for free in free_blocks:
        with small_disk(disk, 16_000_000):
            copy_tree(base, disk / "root")
            yield _on_small_disk(kind, disk, free)
    shutil.rmtree(base)


def _on_small_disk(kind: Kind, disk: Path, free: int) -> Shortage:
    filler = disk / "filler"

    def fill() -> None:
        status = os.statvfs(disk)
        with filler.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, max(1, (status.f_bavail - free) * status.f_bsize))

    try:
        endured = in_child(lambda: endure(kind, disk / "root", fill, filler.unlink))
    except ChildFailed as error:
        endured = Endured(0, (str(error),))
    problems = endured.problems + tuple(_later(kind, disk / "root"))
    return Shortage(kind.name, free, "blocks left", endured.refused, problems)


def grows(call: Call, root: str) -> bool:
    """Whether a full disk below `root` may refuse the call."""
    if call.name in _DESCRIPTORS:
        return call.file_of(_DESCRIPTORS[call.name]).startswith(root)
    if call.name in _PATHS and call.changes_files:
        path = call.path_of(_PATHS[call.name])
        return path.startswith(root) and not os.path.lexists(path)
    return call.name in _RENAMES and call.path_of(_RENAMES[call.name]).startswith(root)


@contextmanager
def small_disk(at: Path, size_bytes: int) -> Iterator[None]:
    """A file system in memory with a size of its own."""
    at.mkdir(exist_ok=True)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"tmpfs", os.fsencode(at), b"tmpfs", 0, f"size={size_bytes}".encode()) != 0:
        raise OSError(ctypes.get_errno(), "mounting a small file system is not allowed here")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(at)], check=True, timeout=30)


def _report(kind: Kind, root: Path, report: int) -> None:
    """Endure, and send what was seen in one piece small enough for a pipe."""
    quiet()
    try:
        endured = endure(kind, root, mark, mark)
    except BaseException:
        endured = Endured(0, (traceback.format_exc(limit=-6),))
    os.write(report, "\0".join([str(endured.refused), *endured.problems]).encode()[:60_000])


def _unless_unavailable(work: Callable[[], object], refused: list[Step], step: Step) -> list[str]:
    try:
        work()
    except Unavailable:
        refused.append(step)
    except Exception as error:
        refused.append(step)
        return [f"a full disk raised {error!r}"]
    return []


def _served(root: Path, kind: Kind, recorded: Sequence[ChunkedDocument | str], is_published: bool) -> list[str]:
    """What is wrong with what a fresh reader finds while the disk is full.

    A publish may be refused at its very last call, the flush of a pointer that names the new generation already.
    """
    problems = unverified(root)
    reader = new_reader(root, problems)
    held = found(reader)
    right = [passages(after(kind.before.holding, recorded))] + ([] if is_published else [passages(kind.old)])
    if held not in right:
        problems.append(f"{len(held)} passages are served, {' or '.join(str(len(one)) for one in right)} are right")
    reader.close()
    return problems


def _later(kind: Kind, root: Path) -> list[str]:
    """What is wrong once the writer has closed."""

    def check() -> list[str]:
        problems: list[str] = []
        reader = new_reader(root, problems)
        if found(reader) != passages(kind.new):
            problems.append("after the writer closed something else is served")
        left = (path.name for path in (root / CORPUS / "generations").iterdir() if path.name.startswith("."))
        return problems + unverified(root) + [f"left behind: {name}" for name in left]

    try:
        return in_child(check)
    except ChildFailed as error:
        return [str(error)]
