"""The journal of a corpus: every upsert and removal, in order, on disk. The index is rebuilt from it.

Promises:
- `append` returns only after the bytes are flushed to the disk.
- Offsets count records from 1 and never decrease; 0 means "nothing yet".
- What a crash left half-written at the end is cut off when the journal is opened for writing.
  Damage before an intact frame raises `Corrupted` and is never skipped.
- Reading needs no lock and sees whole records only (`index.journal.files`, `index.journal.tail`).
- The file `durable` beside the segments holds the last flushed offset (u64). A reader that follows the journal reads
  no farther, since a record whose flush fails is removed again.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

from sluice.contracts.errors import Unavailable
from sluice.disk.durable import fsync_path
from sluice.index.journal.files import create_segment, encode_frame, remove_leftovers, repair_segment
from sluice.index.journal.records import Kind

OFFSET = struct.Struct("<Q")
"""How the file `durable` holds an offset."""
DURABLE = "durable"
SEGMENT_BYTES = 64_000_000
"""Size at which a new segment begins: small enough to copy away, large enough to be few."""


def _do_nothing() -> None:
    return


class Journal:
    """A corpus's journal, open for appending. The caller holds the writer lock.

    Raises `Corrupted` when a frame before the last intact one is damaged.
    """

    def __init__(self, folder: Path, segment_bytes: int = SEGMENT_BYTES) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._segment_bytes = segment_bytes
        segments = remove_leftovers(folder)
        self.last_offset = repair_segment(segments[-1])
        fsync_path(segments[-1])
        self._file = segments[-1].open("ab")
        self._flushing = ThreadPoolExecutor(1, thread_name_prefix="journal")
        self._mark = os.open(folder / DURABLE, os.O_RDWR | os.O_CREAT, 0o644)
        self._mark_durable()

    def append(self, entries: Sequence[tuple[Kind, bytes]], meanwhile: Callable[[], None] = _do_nothing) -> int:
        """Append the records, flush them, and return the offset of the last.

        `meanwhile` is called while the disk flushes. Raises `Unavailable` when the disk refuses, and what `meanwhile`
        raises; then nothing of the batch is kept.
        """
        if not entries:
            return self.last_offset
        frames = [encode_frame(self.last_offset + number, *entry) for number, entry in enumerate(entries, start=1)]
        if self._file.tell() > self._segment_bytes:
            self._roll()
        size_before = self._file.tell()
        try:
            self._file.write(b"".join(frames))
            self._file.flush()
            flush = self._flushing.submit(os.fsync, self._file.fileno())
            try:
                meanwhile()
            finally:
                wait([flush])
            flush.result()
        except BaseException as error:  # an interruption too: nothing half written may remain
            self._cut(size_before)
            if isinstance(error, OSError):
                raise Unavailable(f"the journal cannot be written: {error}") from error
            raise
        self.last_offset += len(entries)
        self._mark_durable()
        return self.last_offset

    def begin_segment(self) -> None:
        """Begin a new segment, so that everything recorded so far can be compacted. Raises `Unavailable`."""
        if self._file.tell():
            self._roll()

    def close(self) -> None:
        """Close the file. Everything appended is on disk already."""
        self._flushing.shutdown()
        self._file.close()
        if self._mark >= 0:
            os.close(self._mark)
            self._mark = -1

    def _mark_durable(self) -> None:
        """Store the last flushed offset. Not flushed itself: a stale one hides records until the next writer opens."""
        os.pwrite(self._mark, OFFSET.pack(self.last_offset), 0)

    def _roll(self) -> None:
        try:
            following = create_segment(self._folder, self.last_offset + 1).open("ab")
        except OSError as error:  # the old segment stays open, and the next append tries again
            raise Unavailable(f"the journal cannot begin a new segment: {error}") from error
        self._file.close()
        self._file = following

    def _cut(self, size_bytes: int) -> None:
        """Truncate the segment after a failed append. Reopens it, as the old handle may still buffer some bytes."""
        path = Path(self._file.name)
        raw = self._file.detach()
        raw.close()
        os.truncate(path, size_bytes)
        self._file = path.open("ab")
