"""The journal of a corpus: every upsert and removal, in order, on disk. The index is rebuilt from it.

Promises:
- `append` returns only after the bytes are flushed to the disk.
- Offsets count records from 1 and never decrease; 0 means "nothing yet".
- What a crash left half-written at the end is cut off when the journal is opened for writing.
  Damage before an intact frame raises `Corrupted` and is never skipped.
- Reading needs no lock and sees whole records only (`index.journal.files`, `JournalTail`).
- The file `durable` beside the segments holds the last flushed offset (u64). A reader that follows the journal reads
  no farther, since a record whose flush fails is removed again.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import BinaryIO

from sluice.contracts.errors import Corrupted, Fenced, Unavailable
from sluice.disk.durable import fsync_path
from sluice.index.folder import CorpusLayout
from sluice.index.journal.files import (
    Frame,
    create_segment,
    encode_frame,
    list_files,
    list_segments,
    parse_first_offset,
    read_frame,
    remove_leftovers,
    repair_segment,
    skip_frames,
)
from sluice.index.journal.records import Kind

OFFSET = struct.Struct("<Q")
"""Encoding of an offset in the file `durable`."""
DURABLE = "durable"
SEGMENT_BYTES = 64_000_000
"""Size at which a new segment begins: small enough to copy away, large enough to be few."""


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

    def append(self, entries: Sequence[tuple[Kind, bytes]], meanwhile: Callable[[], None] = lambda: None) -> int:
        """Append the records, flush them, and return the offset of the last.

        `meanwhile` is called while the disk flushes. Raises `Unavailable` when the disk refuses, `Fenced` when the file
        was removed meanwhile, and what `meanwhile` raises; then nothing of the batch is kept.
        """
        if not entries:
            return self.last_offset
        if os.fstat(self._file.fileno()).st_nlink == 0:
            raise Fenced("the journal's file was removed while it was open")
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


class _DurableMark:
    """The file with the last flushed offset. Garbage collection closes it, as other threads may still read it."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDONLY)

    def read(self) -> int:
        """Return the offset; 0 where no offset is stored yet."""
        content = os.pread(self._descriptor, OFFSET.size, 0)
        return int(OFFSET.unpack(content)[0]) if len(content) == OFFSET.size else 0

    def __del__(self) -> None:
        if hasattr(self, "_descriptor"):
            os.close(self._descriptor)


class JournalTail:
    """Reads a journal as another process appends to it: `read` in one thread at a time, `durable_offset` in any."""

    def __init__(self, folder: Path, after_offset: int) -> None:
        self._folder = folder
        self._mark: _DurableMark | None = None
        self._file: BinaryIO | None = None
        self.offset = after_offset

    def durable_offset(self) -> int:
        """Return the last offset that may be read now; 0 before the first record. One system call."""
        mark = self._mark
        if mark is None:
            try:
                mark = self._mark = _DurableMark(self._folder / DURABLE)
            except FileNotFoundError:
                return 0
        return mark.read()

    def read(self, until_offset: int) -> Iterator[Frame]:
        """Yield the frames up to `until_offset` that were not read before. Raises `Corrupted` for a damaged one."""
        while self.offset < until_offset:
            if self._file is None:
                self._file = self._segment_after(self.offset).open("rb")
                skip_frames(self._file, self.offset)
            frame = read_frame(self._file)
            if frame is None:
                self._file = self._following(self._file)
                continue
            if frame.offset != self.offset + 1:
                raise Corrupted(f"journal offset {frame.offset} stands where {self.offset + 1} belongs")
            self.offset = frame.offset
            yield frame

    def close(self) -> None:
        """Close the open segment and forget the mark."""
        if self._file is not None:
            self._file.close()
        self._file = self._mark = None

    def _segment_after(self, offset: int) -> Path:
        """Return the segment that holds the next offset."""
        before = [path for path in list_segments(self._folder) if parse_first_offset(path) <= offset + 1]
        if not before:
            raise Corrupted(f"the journal has no segment with offset {offset + 1}")
        return before[-1]

    def _following(self, file: BinaryIO) -> BinaryIO:
        """Return the next segment, once `file` has no more intact frames. It must begin with the next offset."""
        following = self._folder / f"{self.offset + 1:020d}.log"
        if str(following) == file.name or not following.exists():
            raise Corrupted(f"journal segment {Path(file.name).name} is damaged after offset {self.offset}")
        file.close()
        return following.open("rb")


def read_last_offset(corpus: CorpusLayout) -> int:
    """Return the journal's last offset that is known without reading it: flushed, or in a completed segment."""
    if not any(corpus.journal.glob("*.log")):  # its writer was killed at once
        return 0
    tail = JournalTail(corpus.journal, 0)
    try:
        durable = tail.durable_offset()
    finally:
        tail.close()
    return max(durable, list_files(corpus.journal)[-1].first_offset - 1)
