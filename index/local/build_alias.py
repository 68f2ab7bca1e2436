"""The build alias of a corpus: the folder beside the corpus in which it is rebuilt before the swap.

    .reindex-<corpus>/lock              one builder at a time
    .reindex-<corpus>/<corpus>/         the build alias; after the swap, the old corpus
    .reindex-<corpus>/keep              marks that the old corpus is to be kept
    .kept-<corpus>-<generation>/        an old corpus that was kept

Offsets, epochs and generation numbers must not decrease when the build alias replaces the corpus: queries wait for an
offset, and readers know open segments by names that contain the epoch. So the journal of the build alias begins at a
much higher offset, as if all records before it had been compacted away; its first writer has a much higher epoch, and
its first generation a much higher number. The offsets also tell a build alias from an old corpus that was swapped out
and is still to be removed.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from sluice.contracts.errors import Conflict
from sluice.disk.durable import fsync_path, lock_file, replace_file
from sluice.index.folder import CorpusLayout, Pin
from sluice.index.generations.manifest import MANIFEST, parse_generation_number
from sluice.index.generations.publish import list_generation_names, read_current_name
from sluice.index.journal.files import encode_frame, read_pinned_model
from sluice.index.journal.journal import read_last_offset
from sluice.index.journal.records import Kind, encode_end, encode_pin

OFFSETS_AHEAD = 1 << 32
"""More records than a corpus gets while it is rebuilt."""
EPOCHS_AHEAD = 1_000_000
"""More writers than open a corpus meanwhile: one a second for eleven days."""
GENERATIONS_AHEAD = 10_000
"""More generations than are published meanwhile. Only lists are ordered by their numbers."""
_NOTHING = 16 * "0"
_LOCK = "lock"
_PIN_GRACE_SECONDS = 2.0
"""Time that readers get to release the old generations. Their searches take milliseconds, and files that they have
mapped stay readable when they are removed."""
_LOOK_SECONDS = 0.02


class BuildAlias:
    """The folder beside one corpus. Made by `open_build_alias`, which holds its lock."""

    def __init__(self, corpus: CorpusLayout) -> None:
        self._corpus = corpus
        self.layout = CorpusLayout(corpus.beside, corpus.corpus)
        self._keep = corpus.beside / "keep"

    def prepare(self, model: tuple[str, int]) -> None:
        """Continue with the build alias if it is bound to the model (fingerprint, dimension); else begin another."""
        if self._can_continue(model):
            return
        self.clear()
        journal, last = self.layout.journal, read_last_offset(self._corpus) + OFFSETS_AHEAD
        journal.mkdir(parents=True)
        replace_file(self.layout.epoch, f"{_epoch(self._corpus) + EPOCHS_AHEAD}\n".encode())
        head = encode_frame(0, Kind.PIN, encode_pin(*model)) + encode_frame(last, Kind.END, encode_end(0))
        replace_file(journal / f"{1:020d}-{last:020d}.kept", head)
        # A removal without a document, so that even a corpus without documents covers an offset beyond the old ones.
        replace_file(journal / f"{last + 1:020d}.log", encode_frame(last + 1, Kind.REMOVAL, b""))
        self._reserve_number().mkdir(parents=True)
        fsync_path(self.layout.folder)
        fsync_path(self._corpus.beside)

    def complete(self, *, keeps_old: bool) -> None:
        """Prepare the published and closed build alias for the swap; mark whether the old corpus is to be kept."""
        for name in list_generation_names(self.layout):
            if name.endswith(_NOTHING):
                (self.layout.generations / name).rmdir()
        if keeps_old:
            replace_file(self._keep, b"")
        else:
            self._keep.unlink(missing_ok=True)

    def clear(self) -> Path | None:
        """Remove the build alias; move an old corpus that is to be kept, and return its new folder."""
        kept = None
        if self._was_swapped():
            if self._keep.exists():
                kept = self._choose_kept_folder()
                self.layout.folder.rename(kept)
                fsync_path(self._corpus.root)
            else:
                self._await_readers()
        shutil.rmtree(self.layout.folder, ignore_errors=True)
        for path in _leftovers(self._corpus):  # the mark `keep` is removed only after the move
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        return kept

    def _can_continue(self, model: tuple[str, int]) -> bool:
        is_whole = _has_segments(self.layout) and _epoch(self.layout) > _epoch(self._corpus)
        return is_whole and not self._was_swapped() and read_pinned_model(self.layout.journal) == model

    def _was_swapped(self) -> bool:
        """Return whether the folder holds the old corpus: its offsets are lower than the corpus's."""
        return self.layout.folder.is_dir() and read_last_offset(self.layout) < read_last_offset(self._corpus)

    def _reserve_number(self) -> Path:
        """Return an empty folder named as a generation: the build alias numbers its generations from there on."""
        newest = max(map(parse_generation_number, list_generation_names(self._corpus)), default=0)
        return self.layout.generations / f"g{newest + GENERATIONS_AHEAD:08d}-{_NOTHING}"

    def _choose_kept_folder(self) -> Path:
        name = f".kept-{self._corpus.corpus}-{read_current_name(self.layout) or 'empty'}"
        places = (self._corpus.root / (f"{name}.{number}" if number else name) for number in count())
        return next(place for place in places if not place.exists())

    def _await_readers(self) -> None:
        """Wait for searches that began before the swap."""
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
    """Lock and yield the corpus's build alias. Raises `Conflict` while another process holds it."""
    corpus.beside.mkdir(exist_ok=True)
    refusal = Conflict(f"corpus {corpus.corpus} is being rebuilt by another process: wait for it")
    with lock_file(corpus.beside / _LOCK, refusal):
        try:
            yield BuildAlias(corpus)
        finally:
            if not _leftovers(corpus):
                shutil.rmtree(corpus.beside)


def _leftovers(corpus: CorpusLayout) -> list[Path]:
    """Return all files in the folder except the lock."""
    return [path for path in corpus.beside.iterdir() if path.name != _LOCK]


def _has_segments(corpus: CorpusLayout) -> bool:
    """Return whether there is a journal with a segment; there is none if its writer was killed at once."""
    return any(corpus.journal.glob("*.log"))


def _epoch(corpus: CorpusLayout) -> int:
    try:
        return int(corpus.epoch.read_text())
    except FileNotFoundError:
        return 0
