"""The shadow of a corpus: the folder beside it in which it is built anew, to take its place.

    .reindex-<corpus>/lock              one builder at a time
    .reindex-<corpus>/<corpus>/         the shadow; after the exchange, the corpus as it was
    .reindex-<corpus>/keep              what was exchanged is to be kept
    .kept-<corpus>-<generation>/        what was kept

Neither offsets, epochs nor numbers of generations go back when the shadow takes the corpus's place: a question waits
for an offset, and a reader knows opened segments by names that have the epoch in them. So the shadow's journal begins
far behind the corpus's, as one whose records up to there were all compacted away; its first writer has a far later
epoch, and its first generation a far higher number. By its offsets a shadow is told from a corpus that was exchanged
and is still to be removed.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from filelock import FileLock, Timeout

from contracts.errors import Conflict
from index.disk.durable import fsync_path, replace_file
from index.disk.layout import CorpusLayout
from index.disk.locks import Pin
from index.generations.manifest import MANIFEST, parse_generation_number
from index.generations.publish import list_generation_names, read_current_name
from index.journal.files import list_files, read_pinned_model
from index.journal.frames import encode_frame
from index.journal.records import Kind, encode_end, encode_pin
from index.journal.tail import JournalTail

OFFSETS_AHEAD = 1 << 32
"""More records than a corpus gets while it is built anew."""
EPOCHS_AHEAD = 1_000_000
"""More writers than open a corpus meanwhile: one a second for eleven days."""
GENERATIONS_AHEAD = 10_000
"""More generations than are published meanwhile. Only lists are ordered by their numbers."""
_NOTHING = 16 * "0"
_LOCK = "lock"
_PIN_GRACE_SECONDS = 2.0
"""How long readers may take to leave the old generations; their searches last milliseconds, and what they have
mapped stays readable when the files are gone."""
_LOOK_SECONDS = 0.02


class BuildAlias:
    """The folder beside one corpus. Made by `open_build_alias`, which holds its lock."""

    def __init__(self, corpus: CorpusLayout) -> None:
        self._corpus = corpus
        self.layout = CorpusLayout(corpus.beside, corpus.corpus)
        self._keep = corpus.beside / "keep"

    def prepare(self, model: tuple[str, int]) -> None:
        """See to it that there is a shadow bound to the model: go on with the one that is there, or begin one."""
        if self._goes_on(model):
            return
        self.clear()
        journal, last = self.layout.journal, read_last_offset(self._corpus) + OFFSETS_AHEAD
        journal.mkdir(parents=True)
        replace_file(self.layout.epoch, f"{_epoch(self._corpus) + EPOCHS_AHEAD}\n".encode())
        head = encode_frame(0, Kind.PIN, encode_pin(*model)) + encode_frame(last, Kind.END, encode_end(0))
        replace_file(journal / f"{1:020d}-{last:020d}.kept", head)
        # A removal of nothing, so that even a corpus without documents covers an offset beyond the old ones.
        replace_file(journal / f"{last + 1:020d}.log", encode_frame(last + 1, Kind.REMOVAL, b""))
        self._number_before().mkdir(parents=True)
        fsync_path(self.layout.folder)
        fsync_path(self._corpus.beside)

    def complete(self, *, is_old_kept: bool) -> None:
        """Make a shadow that has its generation ready for the exchange, and note what is to become of the old corpus.

        Its writer is closed.
        """
        for name in list_generation_names(self.layout):
            if name.endswith(_NOTHING):
                (self.layout.generations / name).rmdir()
        if is_old_kept:
            replace_file(self._keep, b"")
        else:
            self._keep.unlink(missing_ok=True)

    def clear(self) -> Path | None:
        """Remove what is in the shadow's place, or move it to where it is kept and return that."""
        kept = None
        if self._was_exchanged():
            if self._keep.exists():
                kept = self._place_to_keep()
                self.layout.folder.rename(kept)
                fsync_path(self._corpus.root)
            else:
                self._await_readers()
        shutil.rmtree(self.layout.folder, ignore_errors=True)
        for path in _leftovers(self._corpus):  # the mark of what is kept goes after that
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        return kept

    def _goes_on(self, model: tuple[str, int]) -> bool:
        is_whole = _has_segments(self.layout) and _epoch(self.layout) > _epoch(self._corpus)
        return is_whole and not self._was_exchanged() and read_pinned_model(self.layout.journal) == model

    def _was_exchanged(self) -> bool:
        """Whether it is the corpus as it was: then its offsets are behind the corpus's."""
        return self.layout.folder.is_dir() and read_last_offset(self.layout) < read_last_offset(self._corpus)

    def _number_before(self) -> Path:
        """An empty folder named as a generation, so that the shadow's are numbered from there on."""
        newest = max(map(parse_generation_number, list_generation_names(self._corpus)), default=0)
        return self.layout.generations / f"g{newest + GENERATIONS_AHEAD:08d}-{_NOTHING}"

    def _place_to_keep(self) -> Path:
        name = f".kept-{self._corpus.corpus}-{read_current_name(self.layout) or 'empty'}"
        places = (self._corpus.root / (f"{name}.{number}" if number else name) for number in count())
        return next(place for place in places if not place.exists())

    def _await_readers(self) -> None:
        """Let searches end that began before the exchange."""
        deadline = time.monotonic() + _PIN_GRACE_SECONDS
        for name in list_generation_names(self.layout):
            manifest = self.layout.generations / name / MANIFEST
            while manifest.exists() and time.monotonic() < deadline:
                pin = Pin.exclusive(manifest)
                if pin is not None:
                    pin.release()
                    break
                time.sleep(_LOOK_SECONDS)


@contextmanager
def open_build_alias(corpus: CorpusLayout) -> Iterator[BuildAlias]:
    """The corpus's shadow, nobody else's meanwhile. Raises `Conflict` while another process builds it."""
    corpus.beside.mkdir(exist_ok=True)
    lock = FileLock(corpus.beside / _LOCK, timeout=0, thread_local=False)
    try:
        lock.acquire()
    except Timeout as error:
        raise Conflict(f"corpus {corpus.corpus} is being built anew by another process: wait for it") from error
    try:
        yield BuildAlias(corpus)
    finally:
        if not _leftovers(corpus):
            shutil.rmtree(corpus.beside)
        lock.release()


def read_last_offset(corpus: CorpusLayout) -> int:
    """The last offset of the journal as far as it is known without reading it: durable, or in an ended segment."""
    if not _has_segments(corpus):
        return 0
    tail = JournalTail(corpus.journal, 0)
    try:
        durable = tail.durable_offset()
    finally:
        tail.close()
    return max(durable, list_files(corpus.journal)[-1].first_offset - 1)


def _leftovers(corpus: CorpusLayout) -> list[Path]:
    """All that is beside the corpus but the lock."""
    return [path for path in corpus.beside.iterdir() if path.name != _LOCK]


def _has_segments(corpus: CorpusLayout) -> bool:
    """Whether there is a journal; one whose maker was killed at once has no segment yet."""
    return any(corpus.journal.glob("*.log"))


def _epoch(corpus: CorpusLayout) -> int:
    try:
        return int(corpus.epoch.read_text())
    except FileNotFoundError:
        return 0
