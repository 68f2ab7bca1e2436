"""Records of the journal: a document version arrived, or a document was removed.

An upsert's payload is

    <u32 length of the fingerprint> <u32 length of the document> <u32 rows n> <u32 dimension d>
    fingerprint (UTF-8) · document (zstd) · n x d float32, little endian

where the document consists of its records. A segment holds the same bytes, so they are encoded only once:

    <u32 count> <count x u32 lengths> · its facts as JSON · each of its chunks as JSON

A removal's payload is the document's id in UTF-8. In an `OLD_UPSERT` the document is one `ChunkedDocument` as JSON.
"""

from __future__ import annotations

import struct
import threading
from dataclasses import dataclass
from enum import IntEnum
from itertools import accumulate, pairwise

import numpy as np
import zstandard
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError

from sluice.contracts.document import Chunk, ChunkedDocument
from sluice.contracts.errors import Corrupted

Vectors = NDArray[np.float32]

_LENGTHS = struct.Struct("<IIII")
_COUNT = struct.Struct("<Q")
_RECORD_COUNT = struct.Struct("<I")
_ZSTD_LEVEL = -3
"""A third of the time of the default level; as most of a payload is vectors, the journal is 6 % larger for it."""
_document_json = TypeAdapter(ChunkedDocument).serializer.to_json
_chunk_json = TypeAdapter(Chunk).serializer.to_json
_CHUNKS = {"chunks"}


class Kind(IntEnum):
    """Kinds of journal frames."""

    OLD_UPSERT = 1
    """An upsert in the encoding of older journals: read, no longer written."""
    REMOVAL = 2
    PIN = 3
    """The model that the corpus is bound to; not a record, at the head of a compacted journal."""
    END = 4
    """The number of records in a compacted journal; not a record, at its foot."""
    UPSERT = 5


@dataclass(frozen=True, slots=True)
class DocumentRecords:
    """A document version as journal and segments hold it: its facts and each of its chunks as JSON."""

    facts: bytes
    chunks: tuple[bytes, ...]


def make_records(document: ChunkedDocument) -> DocumentRecords:
    """Encode the document's facts and each of its chunks as JSON, without first building a model of them."""
    facts = _document_json(document, exclude=_CHUNKS)
    return DocumentRecords(facts, tuple([_chunk_json(chunk) for chunk in document.chunks]))


@dataclass(frozen=True, slots=True, eq=False)
class Upsert:
    """A version of a document: vectors float32 (n, d), row i for chunk i, the model that made them, the records."""

    document: ChunkedDocument
    vectors: Vectors
    fingerprint: str
    records: DocumentRecords

    @classmethod
    def of(cls, document: ChunkedDocument, vectors: Vectors, fingerprint: str) -> Upsert:
        """Return an upsert whose records are made of the document."""
        return cls(document, vectors, fingerprint, make_records(document))


@dataclass(frozen=True, slots=True)
class Removal:
    """The document was removed."""

    document_id: str


Record = Upsert | Removal


def encode_record(record: Record) -> tuple[Kind, bytes]:
    """Encode `record` as the kind and payload of a frame."""
    match record:
        case Removal(document_id):
            return Kind.REMOVAL, document_id.encode("utf-8", "surrogatepass")
        case Upsert(_, vectors, fingerprint, records):
            name = fingerprint.encode()
            body = _own.compressor.compress(_join(records))
            rows, dimension = vectors.shape
            floats = np.ascontiguousarray(vectors, dtype="<f4").tobytes()
            return Kind.UPSERT, _LENGTHS.pack(len(name), len(body), rows, dimension) + name + body + floats


def encode_pin(fingerprint: str, dimension: int) -> bytes:
    """Encode the model that a corpus is bound to, as `decode_pin` reads it."""
    name = fingerprint.encode()
    return _LENGTHS.pack(len(name), 0, 1, dimension) + name


def encode_end(count: int) -> bytes:
    """Encode the record count of a compacted file."""
    return _COUNT.pack(count)


def decode_end(payload: bytes) -> int:
    """Decode the record count of a compacted file."""
    return int(_COUNT.unpack(payload)[0])


def decode_record(kind: int, payload: bytes) -> Record:
    """Decode the record in a frame. Raises `Corrupted` when the bytes are no record of that kind."""
    try:
        match Kind(kind):
            case Kind.REMOVAL:
                return Removal(payload.decode("utf-8", "surrogatepass"))
            case Kind.UPSERT | Kind.OLD_UPSERT:
                return _decode_upsert(kind, payload)
            case Kind.PIN | Kind.END:
                raise ValueError("it is no record")
    except (ValueError, struct.error, zstandard.ZstdError, ValidationError) as error:
        raise Corrupted(f"a journal frame of kind {kind} does not decode: {error}") from error


def decode_pin(payload: bytes) -> tuple[str, int] | None:
    """Decode only the model fingerprint and dimension of an upsert or pin; None if it has no vector."""
    name_length, _, rows, dimension = _LENGTHS.unpack_from(payload)
    return (payload[_LENGTHS.size : _LENGTHS.size + name_length].decode(), dimension) if rows else None


def _join(records: DocumentRecords) -> bytes:
    pieces = (records.facts, *records.chunks)
    lengths = struct.pack(f"<{len(pieces)}I", *map(len, pieces))
    return b"".join((_RECORD_COUNT.pack(len(pieces)), lengths, *pieces))


def _split(body: bytes) -> DocumentRecords:
    """Undo `_join`. Raises `ValueError` or `struct.error` for bytes that it did not make."""
    (count,) = _RECORD_COUNT.unpack_from(body)
    lengths = struct.unpack_from(f"<{count}I", body, _RECORD_COUNT.size)
    edges = accumulate(lengths, initial=_RECORD_COUNT.size * (1 + count))
    facts, *chunks = [body[start:end] for start, end in pairwise(edges)]
    if _RECORD_COUNT.size * (1 + count) + sum(lengths) != len(body):
        raise ValueError("its records are not as long as it says")
    return DocumentRecords(facts, tuple(chunks))


def _document_of(records: DocumentRecords) -> ChunkedDocument:
    """Undo `make_records`: the chunks become the last member of the facts' JSON object."""
    whole = b'%b,"chunks":[%b]}' % (records.facts.removesuffix(b"}"), b",".join(records.chunks))
    return ChunkedDocument.model_validate_json(whole)


def _decode_upsert(kind: int, payload: bytes) -> Upsert:
    name_length, body_length, rows, dimension = _LENGTHS.unpack_from(payload)
    body_start = _LENGTHS.size + name_length
    floats_start = body_start + body_length
    fingerprint = payload[_LENGTHS.size : body_start].decode()
    vectors = np.frombuffer(payload, dtype="<f4", offset=floats_start).reshape(rows, dimension)
    body = _own.decompressor.decompress(payload[body_start:floats_start])
    if kind == Kind.OLD_UPSERT:
        return Upsert.of(ChunkedDocument.model_validate_json(body), vectors, fingerprint)
    records = _split(body)
    return Upsert(_document_of(records), vectors, fingerprint, records)


class _Codecs(threading.local):
    """A compressor and a decompressor per thread: each serves one thread at a time and costs more to make than use."""

    def __init__(self) -> None:
        self.compressor = zstandard.ZstdCompressor(_ZSTD_LEVEL)
        self.decompressor = zstandard.ZstdDecompressor()


_own = _Codecs()
