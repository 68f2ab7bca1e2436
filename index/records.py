"""What the journal records: a document version arrived, or a document was removed.

An upsert's payload is

    <u32 length of the fingerprint> <u32 length of the document> <u32 rows n> <u32 dimension d>
    fingerprint (UTF-8) · document (`ChunkedDocument` as JSON, zstd) · n x d float32, little endian

and a removal's payload is the document's id in UTF-8.
"""

from __future__ import annotations

import struct
import threading
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import zstandard
from numpy.typing import NDArray
from pydantic import ValidationError

from contracts.document import ChunkedDocument
from contracts.errors import Corrupted

Vectors = NDArray[np.float32]

_LENGTHS = struct.Struct("<IIII")
_COUNT = struct.Struct("<Q")
_ZSTD_LEVEL = 3
_own = threading.local()


class Kind(IntEnum):
    """What a journal frame holds."""

    UPSERT = 1
    REMOVAL = 2
    PIN = 3
    """Which model the corpus is bound to; not a record, at the head of a compacted journal."""
    END = 4
    """How many records a compacted journal has; not a record, at its foot."""


@dataclass(frozen=True, slots=True, eq=False)
class Upsert:
    """A version of a document, its vectors (n, d), row i for chunk i, and the model that made them."""

    document: ChunkedDocument
    vectors: Vectors
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Removal:
    """The document is to be forgotten."""

    document_id: str


Record = Upsert | Removal


def encode_record(record: Record) -> tuple[Kind, bytes]:
    """The frame kind and payload of `record`."""
    match record:
        case Removal(document_id):
            return Kind.REMOVAL, document_id.encode("utf-8", "surrogatepass")
        case Upsert(document, vectors, fingerprint):
            name = fingerprint.encode()
            body = _compressor().compress(document.model_dump_json().encode("utf-8", "surrogatepass"))
            rows, dimension = vectors.shape
            floats = np.ascontiguousarray(vectors, dtype="<f4").tobytes()
            return Kind.UPSERT, _LENGTHS.pack(len(name), len(body), rows, dimension) + name + body + floats


def encode_pin(fingerprint: str, dimension: int) -> bytes:
    """A payload that `decode_pin` reads."""
    name = fingerprint.encode()
    return _LENGTHS.pack(len(name), 0, 1, dimension) + name


def encode_end(count: int) -> bytes:
    """The payload of an end mark."""
    return _COUNT.pack(count)


def decode_end(payload: bytes) -> int:
    """How many records there must be."""
    return int(_COUNT.unpack(payload)[0])


def decode_record(kind: int, payload: bytes) -> Record:
    """The record in a frame. Raises `Corrupted` when the bytes are no record of that kind."""
    try:
        match Kind(kind):
            case Kind.REMOVAL:
                return Removal(payload.decode("utf-8", "surrogatepass"))
            case Kind.UPSERT:
                return _decode_upsert(payload)
            case Kind.PIN | Kind.END:
                raise ValueError("it is no record")
    except (ValueError, struct.error, zstandard.ZstdError, ValidationError) as error:
        raise Corrupted(f"a journal frame of kind {kind} does not decode: {error}") from error


def decode_pin(payload: bytes) -> tuple[str, int] | None:
    """The model fingerprint and dimension of an upsert, without decoding the rest; None if it has no vector."""
    name_length, _, rows, dimension = _LENGTHS.unpack_from(payload)
    return (payload[_LENGTHS.size : _LENGTHS.size + name_length].decode(), dimension) if rows else None


def _compressor() -> zstandard.ZstdCompressor:
    """One a thread: making it costs more than compressing a small document, and it serves one thread at a time."""
    compressor: zstandard.ZstdCompressor | None = getattr(_own, "compressor", None)
    if compressor is None:
        compressor = _own.compressor = zstandard.ZstdCompressor(_ZSTD_LEVEL)
    return compressor


def _decode_upsert(payload: bytes) -> Upsert:
    name_length, body_length, rows, dimension = _LENGTHS.unpack_from(payload)
    body_start = _LENGTHS.size + name_length
    floats_start = body_start + body_length
    document = ChunkedDocument.model_validate_json(zstandard.decompress(payload[body_start:floats_start]))
    vectors = np.frombuffer(payload, dtype="<f4", offset=floats_start).reshape(rows, dimension)
    return Upsert(document, vectors, payload[_LENGTHS.size : body_start].decode())
