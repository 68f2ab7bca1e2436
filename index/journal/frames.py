"""Frames: how one journal record lies in a file, with the checksum that tells it from damage.

    magic "SLJ1" · u32 payload length · u64 offset · u8 kind · 3 zero bytes · 16 bytes of SHA-256 · payload

Numbers are little-endian. The hash covers the header fields before it and the payload.
"""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from sluice.index.journal.records import Kind

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
    """The bytes of a frame."""
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
    """Whether an intact frame begins after the first byte of `rest`: then `rest` is damage and no torn write."""
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
