"""Following a journal that another process writes to."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from sluice.contracts.errors import Corrupted
from sluice.index.journal.files import Frame, list_segments, parse_first_offset, read_frame, skip_frames
from sluice.index.journal.journal import DURABLE, OFFSET


class _DurableMark:
    """The file with the last flushed offset. Garbage collection closes it, as other threads may still read it."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDONLY)

    def read(self) -> int:
        """The offset; 0 where there is none yet."""
        content = os.pread(self._descriptor, OFFSET.size, 0)
        return int(OFFSET.unpack(content)[0]) if len(content) == OFFSET.size else 0

    def __del__(self) -> None:
        if hasattr(self, "_descriptor"):
            os.close(self._descriptor)


class JournalTail:
    """Reads the records of a journal as another process appends them.

    `read` is for one thread at a time; `durable_offset` may be called from any.
    """

    def __init__(self, folder: Path, after_offset: int) -> None:
        self._folder = folder
        self._mark: _DurableMark | None = None
        self._file: BinaryIO | None = None
        self.offset = after_offset

    def durable_offset(self) -> int:
        """The last offset that may be read now; 0 before the first record. One system call."""
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

    def is_in_place(self) -> bool:
        """Whether the open segment is still the file of its name, and was neither replaced nor compacted away."""
        if self._file is None:
            return True
        try:
            return os.path.samestat(os.stat(self._file.name), os.fstat(self._file.fileno()))
        except OSError:
            return False

    def close(self) -> None:
        """Close the open segment and forget the mark."""
        if self._file is not None:
            self._file.close()
        self._file = self._mark = None

    def _segment_after(self, offset: int) -> Path:
        """The segment that holds the next offset."""
        before = [path for path in list_segments(self._folder) if parse_first_offset(path) <= offset + 1]
        if not before:
            raise Corrupted(f"the journal has no segment with offset {offset + 1}")
        return before[-1]

    def _following(self, file: BinaryIO) -> BinaryIO:
        """The next segment, once `file` has no more intact frames. It must begin with the next offset."""
        following = self._folder / f"{self.offset + 1:020d}.log"
        if str(following) == file.name or not following.exists():
            raise Corrupted(f"journal segment {Path(file.name).name} is damaged after offset {self.offset}")
        file.close()
        return following.open("rb")
