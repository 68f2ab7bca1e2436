"""The file of a generation: named arrays, one after the other, that are mapped into memory.

It begins with `SLUICEGRAPH`, the version of the format and the length of the header in bytes (both 32 bits, little
endian), then the header as JSON: of each array its name, type, count and offset. Arrays begin at multiples of 64 bytes.
The SHA-256 of the file stands in the generation's manifest.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import struct
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sluice.contracts.errors import Corrupted
from sluice.graph.generations.stated import Arrays

_MAGIC = b"SLUICEGRAPH"
FORMAT = 1
"""Raised when arrays change their meaning: files of another format are folded again."""
_PREFIX = struct.Struct(f"<{len(_MAGIC)}sII")
_ALIGNMENT = 64
_BLOCK_BYTES = 1 << 20


class OpenedFile(NamedTuple):
    """The arrays of a file, and its bytes on the disk. The file may be deleted meanwhile."""

    arrays: Arrays
    size_bytes: int


def write_arrays(path: Path, arrays: Arrays) -> str:
    """Write the arrays in the order of their names, flush them to the disk, and give the SHA-256 of the file."""
    described: dict[str, list[str | int]] = {}
    position = 0
    for name, array in sorted(arrays.items()):
        described[name] = [array.dtype.str, len(array), position]
        position = _aligned(position + array.nbytes)
    header = json.dumps(described, separators=(",", ":")).encode()
    prefix = _PREFIX.pack(_MAGIC, FORMAT, len(header)) + header
    digest = hashlib.sha256()
    with path.open("wb") as file:
        for content in (prefix, *(array.tobytes() for _, array in sorted(arrays.items()))):
            padded = content + b"\0" * (_aligned(len(content)) - len(content))
            file.write(padded)
            digest.update(padded)
        file.flush()
        os.fsync(file.fileno())
    return digest.hexdigest()


def open_arrays(path: Path, sha256: str) -> OpenedFile:
    """Map a file into memory and compare its hash. Raises `Corrupted` where it is not what was written."""
    try:
        with path.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:
        raise Corrupted(f"{path} cannot be mapped: {error}") from error
    digest = hashlib.sha256()
    for start in range(0, len(mapped), _BLOCK_BYTES):
        digest.update(mapped[start : start + _BLOCK_BYTES])
    if digest.hexdigest() != sha256:
        raise Corrupted(f"{path} does not have the hash of its manifest")
    try:
        magic, version, length = _PREFIX.unpack_from(mapped)
        if (magic, version) != (_MAGIC, FORMAT):
            raise Corrupted(f"{path} has another format: {magic!r} {version}")
        described = json.loads(mapped[_PREFIX.size : _PREFIX.size + length])
        start = _aligned(_PREFIX.size + length)
        arrays: Arrays = {
            name: _array(mapped, dtype, count, start + position) for name, (dtype, count, position) in described.items()
        }
    except (struct.error, ValueError, TypeError) as error:
        raise Corrupted(f"{path} cannot be read: {error}") from error
    return OpenedFile(arrays, len(mapped))


def _array(mapped: mmap.mmap, dtype: str, count: int, offset: int) -> NDArray[Any]:
    if count == 0:
        return np.zeros(0, np.dtype(dtype))
    return np.frombuffer(mapped, np.dtype(dtype), count, offset)


def _aligned(position: int) -> int:
    return -(-position // _ALIGNMENT) * _ALIGNMENT
