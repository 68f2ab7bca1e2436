"""The journal: every upsert and removal of a corpus, in order, on disk. It is the truth.

Promises:
- `append` returns only after the bytes are flushed to the disk.
- Offsets count records from 1 and never go back; 0 means "nothing yet".
- What a crash left half-written at the end is cut off when the journal is opened for writing.
  Damage anywhere before an intact frame is `Corrupted`, never silently skipped.
- Reading needs no lock and sees whole records only.

A segment is a file named by its first offset. A frame is

    magic "SLJ1" · u32 payload length · u64 offset · u8 kind · 3 zero bytes · 16 bytes of SHA-256 · payload

where the hash covers the header fields before it and the payload.
"""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from contracts.errors import Corrupted, Unavailable
from index.durable import fsync_path
from index.records import Kind, decode_pin

_MAGIC = b"SLJ1"
_FIELDS = struct.Struct("<4sIQB3x")
_DIGEST_BYTES = 16
_HEADER_BYTES = _FIELDS.size + _DIGEST_BYTES


@dataclass(frozen=True, slots=True)
class Frame:
    """One record as it stands in the journal."""

    offset: int
    kind: int
    payload: bytes


class Journal:
    """A corpus's journal, open for appending. The caller holds the writer lock.

    Raises `Corrupted` when a frame before the last intact one is damaged.
    """

    def __init__(self, folder: Path, segment_bytes: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._segment_bytes = segment_bytes
        segments = _segments(folder)
        if not segments:
            segments = [_create_segment(folder, 1)]
        self.last_offset = _repair(segments[-1])
        self._file = segments[-1].open("ab")

    def append(self, entries: Sequence[tuple[Kind, bytes]]) -> int:
        """Append the records, flush them, and return the last one's offset.

        Raises `Unavailable` when the disk refuses (nothing of the batch is kept then).
        """
        if not entries:
            return self.last_offset
        frames = [_frame(self.last_offset + number, *entry) for number, entry in enumerate(entries, start=1)]
        if self._file.tell() > self._segment_bytes:
            self._roll()
        size_before = self._file.tell()
        try:
            self._file.write(b"".join(frames))
            self._file.flush()
            os.fsync(self._file.fileno())
        except BaseException as error:  # an interruption too: what is half written must not stay
            self._cut(size_before)
            if isinstance(error, OSError):
                raise Unavailable(f"the journal cannot be written: {error}") from error
            raise
        self.last_offset += len(entries)
        return self.last_offset

    def close(self) -> None:
        """Close the file. Everything appended is on disk already."""
        self._file.close()

    def _roll(self) -> None:
        try:
            following = _create_segment(self._folder, self.last_offset + 1).open("ab")
        except OSError as error:  # the old segment stays open, and the next append tries again
            raise Unavailable(f"the journal cannot begin a new segment: {error}") from error
        self._file.close()
        self._file = following

    def _cut(self, size_bytes: int) -> None:
        """Give up a failed append: a new handle, as the old one may still buffer some of its bytes."""
        path = Path(self._file.name)
        raw = self._file.detach()
        raw.close()
        os.truncate(path, size_bytes)
        self._file = path.open("ab")


def read_journal(folder: Path, after_offset: int = 0) -> Iterator[Frame]:
    """Every whole record with an offset above `after_offset`, in order.

    Raises `Corrupted` for a damaged frame or a gap; a torn end of the last segment just ends it.
    """
    segments = _segments(folder)
    if not segments:
        return
    expected = None
    for position, path in enumerate(segments):
        is_last = position == len(segments) - 1
        if not is_last and _first_offset(segments[position + 1]) <= after_offset + 1:
            continue
        if expected is not None and _first_offset(path) != expected:
            raise Corrupted(f"journal segment {path.name} should begin at offset {expected}")
        with path.open("rb") as file:
            expected = _first_offset(path)
            for frame in _frames(file):
                if frame.offset != expected:
                    raise Corrupted(f"journal offset {frame.offset} stands where {expected} belongs")
                expected += 1
                if frame.offset > after_offset:
                    yield frame
            _check_end(file, path, is_last)


def pinned_model(folder: Path) -> tuple[str, int] | None:
    """The fingerprint and dimension of the first vector: the model this corpus is bound to."""
    for frame in read_journal(folder):
        pin = decode_pin(frame.payload) if frame.kind == Kind.UPSERT else None
        if pin is not None:
            return pin
    return None


def _frame(offset: int, kind: Kind, payload: bytes) -> bytes:
    fields = _FIELDS.pack(_MAGIC, len(payload), offset, kind)
    return fields + _digest(fields, payload) + payload


def _digest(fields: bytes, payload: bytes) -> bytes:
    digest = hashlib.sha256(fields)
    digest.update(payload)
    return digest.digest()[:_DIGEST_BYTES]


def _frames(file: BinaryIO) -> Iterator[Frame]:
    """Whole, intact frames from the file's position on; the position is left after the last of them."""
    while True:
        start = file.tell()
        frame = _next_frame(file)
        if frame is None:
            file.seek(start)
            return
        yield frame


def _next_frame(file: BinaryIO) -> Frame | None:
    header = file.read(_HEADER_BYTES)
    if len(header) < _HEADER_BYTES:
        return None
    magic, length, offset, kind = _FIELDS.unpack_from(header)
    if magic != _MAGIC:
        return None
    payload = file.read(length)
    if len(payload) < length or _digest(header[: _FIELDS.size], payload) != header[_FIELDS.size :]:
        return None
    return Frame(offset, kind, payload)


def _check_end(file: BinaryIO, path: Path, is_last: bool) -> None:
    """Nothing may follow the last intact frame, but for the torn tail of the last segment."""
    rest = file.read()
    if rest and (not is_last or _holds_frame(rest)):
        raise Corrupted(f"journal segment {path.name} is damaged before its end; restore it from a backup")


def _holds_frame(rest: bytes) -> bool:
    """Whether an intact frame stands somewhere in `rest`: then its start is damage and no torn tail."""
    position = rest.find(_MAGIC, 1)
    while position != -1:
        header = rest[position : position + _HEADER_BYTES]
        if len(header) == _HEADER_BYTES:
            _, length, _, _ = _FIELDS.unpack_from(header)
            payload = rest[position + _HEADER_BYTES : position + _HEADER_BYTES + length]
            if len(payload) == length and _digest(header[: _FIELDS.size], payload) == header[_FIELDS.size :]:
                return True
        position = rest.find(_MAGIC, position + 1)
    return False


def _repair(path: Path) -> int:
    """Cut the torn tail of the last segment and return the last offset in it."""
    last_offset = _first_offset(path) - 1
    with path.open("r+b") as file:
        for frame in _frames(file):
            last_offset = frame.offset
        intact_bytes = file.tell()
        _check_end(file, path, is_last=True)
        if intact_bytes < path.stat().st_size:
            file.truncate(intact_bytes)
            os.fsync(file.fileno())
    return last_offset


def _segments(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.log"))


def _first_offset(path: Path) -> int:
    return int(path.stem)


def _create_segment(folder: Path, first_offset: int) -> Path:
    path = folder / f"{first_offset:020d}.log"
    path.touch()
    fsync_path(folder)
    return path
