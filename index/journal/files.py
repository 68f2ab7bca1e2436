"""The files of a journal: their names, the offsets that they cover, reading, repair and compaction.

A segment, `FIRST.log`, holds every record from its first offset up to the next segment's. A compacted file,
`FIRST-LAST.kept`, holds only the versions of its range that were live, after a pin of the model and before an end mark
with their count. `compact` rewrites the segments that every generation on disk covers as one such file, puts it in
place by a rename, and then removes them. Killed at any point, the journal reads the same: segments that a compacted
file covers are ignored. A removal is dropped once no version before it is left.

Each record is a frame, with a checksum that reveals damage:

    magic "SLJ1" · u32 payload length · u64 offset · u8 kind · 3 zero bytes · 16 bytes of SHA-256 · payload

Numbers are little-endian. The hash covers the header fields before it and the payload.
"""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import islice, takewhile
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from sluice.contracts.errors import Corrupted
from sluice.disk.durable import fsync_path
from sluice.index.journal.records import Kind, decode_end, decode_pin, encode_end, encode_pin

OPEN_END = (1 << 63) - 1
"""Greater than every offset: the end of the segment that is being written, which only its writer knows."""


@dataclass(frozen=True, slots=True)
class JournalFile:
    """A file of the journal and the offsets that it covers: a segment holds all of them, a compacted file some."""

    path: Path
    first_offset: int
    last_offset: int
    is_compacted: bool

    @property
    def record_count(self) -> int:
        """Number of records in the file."""
        if not self.is_compacted:
            return self.last_offset - self.first_offset + 1
        return _read_end_mark(self.path)


def list_files(folder: Path) -> list[JournalFile]:
    """List the files of the journal in order. The last one is being written: its `last_offset` is `OPEN_END`."""
    compacted = max(folder.glob("*.kept"), default=None, key=_parse_range)
    first, last = _parse_range(compacted) if compacted else (1, 0)
    found = [JournalFile(compacted, first, last, is_compacted=True)] if compacted else []
    segments = [path for path in list_segments(folder) if parse_first_offset(path) > last]
    if not segments:  # killed before the first segment was made
        return found
    firsts = [parse_first_offset(path) for path in segments]
    lasts = [first - 1 for first in firsts[1:]] + [OPEN_END]
    covered = zip(segments, firsts, lasts, strict=True)
    return found + [JournalFile(path, first, last, is_compacted=False) for path, first, last in covered]


def read_journal(folder: Path, after_offset: int = 0) -> Iterator[Frame]:
    """Yield every whole record with an offset above `after_offset`, in order.

    Raises `Corrupted` for a damaged frame or a gap. A torn write at the end of the last segment ends the iteration.
    """
    expected: int | None = None
    for file in list_files(folder):
        if file.last_offset <= after_offset:
            continue
        needed = after_offset + 1 if expected is None else expected
        if file.first_offset > needed:
            raise Corrupted(f"the journal lacks offset {needed}: {file.path.name} comes next")
        expected = file.last_offset + 1
        for frame in read_file(file):
            if frame.offset > after_offset:
                yield frame


def read_file(file: JournalFile) -> Iterator[Frame]:
    """Yield the records of one file, in order. Raises `Corrupted` as `read_journal` does."""
    with file.path.open("rb") as content:
        yield from _read_compacted(content, file) if file.is_compacted else _read_segment(content, file)


def cut_files(folder: Path, until: int) -> list[tuple[BinaryIO, int]]:
    """Open the files that hold the journal up to an offset, each with the number of its bytes that do. What is appended
    or compacted meanwhile changes neither; the caller closes them."""
    while True:
        opened: list[tuple[BinaryIO, int]] = []
        try:
            for file in list_files(folder):
                if file.first_offset > until + 1:
                    break
                content = file.path.open("rb")
                opened.append((content, 0))
                whole = file.is_compacted or file.last_offset <= until
                opened[-1] = content, os.fstat(content.fileno()).st_size if whole else _bytes_until(content, until)
            return opened
        except FileNotFoundError:  # compacted meanwhile: another file holds its records
            for held, _ in opened:
                held.close()


def _bytes_until(content: BinaryIO, until: int) -> int:
    skip_frames(content, until)
    size = content.tell()
    content.seek(0)
    return size


def read_pinned_model(folder: Path) -> tuple[str, int] | None:
    """Read the fingerprint and dimension of the model that the corpus is bound to; None before the first vector."""
    for frame in _read_model_frames(folder):
        pin = decode_pin(frame.payload) if frame.kind in (Kind.UPSERT, Kind.OLD_UPSERT, Kind.PIN) else None
        if pin is not None:
            return pin
    return None


def repair_segment(path: Path) -> int:
    """Cut a torn write off the end of the last segment, and return the last offset in it."""
    last_offset = parse_first_offset(path) - 1
    with path.open("r+b") as file:
        for frame in read_frames(file):
            last_offset = frame.offset
        intact_bytes = file.tell()
        _check_end(file, path, is_last=True)
        if intact_bytes < path.stat().st_size:
            file.truncate(intact_bytes)
            os.fsync(file.fileno())
    return last_offset


def remove_leftovers(folder: Path) -> list[Path]:
    """Remove what an interrupted compaction left behind, and return the segments that remain, at least one."""
    for leftover in folder.glob("*.tmp"):
        leftover.unlink()
    ranges = [_parse_range(path) for path in folder.glob("*.kept")]
    covered = max((last for _, last in ranges), default=0)
    for first, last in ranges:
        if last < covered:
            (folder / f"{first:020d}-{last:020d}.kept").unlink()
    for path in list_segments(folder):
        if parse_first_offset(path) <= covered:
            path.unlink()
    return list_segments(folder) or [create_segment(folder, covered + 1)]


def create_segment(folder: Path, first_offset: int) -> Path:
    """Create an empty segment, flush the folder, and return the segment's path."""
    path = folder / f"{first_offset:020d}.log"
    path.touch()
    fsync_path(folder)
    return path


def list_segments(folder: Path) -> list[Path]:
    """List the segments in the order of their offsets."""
    return sorted(folder.glob("*.log"))


def parse_first_offset(path: Path) -> int:
    """Return the first offset of a segment, by its name."""
    return int(path.stem)


def _parse_range(path: Path) -> tuple[int, int]:
    """Return the first and last offset of a compacted file, by its name."""
    first, last = path.stem.split("-")
    return int(first), int(last)


def _read_segment(content: BinaryIO, file: JournalFile) -> Iterator[Frame]:
    expected = file.first_offset
    for frame in read_frames(content):
        if frame.offset != expected:
            raise Corrupted(f"journal offset {frame.offset} stands where {expected} belongs")
        expected += 1
        yield frame
    _check_end(content, file.path, is_last=file.last_offset == OPEN_END)
    if file.last_offset not in (OPEN_END, expected - 1):
        raise Corrupted(f"journal segment {file.path.name} ends at {expected - 1}, before {file.last_offset}")


def _read_compacted(content: BinaryIO, file: JournalFile) -> Iterator[Frame]:
    count, before, end = 0, 0, None
    for frame in read_frames(content):
        if frame.kind == Kind.END:
            end = decode_end(frame.payload)
        elif frame.kind != Kind.PIN:
            if frame.offset <= before or frame.offset > file.last_offset:
                raise Corrupted(f"journal offset {frame.offset} stands behind {before} in {file.path.name}")
            count, before = count + 1, frame.offset
            yield frame
    if end != count or content.read(1):
        raise Corrupted(f"{file.path.name} has {count} intact records, not {end}: restore it from a backup")


def _read_end_mark(path: Path) -> int:
    """Read the record count at the end of a compacted file. Raises `Corrupted` where there is none."""
    with path.open("rb") as file:
        file.seek(-len(encode_frame(0, Kind.END, encode_end(0))), os.SEEK_END)
        frame = read_frame(file)
    if frame is None or frame.kind != Kind.END:
        raise Corrupted(f"{path.name} has no end mark: restore it from a backup")
    return decode_end(frame.payload)


def _read_model_frames(folder: Path) -> Iterator[Frame]:
    """Yield the frames that may name the model: the first one of a compacted file, then every record."""
    first = next(iter(list_files(folder)), None)
    if first is not None and first.is_compacted:
        with first.path.open("rb") as file:
            yield from islice(read_frames(file), 1)
    yield from read_journal(folder)


def _check_end(content: BinaryIO, path: Path, is_last: bool) -> None:
    """Raise `Corrupted` if something follows the last intact frame, unless it is a torn write in the last segment."""
    rest = content.read()
    if rest and (not is_last or contains_frame(rest)):
        raise Corrupted(f"journal segment {path.name} is damaged before its end; restore it from a backup")


_MAGIC = b"SLJ1"
_FIELDS = struct.Struct("<4sIQB3x")
_DIGEST_BYTES = 16
_HEADER_BYTES = _FIELDS.size + _DIGEST_BYTES


@dataclass(frozen=True, slots=True)
class Frame:
    """One journal record: its offset, the number of its `Kind`, and its encoded bytes."""

    offset: int
    kind: int
    payload: bytes


def encode_frame(offset: int, kind: Kind, payload: bytes) -> bytes:
    """Return the bytes of a frame."""
    fields = _FIELDS.pack(_MAGIC, len(payload), offset, kind)
    return fields + _digest(fields, payload) + payload


def _digest(fields: bytes, payload: bytes) -> bytes:
    digest = hashlib.sha256(fields)
    digest.update(payload)
    return digest.digest()[:_DIGEST_BYTES]


def read_frames(file: BinaryIO) -> Iterator[Frame]:
    """Yield the intact frames from the file's position on, and leave the position after the last of them."""
    while True:
        start = file.tell()
        frame = read_frame(file)
        if frame is None:
            file.seek(start)
            return
        yield frame


def skip_frames(file: BinaryIO, known_offset: int) -> None:
    """Set the file's position after its frames up to `known_offset`. Only headers are read, and nothing is verified."""
    position = 0
    while len(header := os.pread(file.fileno(), _FIELDS.size, position)) == _FIELDS.size:
        magic, length, offset, _ = _FIELDS.unpack(header)
        if magic != _MAGIC or offset > known_offset:
            break
        position += _HEADER_BYTES + length
    file.seek(position)


def read_frame(file: BinaryIO) -> Frame | None:
    """Read the frame at the file's position; None where there is no complete frame with the right checksum."""
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


def contains_frame(rest: bytes) -> bool:
    """Return whether an intact frame begins after the first byte of `rest`: then `rest` is damage and no torn write."""
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


LEAST_DEAD_SHARE = 0.5
"""Share of dead records from which rewriting pays: it then writes at most one byte for each byte that it frees."""


def compact(
    folder: Path,
    horizon: int,
    live_offsets: NDArray[np.uint64],
    model: tuple[str, int] | None,
    swapping: Callable[[], AbstractContextManager[object]],
    least_dead_share: float = LEAST_DEAD_SHARE,
) -> bool:
    """Rewrite the segments up to the offset `horizon`; False where nothing or less than `least_dead_share` is dead.

    `live_offsets` are the offsets of the versions that are live at `horizon` or at any later offset. The context
    `swapping` is held while files are put in place and removed. Raises `OSError` when the disk refuses, and then
    nothing has changed; `Corrupted` when a frame is damaged.
    """
    finished = list_files(folder)[:-1]  # the last is being written
    due = list(takewhile(lambda file: file.last_offset <= horizon, finished))
    if not due or not _is_worthwhile(due, live_offsets, least_dead_share):
        return False
    live = np.sort(live_offsets)
    target = folder / f"{due[0].first_offset:020d}-{due[-1].last_offset:020d}.kept"
    temporary = target.with_suffix(".tmp")
    try:
        _rewrite(temporary, due, live, model)
        with swapping():
            temporary.rename(target)
            fsync_path(folder)
            for file in due:
                if file.path != target:  # a compacted file rewritten alone has the same name
                    file.path.unlink()
    finally:
        temporary.unlink(missing_ok=True)
    return True


def _is_worthwhile(due: Sequence[JournalFile], live_offsets: NDArray[np.uint64], least_dead_share: float) -> bool:
    """Return whether there are dead records in the files, and whether they are at least that share of all."""
    live = int(np.count_nonzero(live_offsets <= due[-1].last_offset))
    held = sum(file.record_count for file in due)
    return held > live and 1 - live / held >= least_dead_share


def _rewrite(target: Path, due: Sequence[JournalFile], live: NDArray[np.uint64], model: tuple[str, int] | None) -> None:
    """Write the live frames to a new file and flush it. `live` holds the live offsets, ascending."""
    kept = 0
    with target.open("wb") as output:
        if model is not None:
            output.write(encode_frame(0, Kind.PIN, encode_pin(*model)))
        for file in due:
            for frame in read_file(file):
                place = int(np.searchsorted(live, np.uint64(frame.offset)))
                if place < len(live) and int(live[place]) == frame.offset:
                    output.write(encode_frame(frame.offset, Kind(frame.kind), frame.payload))
                    kept += 1
        output.write(encode_frame(due[-1].last_offset, Kind.END, encode_end(kept)))
        output.flush()
        os.fsync(output.fileno())
