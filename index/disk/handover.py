"""The hand-over of a corpus from whoever writes to it: it is asked for, and the writer lets go by itself.

A writer holds its corpus for as long as its process lives. Who needs the corpus to itself locks the file
`handover` beside the writer's lock. Whoever may hold a writer looks there before each use, and now and then
while idle (`is_wanted`), closes its writer and takes none until the file is unlocked. The lock ends with the process
that asked: a file it left behind asks for nothing.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from contracts.errors import TimedOut, Unavailable
from index.disk.layout import CorpusLayout
from index.disk.locks import WriterLock

_LOOK_SECONDS = 0.02


def is_wanted(layout: CorpusLayout) -> bool:
    """Whether somebody waits for the corpus's writer to let go. One system call while nobody does."""
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
def taken_over(layout: CorpusLayout, patience_seconds: float) -> Iterator[WriterLock]:
    """The right to write the corpus, once its writer has let go; asked for until the block is left.

    The corpus's folder may be moved meanwhile. Raises `TimedOut` when nobody lets go in time.
    """
    folder = os.open(layout.folder, os.O_RDONLY)  # the file goes where the folder goes
    try:
        asking = os.open(layout.handover.name, os.O_RDWR | os.O_CREAT, 0o644, dir_fd=folder)
        try:
            fcntl.flock(asking, fcntl.LOCK_EX)
            lock = _await_lock(layout, patience_seconds)
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


def _await_lock(layout: CorpusLayout, patience_seconds: float) -> WriterLock:
    deadline = time.monotonic() + patience_seconds
    while True:
        try:
            return WriterLock(layout)
        except Unavailable as error:
            if time.monotonic() >= deadline:
                problem = f"the writer of corpus {layout.corpus} has not let go within {patience_seconds:g} s"
                raise TimedOut(problem) from error
        time.sleep(_LOOK_SECONDS)
