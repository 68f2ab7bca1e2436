"""Segments in files: immutable, each holds chunks, vectors and texts of some documents.

A segment is one file, `NAME.segment`, written once and hard-linked from generation to generation: a header with the
place of each section, then the sections, each at a multiple of 64 bytes.

    vectors     float32 (chunks, dimension)
    codes       the quantized vectors (`index.segments.quantization`), where there are any
    numbers, ends, owners, languages, ids
                a column each, one entry per chunk: number, end of its record, document, language, id
    documents   a table, one entry per document: key, end of its record, journal offset, first row
    by_key      the documents' positions in the order of their keys; high_keys the upper half of those keys
    records     JSON records back to back: all chunks in row order, then all documents

Dead documents are listed beside the segment (`NAME.<generation>.dead`). The file is memory-mapped, so opening a large
segment costs no more than opening a small one, except for the codes, which are copied.
"""

from __future__ import annotations

import json
import mmap
import struct
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from sluice.contracts.document import DocumentFacts
from sluice.index.journal.records import Vectors
from sluice.index.segments.quantization import QuantizedIndex, quantize
from sluice.index.segments.segment import Mask, Rows, Segment, inner_products, select_best

SUFFIX = "segment"
_MAGIC = b"SLSEG002"
_HEADER_LENGTH = struct.Struct("<I")
_ALIGNMENT = 64
_DOCUMENT_FIELDS = [("high", "<u8"), ("low", "<u8"), ("end", "<u8"), ("journal_offset", "<u8"), ("first_row", "<u4")]
_DOCUMENT_TYPE = np.dtype(_DOCUMENT_FIELDS)


KEY_TYPE = np.dtype([("high", "<u8"), ("low", "<u8")])
"""A document key of 128 bits, in two halves."""
LANGUAGE_BYTES = 24
Buffer = bytes | memoryview
_LOW_64_BITS = (1 << 64) - 1


@dataclass(frozen=True, slots=True, eq=False)
class SegmentDocument:
    """A document to be written to a segment: its record, its chunks' records, and their vectors (n, d)."""

    key: int
    journal_offset: int
    record: bytes
    numbers: Sequence[int]
    chunk_ids: Sequence[str]
    languages: Sequence[str]
    chunk_records: Sequence[bytes]
    vectors: Vectors


@dataclass(frozen=True, slots=True, eq=False)
class SegmentContent:
    """Content of a segment, as columns: n chunks of m documents, `vectors` (n, d).

    `chunk_records` and `document_records` are the records back to back, in pieces of any size; `chunk_bytes` and
    `document_bytes` are their lengths.
    """

    vectors: Vectors
    numbers: NDArray[np.uint64]
    chunk_counts: NDArray[np.int64]
    languages: NDArray[np.bytes_]
    ids: NDArray[np.bytes_]
    chunk_bytes: NDArray[np.int64]
    keys: NDArray[np.void]
    journal_offsets: NDArray[np.uint64]
    chunk_records: Sequence[Buffer]
    document_bytes: NDArray[np.int64]
    document_records: Sequence[Buffer]


def build_content(documents: Sequence[SegmentDocument], dimension: int) -> SegmentContent:
    """Build the columns of a segment from documents."""
    vectors = [document.vectors for document in documents if len(document.vectors)]
    keys = np.zeros(len(documents), dtype=KEY_TYPE)
    keys["high"] = np.array([document.key >> 64 for document in documents], dtype=np.uint64)
    keys["low"] = np.array([document.key & _LOW_64_BITS for document in documents], dtype=np.uint64)
    chunk_records = [record for document in documents for record in document.chunk_records]
    return SegmentContent(
        vectors=np.concatenate(vectors, dtype=np.float32) if vectors else np.empty((0, dimension), dtype=np.float32),
        numbers=np.array([number for document in documents for number in document.numbers], dtype=np.uint64),
        chunk_counts=np.array([len(document.numbers) for document in documents], dtype=np.int64),
        languages=_fixed([name for document in documents for name in document.languages], LANGUAGE_BYTES),
        ids=_fixed([chunk_id for document in documents for chunk_id in document.chunk_ids]),
        chunk_bytes=np.array([len(record) for record in chunk_records], dtype=np.int64),
        keys=keys,
        journal_offsets=np.array([document.journal_offset for document in documents], dtype=np.uint64),
        chunk_records=chunk_records,
        document_bytes=np.array([len(document.record) for document in documents], dtype=np.int64),
        document_records=[document.record for document in documents],
    )


def join_contents(contents: Sequence[SegmentContent]) -> SegmentContent:
    """Join the content of several segments, in that order; chunk numbers must rise throughout."""
    names = [one.name for one in fields(SegmentContent)]
    columns: dict[str, Any] = {name: [getattr(content, name) for content in contents] for name in names}
    columns["vectors"] = [vectors for vectors in columns["vectors"] if len(vectors)] or columns["vectors"][:1]
    records: dict[str, Any] = {name: list(chain(*columns.pop(name))) for name in ("chunk_records", "document_records")}
    joined: dict[str, Any] = {name: np.concatenate(pieces) for name, pieces in columns.items()}
    return SegmentContent(**joined, **records)


def _fixed(names: Sequence[str], width_bytes: int = 0) -> NDArray[np.bytes_]:
    """Return the names in UTF-8, each in `width_bytes`; by default in as many as the longest has."""
    encoded = [name.encode() for name in names]
    width = width_bytes or max(map(len, encoded), default=1)
    return np.array(encoded, dtype=f"S{max(width, 1)}")


def write_segment(folder: Path, name: str, content: SegmentContent) -> None:
    """Write a segment's file; the caller flushes it to the disk.

    Raises `FileExistsError` when a file has that name: it may be a link to a generation's file.
    """
    quantized = quantize(content.vectors)
    ends = np.cumsum(np.concatenate([content.chunk_bytes, content.document_bytes]), dtype="<u8")
    document_count, chunk_count = len(content.keys), len(content.numbers)
    documents = np.zeros(document_count, dtype=_DOCUMENT_TYPE)
    documents["high"], documents["low"] = content.keys["high"], content.keys["low"]
    documents["end"] = ends[chunk_count:]
    documents["journal_offset"] = content.journal_offsets
    documents["first_row"] = np.cumsum(content.chunk_counts) - content.chunk_counts
    by_key = np.lexsort((documents["low"], documents["high"])).astype("<u4")
    sections: dict[str, Sequence[Buffer]] = {
        "vectors": [_bytes(content.vectors)],
        "codes": [quantized.codes if quantized else b""],
        "numbers": [_bytes(content.numbers.astype("<u8", copy=False))],
        "ends": [_bytes(ends[:chunk_count])],
        "owners": [_bytes(np.repeat(np.arange(document_count, dtype="<u4"), content.chunk_counts))],
        "languages": [_bytes(content.languages)],
        "ids": [_bytes(content.ids)],
        "documents": [_bytes(documents)],
        "by_key": [_bytes(by_key)],
        "high_keys": [_bytes(documents["high"][by_key])],
        "records": [*content.chunk_records, *content.document_records],
    }
    facts = {
        "dimension": content.vectors.shape[1],
        "id_bytes": content.ids.itemsize,
        "form": quantized.method if quantized else None,
        "depth": quantized.depth if quantized else 0,
        "recall": quantized.recall if quantized else None,
    }
    with (folder / f"{name}.{SUFFIX}").open("xb") as file:
        _write_sections(file, facts, sections)


class StoredSegment(Segment):
    """A segment's file opened for reading; shared between generations. Raises `ValueError` when it is no segment."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        header, sections = _open_sections(folder / f"{name}.{SUFFIX}")
        self.dimension: int = header["dimension"]
        """Dimensions of a vector."""
        self.quantization: str | None = header["form"]
        """The method of quantization; None where the segment is searched exactly."""
        self.recall: float | None = header["recall"]
        """Recall@10 of the quantized search when it was built."""
        self._vectors: Vectors = sections["vectors"].view("<f4").reshape(-1, self.dimension)
        self._quantized = QuantizedIndex(sections["codes"], header["depth"]) if self.quantization else None
        self.numbers = sections["numbers"].view("<u8")
        self.owners = sections["owners"].view("<u4")
        self.documents: NDArray[np.void] = sections["documents"].view(_DOCUMENT_TYPE)
        self.document_count = len(self.documents)
        self._by_key: NDArray[np.uint32] = sections["by_key"].view("<u4")
        self._high_keys = sections["high_keys"].view("<u8").data  # a memoryview is bisected faster than an array
        self._records: NDArray[np.uint8] = sections["records"]
        self._ends: NDArray[np.uint64] = sections["ends"].view("<u8")
        self._languages: NDArray[np.bytes_] = sections["languages"].view(f"S{LANGUAGE_BYTES}")
        self._ids: NDArray[np.bytes_] = sections["ids"].view(f"S{header['id_bytes']}")
        # Reading one element of a memoryview takes a third of the time that it takes from an array.
        self._record_bytes, self._record_ends = self._records.data, self._ends.data
        self._facts: dict[int, DocumentFacts] = {}

    @cached_property
    def languages(self) -> NDArray[np.str_]:
        """The language of every row, lower case; empty where unknown."""
        return np.char.lower(np.char.decode(self._languages, "utf-8"))

    def search(self, vector: Vectors, limit: int, allowed: Mask | None) -> tuple[Vectors, Rows]:
        """Return the best `limit` rows by inner product with `vector` (d,), best first, among the `allowed`.

        Scores are those of the exact vectors. A quantized segment may miss a row; `recall` is the measured share found.
        """
        rows = self._propose(self._quantized, vector, limit, allowed) if self._quantized else None
        if rows is None:
            return super().search(vector, limit, allowed)
        return select_best(inner_products(self._vectors, rows, vector), rows, limit)

    def chunk_id(self, row: int) -> str:
        """Return the chunk id of a row."""
        return bytes(self._ids[row]).decode()

    def chunk_record(self, row: int) -> bytes:
        """Return the JSON of a row's chunk."""
        start = self._record_ends[row - 1] if row else 0
        return bytes(self._record_bytes[start : self._record_ends[row]])

    def _document_record(self, document: int) -> bytes:
        before = self.documents["end"][document - 1] if document else (self._ends[-1] if len(self._ends) else 0)
        return self._records[int(before) : int(self.documents["end"][document])].tobytes()

    def facts(self, document: int) -> DocumentFacts:
        """Return a document's facts; they are kept after the first reading."""
        facts = self._facts.get(document)
        if facts is None:
            facts = self._facts[document] = DocumentFacts.model_validate_json(self._document_record(document))
        return facts

    def read_facts(self, document: int) -> DocumentFacts:
        """Return a document's facts, and keep nothing of them."""
        return self._facts.get(document) or DocumentFacts.model_validate_json(self._document_record(document))

    def rows_of(self, document: int) -> range:
        """Return the rows of a document's chunks."""
        last = document == len(self.documents) - 1
        end = len(self.numbers) if last else int(self.documents["first_row"][document + 1])
        return range(int(self.documents["first_row"][document]), end)

    def find_document(self, key: int) -> list[int]:
        """Return the documents under `key`: versions of the same document, at most one of them alive."""
        first = bisect_left(self._high_keys, key >> 64)
        last = bisect_right(self._high_keys, key >> 64, lo=first)
        found: list[int] = self._by_key[first:last].tolist()
        return [document for document in found if self.key_of(document) == key]

    def key_of(self, document: int) -> int:
        """Return the key of a document."""
        return (int(self.documents["high"][document]) << 64) | int(self.documents["low"][document])

    def content(self, dead_documents: Collection[int]) -> SegmentContent:
        """Return the live documents as columns, to be written to another segment."""
        documents_alive = np.ones(len(self.documents), dtype=np.bool_)
        documents_alive[sorted(dead_documents)] = False
        alive = documents_alive[self.owners]
        chunk_edges = np.concatenate([[0], self._ends]).astype(np.int64)
        document_edges = np.concatenate([chunk_edges[-1:], self.documents["end"]]).astype(np.int64)
        first_rows = np.concatenate([self.documents["first_row"], [len(self.numbers)]]).astype(np.int64)
        table = self.documents[documents_alive]
        keys = np.zeros(len(table), dtype=KEY_TYPE)
        keys["high"], keys["low"] = table["high"], table["low"]
        return SegmentContent(
            vectors=self._vectors[alive] if dead_documents else self._vectors,
            numbers=self.numbers[alive],
            chunk_counts=np.diff(first_rows)[documents_alive],
            languages=self._languages[alive],
            ids=self._ids[alive],
            chunk_bytes=np.diff(chunk_edges)[alive],
            chunk_records=self._pieces(alive, chunk_edges),
            keys=keys,
            journal_offsets=table["journal_offset"],
            document_bytes=np.diff(document_edges)[documents_alive],
            document_records=self._pieces(documents_alive, document_edges),
        )

    def _pieces(self, alive: Mask, edges: NDArray[np.int64]) -> list[Buffer]:
        """Return the live records, neighbours joined; record `i` lies between the edges `i` and `i + 1`."""
        turns = np.flatnonzero(np.diff(alive.astype(np.int8), prepend=0, append=0))
        bounds = edges[turns].reshape(-1, 2).tolist()
        return [self._records[start:end].data for start, end in bounds]

    def _propose(self, quantized: QuantizedIndex, vector: Vectors, limit: int, allowed: Mask | None) -> Rows | None:
        """Return the rows to rank; None where too few rows would pass or ranking all that pass is cheaper."""
        wanted = max(quantized.depth, _DEPTH_PER_RESULT * limit)
        if allowed is None:
            return quantized.propose(vector, wanted)
        passing = int(np.count_nonzero(allowed))
        depth = round(1.5 * wanted * len(allowed) / max(passing, 1))
        if depth > passing or depth > len(allowed) // 4:
            return None
        rows = quantized.propose(vector, depth)
        rows = rows[allowed[rows]]
        return rows if len(rows) >= wanted else None


_DEPTH_PER_RESULT = 4
"""Rows proposed for each result, where that is more than the quantizer's own depth."""


def _bytes(array: NDArray[Any]) -> memoryview:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def _write_sections(file: BinaryIO, facts: dict[str, object], sections: dict[str, Sequence[Buffer]]) -> None:
    lengths = {name: sum(map(len, pieces)) for name, pieces in sections.items()}
    header = json.dumps({**facts, "sections": lengths}).encode()
    file.write(_MAGIC + _HEADER_LENGTH.pack(len(header)) + header)
    for pieces in sections.values():
        file.write(bytes(-file.tell() % _ALIGNMENT))
        file.writelines(pieces)


def _open_sections(path: Path) -> tuple[dict[str, Any], dict[str, NDArray[np.uint8]]]:
    with path.open("rb") as file:
        # Does as `np.memmap`, which takes ten times as long and gives an array whose elements are slow to read.
        content = np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), dtype=np.uint8)
    start = len(_MAGIC) + _HEADER_LENGTH.size
    if len(content) < start or content[: len(_MAGIC)].tobytes() != _MAGIC:
        raise ValueError(f"{path.name} is no segment of this version")
    (length,) = _HEADER_LENGTH.unpack(content[len(_MAGIC) : start].tobytes())
    header = json.loads(content[start : start + length].tobytes())
    position = start + length
    sections = {}
    for name, size in header["sections"].items():
        position += -position % _ALIGNMENT
        sections[name] = content[position : position + size]
        if len(sections[name]) != size:
            raise ValueError(f"{path.name} ends within its section {name}")
        position += size
    return header, sections
