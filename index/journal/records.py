"""Records of the journal: a document version arrived, or a document was removed.

An upsert's payload is

    <u32 length of the fingerprint> <u32 length of the document> <u32 rows n> <u32 dimension d>
    fingerprint (UTF-8) · document (zstd) · n x d float32, little endian

where the document consists of its records. A segment holds the same bytes, so they are encoded only once:

    <u32 count> <count x u32 lengths> · its facts as JSON · each of its chunks as JSON

A removal's payload is the document's id in UTF-8. In an `OLD_UPSERT` the document is one `ChunkedDocument` as JSON.

Here are also the rules by which two versions are one (`is_recorded`), and the key that finds a document.
"""

from __future__ import annotations

import hashlib
import struct
import threading
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum
from functools import lru_cache
from itertools import accumulate, pairwise

import numpy as np
import zstandard
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError

from sluice.contracts.base import construct_unvalidated
from sluice.contracts.document import Chunk, ChunkedDocument, DocumentFacts
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


REFRESH_AFTER_SECONDS = 3_600.0
"""An unchanged document fetched again within this time is the same version. Later its new date is recorded, since the
gate judges freshness by it."""


_FACTS = tuple(DocumentFacts.model_fields)


def make_facts(document: ChunkedDocument) -> DocumentFacts:
    """Copy the document without its chunks."""
    return construct_unvalidated(DocumentFacts, {name: getattr(document, name) for name in _FACTS}, set(_FACTS))


def with_first_seen(document: ChunkedDocument, recorded: DocumentFacts) -> ChunkedDocument:
    """Return the document with the time at which the recorded version first came, if its content is the same."""
    if document.checksum != recorded.checksum:
        return document
    provenance = document.provenance.model_copy(update={"first_seen_at": recorded.provenance.known_since})
    return document.model_copy(update={"provenance": provenance})


def is_recorded(recorded: DocumentFacts, new: DocumentFacts) -> bool:
    """Return whether `new` or a later version is recorded: a late delivery must not bring an old version back.

    Of two inspections of the same fetch the later one counts: it includes chunks that were released since.
    """
    if new.provenance.fetched_at < recorded.provenance.fetched_at:
        return True
    if new.provenance.fetched_at == recorded.provenance.fetched_at and _is_inspected_before(new, recorded):
        return True
    return is_same_version(recorded, new)


def is_same_version(old: DocumentFacts, new: DocumentFacts) -> bool:
    """Return whether `new` needs no record after `old`.

    The same content under the same facts is the same version, whichever run brought it, unless it was fetched again
    more than `REFRESH_AFTER_SECONDS` later. Other rules of inspection, other chunks left out by it and other verdicts
    make another version.
    """
    age_seconds = (new.provenance.fetched_at - old.provenance.fetched_at).total_seconds()
    if age_seconds > REFRESH_AFTER_SECONDS:
        return False
    return _without_fetch(old, old.provenance.fetched_at) == _without_fetch(new, old.provenance.fetched_at)


@lru_cache(maxsize=4096)  # needed several times for each document that is ingested
def document_key(document_id: str) -> int:
    """Return a 128-bit hash of the document's id: fixed width on disk, without collisions in practice."""
    return int.from_bytes(hashlib.blake2b(document_id.encode("utf-8", "surrogatepass"), digest_size=16).digest(), "big")


def _is_inspected_before(one: DocumentFacts, other: DocumentFacts) -> bool:
    return one.inspected_at is not None and other.inspected_at is not None and one.inspected_at < other.inspected_at


def _without_fetch(facts: DocumentFacts, fetched_at: datetime) -> DocumentFacts:
    """Return the facts without those that differ between two fetches, and two inspections, of the same content."""
    passing: dict[str, object] = {
        "fetched_at": fetched_at,
        "first_seen_at": None,
        "run_id": None,
        "search_query": None,
        "provider": None,
        "crawl_depth": None,
        "rendered": False,
        "etag": None,
        "last_modified": None,
    }
    provenance = facts.provenance.model_copy(update=passing)
    return facts.model_copy(update={"provenance": provenance, "inspected_at": None})
