"""The journal: every upsert and removal of a corpus, in order, on disk. It is the truth.

Promises:
- `append` returns only after the bytes are flushed to the disk.
- Offsets count records from 1 and never go back; 0 means "nothing yet".
- What a crash left half-written at the end is cut off when the journal is opened for writing.
  Damage anywhere before an intact frame is `Corrupted`, never silently skipped.
- Reading needs no lock and sees whole records only.
- `durable` beside the segments holds the last flushed offset (u64): who follows the journal while it is
  written reads up to there and no farther, since a record whose flush fails is taken back.

A segment is a file named by its first offset; old ones may have been made into one (`index.journal.compaction`). A
frame is

    magic "SLJ1" · u32 payload length · u64 offset · u8 kind · 3 zero bytes · 16 bytes of SHA-256 · payload

where the hash covers the header fields before it and the payload.
"""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from contracts.errors import Corrupted, Unavailable
from index.disk.durable import fsync_path
from index.journal.records import Kind, decode_end, decode_pin, encode_end

_MAGIC = b"SLJ1"
_FIELDS = struct.Struct("<4sIQB3x")
_DIGEST_BYTES = 16
_HEADER_BYTES = _FIELDS.size + _DIGEST_BYTES
_OFFSET = struct.Struct("<Q")
_DURABLE = "durable"
_OPEN_END = (1 << 63) - 1

SEGMENT_BYTES = 64_000_000
"""Size at which a new segment begins: small enough to copy away, large enough to be few."""


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

    def __init__(self, folder: Path, segment_bytes: int = SEGMENT_BYTES) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._segment_bytes = segment_bytes
        segments = _tidied(folder)
        self.last_offset = _repair(segments[-1])
        fsync_path(segments[-1])
        self._file = segments[-1].open("ab")
        self._mark = os.open(folder / _DURABLE, os.O_RDWR | os.O_CREAT, 0o644)
        self._mark_durable()

    def append(self, entries: Sequence[tuple[Kind, bytes]]) -> int:
        """Append the records, flush them, and return the last one's offset.

        Raises `Unavailable` when the disk refuses (nothing of the batch is kept then).
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
            os.fsync(self._file.fileno())
        except BaseException as error:  # an interruption too: what is half written must not stay
            self._cut(size_before)
            if isinstance(error, OSError):
                raise Unavailable(f"the journal cannot be written: {error}") from error
            raise
        self.last_offset += len(entries)
        self._mark_durable()
        return self.last_offset

    def close(self) -> None:
        """Close the file. Everything appended is on disk already."""
        self._file.close()
        if self._mark >= 0:
            os.close(self._mark)
            self._mark = -1

    def _mark_durable(self) -> None:
        """Not flushed itself: a stale mark hides records from those who follow, until the next writer opens."""
        os.pwrite(self._mark, _OFFSET.pack(self.last_offset), 0)

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


@dataclass(frozen=True, slots=True)
class Piece:
    """A file of the journal and the offsets that it covers: a segment has each, a kept file only the living."""

    path: Path
    first_offset: int
    last_offset: int
    is_kept: bool

    @property
    def record_count(self) -> int:
        """How many records are in it."""
        if not self.is_kept:
            return self.last_offset - self.first_offset + 1
        return _end_mark(self.path)


def pieces(folder: Path) -> list[Piece]:
    """The files of the journal in order. The last is written to: its end is not known from outside, and is 2^63."""
    kept = max(folder.glob("*.kept"), default=None, key=_kept_range)
    first, last = _kept_range(kept) if kept else (1, 0)
    found = [Piece(kept, first, last, is_kept=True)] if kept else []
    segments = [path for path in _segments(folder) if _first_offset(path) > last]
    if not segments:  # killed before the first segment was made
        return found
    ends = [_first_offset(path) - 1 for path in segments[1:]] + [_OPEN_END]
    return found + [
        Piece(path, _first_offset(path), end, is_kept=False) for path, end in zip(segments, ends, strict=True)
    ]


def read_journal(folder: Path, after_offset: int = 0) -> Iterator[Frame]:
    """Every whole record with an offset above `after_offset`, in order.

    Raises `Corrupted` for a damaged frame or a gap; a torn end of the last segment just ends it.
    """
    expected: int | None = None
    for piece in pieces(folder):
        if piece.last_offset <= after_offset:
            continue
        if piece.first_offset > (after_offset + 1 if expected is None else expected):
            missing = after_offset + 1 if expected is None else expected
            raise Corrupted(f"the journal lacks offset {missing}: {piece.path.name} comes next")
        expected = piece.last_offset + 1
        for frame in frames_of(piece):
            if frame.offset > after_offset:
                yield frame


def frames_of(piece: Piece) -> Iterator[Frame]:
    """The records of one file, in order. Raises `Corrupted` as `read_journal` does."""
    with piece.path.open("rb") as file:
        yield from _kept_frames(file, piece) if piece.is_kept else _segment_frames(file, piece)


def _segment_frames(file: BinaryIO, piece: Piece) -> Iterator[Frame]:
    expected = piece.first_offset
    for frame in _frames(file):
        if frame.offset != expected:
            raise Corrupted(f"journal offset {frame.offset} stands where {expected} belongs")
        expected += 1
        yield frame
    _check_end(file, piece.path, is_last=piece.last_offset == _OPEN_END)
    if piece.last_offset not in (_OPEN_END, expected - 1):
        raise Corrupted(f"journal segment {piece.path.name} ends at {expected - 1}, before {piece.last_offset}")


def _kept_frames(file: BinaryIO, piece: Piece) -> Iterator[Frame]:
    count, before, end = 0, 0, None
    for frame in _frames(file):
        if frame.kind == Kind.END:
            end = decode_end(frame.payload)
        elif frame.kind != Kind.PIN:
            if frame.offset <= before or frame.offset > piece.last_offset:
                raise Corrupted(f"journal offset {frame.offset} stands behind {before} in {piece.path.name}")
            count, before = count + 1, frame.offset
            yield frame
    if end != count or file.read(1):
        raise Corrupted(f"{piece.path.name} has {count} intact records, not {end}: restore it from a backup")


class _Mark:
    """The file with the last flushed offset. Closed when nobody reads it any more, so it may be let go of meanwhile."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDONLY)

    def read(self) -> int:
        """The offset; 0 where there is none yet."""
        content = os.pread(self._descriptor, _OFFSET.size, 0)
        return int(_OFFSET.unpack(content)[0]) if len(content) == _OFFSET.size else 0

    def __del__(self) -> None:
        if hasattr(self, "_descriptor"):
            os.close(self._descriptor)


class JournalTail:
    """Follows a journal that another process writes to. One thread reads; `durable_offset` is for all."""

    def __init__(self, folder: Path, after_offset: int) -> None:
        self._folder = folder
        self._mark: _Mark | None = None
        self._file: BinaryIO | None = None
        self.offset = after_offset

    def durable_offset(self) -> int:
        """The last offset that may be read now; 0 while nobody has written. One system call, safe for threads."""
        mark = self._mark
        if mark is None:
            try:
                mark = self._mark = _Mark(self._folder / _DURABLE)
            except FileNotFoundError:
                return 0
        return mark.read()

    def read(self, until_offset: int) -> Iterator[Frame]:
        """The frames up to `until_offset` that were not read before. Raises `Corrupted` where one is damaged."""
        while self.offset < until_offset:
            if self._file is None:
                self._file = self._segment_after(self.offset).open("rb")
                _pass_over(self._file, self.offset)
            frame = _next_frame(self._file)
            if frame is None:
                self._file = self._following(self._file)
                continue
            if frame.offset != self.offset + 1:
                raise Corrupted(f"journal offset {frame.offset} stands where {self.offset + 1} belongs")
            self.offset = frame.offset
            yield frame

    def is_in_place(self) -> bool:
        """Whether the segment that is open still is the one of its name: none that was replaced or compacted."""
        if self._file is None:
            return True
        try:
            return os.path.samestat(os.stat(self._file.name), os.fstat(self._file.fileno()))
        except OSError:
            return False

    def close(self) -> None:
        """Close what is open."""
        if self._file is not None:
            self._file.close()
        self._file = self._mark = None

    def _segment_after(self, offset: int) -> Path:
        """The segment in which the next offset stands."""
        before = [path for path in _segments(self._folder) if _first_offset(path) <= offset + 1]
        if not before:
            raise Corrupted(f"the journal has no segment with offset {offset + 1}")
        return before[-1]

    def _following(self, file: BinaryIO) -> BinaryIO:
        """The segment behind one that has no more intact frames; the offset after it must begin it."""
        following = self._folder / f"{self.offset + 1:020d}.log"
        if str(following) == file.name or not following.exists():
            raise Corrupted(f"journal segment {Path(file.name).name} is damaged after offset {self.offset}")
        file.close()
        return following.open("rb")


def pinned_model(folder: Path) -> tuple[str, int] | None:
    """The fingerprint and dimension of the first vector: the model this corpus is bound to."""
    for frame in _pins(folder):
        pin = decode_pin(frame.payload) if frame.kind in (Kind.UPSERT, Kind.OLD_UPSERT, Kind.PIN) else None
        if pin is not None:
            return pin
    return None


def encode_frame(offset: int, kind: Kind, payload: bytes) -> bytes:
    """A frame as it stands in the journal."""
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


def _pass_over(file: BinaryIO, known_offset: int) -> None:
    """Leave the file behind its frames up to `known_offset`, of which nothing but the headers is read."""
    position = 0
    while len(header := os.pread(file.fileno(), _FIELDS.size, position)) == _FIELDS.size:
        magic, length, offset, _ = _FIELDS.unpack(header)
        if magic != _MAGIC or offset > known_offset:
            break
        position += _HEADER_BYTES + length
    file.seek(position)


def _next_frame(file: BinaryIO) -> Frame | None:
    """The frame at the file's position; None where there is no whole, intact one."""
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


def _pins(folder: Path) -> Iterator[Frame]:
    """What may name the model: the head of a kept file, then every record."""
    first = next(iter(pieces(folder)), None)
    if first is not None and first.is_kept:
        with first.path.open("rb") as file:
            yield from islice(_frames(file), 1)
    yield from read_journal(folder)


def _kept_range(path: Path) -> tuple[int, int]:
    first, last = path.stem.split("-")
    return int(first), int(last)


def _end_mark(path: Path) -> int:
    """The count at the foot of a kept file. Raises `Corrupted` where there is none."""
    with path.open("rb") as file:
        file.seek(-len(encode_frame(0, Kind.END, encode_end(0))), os.SEEK_END)
        frame = _next_frame(file)
    if frame is None or frame.kind != Kind.END:
        raise Corrupted(f"{path.name} has no end mark: restore it from a backup")
    return decode_end(frame.payload)


def _segments(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.log"))


def _first_offset(path: Path) -> int:
    return int(path.stem)


def _tidied(folder: Path) -> list[Path]:
    """The segments that are left once what an interrupted compaction did not remove is gone; at least one."""
    for leftover in folder.glob("*.tmp"):
        leftover.unlink()
    ranges = [_kept_range(path) for path in folder.glob("*.kept")]
    covered = max((last for _, last in ranges), default=0)
    for first, last in ranges:
        if last < covered:
            (folder / f"{first:020d}-{last:020d}.kept").unlink()
    for path in _segments(folder):
        if _first_offset(path) <= covered:
            path.unlink()
    return _segments(folder) or [_create_segment(folder, covered + 1)]


def _create_segment(folder: Path, first_offset: int) -> Path:
    path = folder / f"{first_offset:020d}.log"
    path.touch()
    fsync_path(folder)
    return path
