"""The path and lock of a feature's journal (one writer at a time, on one machine), and the system's refusals."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from sluice.contracts.errors import DiskFull, InvalidInput, Unavailable, is_disk_full
from sluice.contracts.memory.names import FEATURE_NAME, FEATURE_REMEDY
from sluice.disk.locks import lock_file

LOCK_TIMEOUT_SECONDS = 10.0
"""A transaction holds the lock for one flush of the disk, so some hundred writers may wait."""
_POLL_SECONDS = 0.002
"""About the time of one flush: with filelock's own 0.05 eight writers would wait for nothing, most of the time."""


@contextmanager
def lock_journal(journal: Path, timeout_seconds: float = LOCK_TIMEOUT_SECONDS) -> Iterator[None]:
    """Hold the lock of a journal, which is a file beside it that stays.

    The lock file is opened for each transaction: a process that was forked holds none of its parent's. The kernel takes
    the lock back when a process dies. It does not hold over NFS, and is refused where a file system knows no `flock`.

    Raises:
        Unavailable: another process held it for all of `timeout_seconds`, or there can be no lock.
    """
    path = journal.with_name(f"{journal.name}.lock")
    refusal = Unavailable(f"another process holds {path} for {timeout_seconds:g} s; try again later")
    with ExitStack() as held:
        with refusals(path, "locked"):
            lock = lock_file(path, refusal, timeout_seconds=timeout_seconds, poll_seconds=_POLL_SECONDS)
            held.enter_context(lock)
        yield


@contextmanager
def refusals(path: Path, what: str) -> Iterator[None]:
    """Say of an `OSError` in the block that `path` cannot be `what` (written, read): `DiskFull` or `Unavailable`."""
    try:
        yield
    except OSError as error:
        failure = DiskFull if is_disk_full(error) else Unavailable
        raise failure(f"{path} cannot be {what}: {error}") from error


DEFAULT_FOLDER = Path(".ralph/db/memory")
"""In a repository, where no other folder is given."""


def journal_path(folder: Path, feature: str) -> Path:
    """The journal of a feature.

    Raises:
        InvalidInput: the name is none of a feature.
    """
    if not FEATURE_NAME.fullmatch(feature):
        raise InvalidInput("feature", f"{feature!r} is no name of a feature", FEATURE_REMEDY)
    return folder / f"{feature}.jsonl"
