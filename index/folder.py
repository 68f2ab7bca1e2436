"""The folder of a corpus: its files below a root folder, and its locks.

<root>/<corpus>/
    journal/00000000000000000001.log     the truth: append-only segments, named by first offset
    generations/g00000001-<hash>/        complete, immutable, verifiable views
    CURRENT -> generations/g0000000…     the pointer that queries follow
    HELD                                 the generation of a rollback, and the offset that it leaves out
    working/                             the writer's working set; disposable
    writer.lock  epoch                   one writer, and the fencing token that makes an older one fail
    handover                             locked by a process that needs the writer to close
<root>/.reindex-<corpus>/<corpus>/       the corpus being reindexed with another model (`index.local.reindex`)
<root>/.fallback/<corpus>/               its second index, with vectors of the local model (`embed.fallback`)

Folders below the root whose names begin with a dot are not corpora.

A writer holds its corpus for as long as its process lives. A process that needs the corpus to itself locks the file
`handover` beside the writer's lock. Processes that hold a writer look there before each use, and now and then while
idle (`is_handover_requested`); they close the writer and open none until the file is unlocked. The lock ends with the
process that took it: a file that a killed process left behind requests nothing. Readers pin generations.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Self

from sluice.contracts.base import CORPUS_NAME
from sluice.contracts.errors import Corrupted, Fenced, InvalidInput, NotFound, TimedOut, Unavailable
from sluice.disk.durable import is_shortage, lock_file, replace_file

FALLBACK_FOLDER = ".fallback"
"""Folder below the index root of the corpora's second indices: their chunks with vectors of the local model."""


class CorpusLayout:
    """The paths of one corpus, as drawn above. Raises `InvalidInput` for a name that could leave its folder."""

    def __init__(self, root: Path, corpus: str) -> None:
        if not CORPUS_NAME.fullmatch(corpus):
            raise InvalidInput("corpus", f"{corpus!r} is not a corpus name", f"match {CORPUS_NAME.pattern}")
        self.root = root
        self.corpus = corpus
        self.folder = root / corpus
        self.journal = self.folder / "journal"
        self.generations = self.folder / "generations"
        self.current = self.folder / "CURRENT"
        self.held = self.folder / "HELD"
        self.working = self.folder / "working"
        self.lock = self.folder / "writer.lock"
        self.epoch = self.folder / "epoch"
        self.handover = self.folder / "handover"
        self.beside = root / f".reindex-{corpus}"


def list_corpora(root: Path) -> tuple[str, ...]:
    """Return the names of the corpora below `root`, sorted: every folder that has a journal and is not hidden."""
    if not root.is_dir():
        return ()
    found = (path for path in root.iterdir() if not path.name.startswith("."))
    return tuple(sorted(path.name for path in found if (path / "journal").is_dir()))


class WriterLock:
    """The right to write one corpus. Each holder gets a higher epoch, kept in a file.

    The lock ends with the process; the epoch catches a holder that lost it without noticing (a
    deleted lock file, a file system whose locks expire). Raises `Unavailable` when another writer holds it.
    """

    def __init__(self, layout: CorpusLayout, patience_seconds: float = 0.0) -> None:
        """Wait at most `patience_seconds` for another writer to release it."""
        layout.folder.mkdir(parents=True, exist_ok=True)
        self._layout = layout
        self.guard: Callable[[], None] = lambda: None
        """Raises `Fenced` where the process may write no corpus any more."""
        self._held = ExitStack()
        refusal = Unavailable(f"another writer holds corpus {layout.corpus}")
        self._held.enter_context(lock_file(layout.lock, refusal, timeout_seconds=patience_seconds, poll_seconds=0.02))
        self.epoch = _read_epoch(layout.epoch) + 1
        replace_file(layout.epoch, f"{self.epoch}\n".encode())

    def check(self) -> None:
        """Raise `Fenced` when a later writer has taken over."""
        self.guard()
        found = _read_epoch(self._layout.epoch)
        if found != self.epoch:
            raise Fenced(f"corpus {self._layout.corpus} has a writer of epoch {found}; this one has {self.epoch}")

    def release(self) -> None:
        """Release the lock, so that another writer can open the corpus."""
        self._held.close()


class Pin:
    """A shared lock on a generation's manifest: while it exists, the collector does not remove the folder."""

    def __init__(self, manifest: Path) -> None:
        try:
            self._descriptor = os.open(manifest, os.O_RDONLY)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise NotFound(f"generation {manifest.parent.name} is gone") from error
        except OSError as error:
            failure = Unavailable if is_shortage(error) else Corrupted
            raise failure(f"the manifest of {manifest.parent.name} cannot be opened: {error}") from error
        fcntl.flock(self._descriptor, fcntl.LOCK_SH)
        if not manifest.exists():
            self.release()
            raise NotFound(f"generation {manifest.parent.name} was collected")

    @classmethod
    def exclusive(cls, manifest: Path) -> Self | None:
        """Return the lock that a collector needs, or None while any reader has the generation pinned."""
        pin = cls.__new__(cls)
        try:
            pin._descriptor = os.open(manifest, os.O_RDONLY)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(pin._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pin.release()
            return None
        return pin

    def release(self) -> None:
        """Release the lock. Garbage collection of the pin does so, too."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __del__(self) -> None:
        if getattr(self, "_descriptor", -1) >= 0:
            self.release()


def _read_epoch(path: Path) -> int:
    if not path.exists():
        return 0
    content = path.read_text()
    if not content.strip().isdecimal():
        raise Corrupted(f"{path} holds no number: write one into it that is higher than any epoch in the manifests")
    return int(content)


def raise_epoch(layout: CorpusLayout, least: int) -> None:
    """Make the epochs of the corpus's next writers greater than `least`."""
    if _read_epoch(layout.epoch) < least:
        replace_file(layout.epoch, f"{least}\n".encode())


def is_handover_requested(layout: CorpusLayout) -> bool:
    """Return whether another process waits for the corpus's writer to close. One system call while none does."""
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
