"""The hand-over of a corpus from its writer to another process.

A writer holds its corpus for as long as its process lives. A process that needs the corpus to itself locks the file
`handover` beside the writer's lock. Processes that hold a writer look there before each use, and now and then while
idle (`is_handover_requested`); they close the writer and open none until the file is unlocked. The lock ends with the
process that took it: a file that a killed process left behind requests nothing.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from sluice.contracts.errors import TimedOut, Unavailable
from sluice.index.disk.layout import CorpusLayout
from sluice.index.disk.locks import WriterLock


def is_handover_requested(layout: CorpusLayout) -> bool:
    """Whether another process waits for the corpus's writer to close. One system call while none does."""
    try:
        asking = os.open(layout.handover, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(asking, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(asking)
    return False


@contextmanager
def take_over(layout: CorpusLayout, patience_seconds: float) -> Iterator[WriterLock]:
    """Ask for the corpus, wait for its writer to close, and hold the writer's lock for the block.

    The block may move the corpus's folder. Raises `TimedOut` when the writer has not closed after `patience_seconds`.
    """
    folder = os.open(layout.folder, os.O_RDONLY)  # the file goes where the folder goes
    try:
        asking = os.open(layout.handover.name, os.O_RDWR | os.O_CREAT, 0o644, dir_fd=folder)
        try:
            fcntl.flock(asking, fcntl.LOCK_EX)
            try:
                lock = WriterLock(layout, patience_seconds)
            except Unavailable as error:
                problem = f"the writer of corpus {layout.corpus} has not closed within {patience_seconds:g} s"
                raise TimedOut(problem) from error
            try:
                yield lock
            finally:
                lock.release()
        finally:
            with suppress(FileNotFoundError):  # gone with its folder
                os.unlink(layout.handover.name, dir_fd=folder)
            os.close(asking)
    finally:
        os.close(folder)
