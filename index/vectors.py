"""Vector segments: immutable files that hold some documents' chunks, vectors and texts.

A segment `NAME` is four files, written once and hard-linked from generation to generation:

    NAME.vectors    FAISS index, exact inner product; id = row
    NAME.rows       numpy table, one entry per chunk: number, end of its record, document, language, id
    NAME.documents  numpy table, one entry per document: key, end of its record, first row, journal offset
    NAME.records    JSON records back to back: all chunks in row order, then all documents

Chunk numbers rise within a segment and from one segment to the next, so a number is found by bisection.
Whole documents die, never single chunks; who died is kept beside the segment (`NAME.<generation>.dead`).
Vectors, tables and records are memory-mapped: opening costs no more for a large segment.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import faiss
import numpy as np
from numpy.typing import NDArray

from contracts.document import Chunk
from index.facts import DocumentFacts
from index.records import Vectors

SUFFIXES = ("vectors", "rows", "documents", "records")
_LOW_64_BITS = (1 << 64) - 1
_DOCUMENT_TYPE = np.dtype(
    [("high", "<u8"), ("low", "<u8"), ("end", "<u8"), ("journal_offset", "<u8"), ("first_row", "<u4")]
)

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class SegmentDocument:
    """A document as it enters a segment: its record, its chunks' records, and their vectors (n, d)."""

    key: int
    journal_offset: int
    record: bytes
    numbers: Sequence[int]
    chunk_ids: Sequence[str]
    languages: Sequence[str]
    chunk_records: Sequence[bytes]
    vectors: Vectors


def write_segment(folder: Path, name: str, documents: Sequence[SegmentDocument], dimension: int) -> None:
    """Write the four files of a segment; the caller flushes them to the disk.

    Raises `FileExistsError` when there is a segment of that name: its files may be links to a generation's.
    """
    (folder / f"{name}.vectors").touch(exist_ok=False)
    index = faiss.IndexFlatIP(dimension)
    for document in documents:
        if len(document.vectors):
            index.add(np.ascontiguousarray(document.vectors, dtype=np.float32))
    faiss.write_index(index, str(folder / f"{name}.vectors"))
    chunk_records = [record for document in documents for record in document.chunk_records]
    records = chunk_records + [document.record for document in documents]
    (folder / f"{name}.records").write_bytes(b"".join(records))
    ends = np.cumsum([len(record) for record in records], dtype=np.uint64)
    _save(folder / f"{name}.rows", _rows_table(documents, ends[: len(chunk_records)]))
    _save(folder / f"{name}.documents", _documents_table(documents, ends[len(chunk_records) :]))


class Segment:
    """A segment opened for reading. Immutable, safe for threads, shared between generations."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        flag = faiss.IO_FLAG_MMAP_IFC
        self._index = cast(Any, faiss.read_index(str(folder / f"{name}.vectors"), flag))
        shape = (self._index.ntotal, self._index.d)
        self._vectors = faiss.rev_swig_ptr(self._index.get_xb(), shape[0] * shape[1]).reshape(shape)
        self.rows = _table(folder / f"{name}.rows")
        self.documents = _table(folder / f"{name}.documents")
        self._records = _map(folder / f"{name}.records")
        self.numbers = np.ascontiguousarray(self.rows["number"])
        self._ends = np.ascontiguousarray(self.rows["end"])
        self._ids = self.rows["id"]
        self._facts: dict[int, DocumentFacts] = {}

    @property
    def dimension(self) -> int:
        """Dimensions of a vector."""
        return int(self._index.d)

    @cached_property
    def languages(self) -> NDArray[np.str_]:
        """The language of every row, lower case; empty where unknown."""
        return np.char.lower(np.char.decode(self.rows["language"], "utf-8"))

    @cached_property
    def all_facts(self) -> list[DocumentFacts]:
        """Every document's facts, read once: filters look at them."""
        return [self.facts(document) for document in range(len(self.documents))]

    def search(self, vector: Vectors, limit: int, allowed: Mask | None) -> tuple[Vectors, NDArray[np.int64]]:
        """The best `limit` rows by inner product with `vector` (d,), best first, among the `allowed`."""
        limit = min(limit, len(self.numbers))
        if limit == 0:
            return np.empty(0, dtype=np.float32), np.empty(0, dtype=np.int64)
        faiss.omp_set_num_threads(1)  # one query, one thread: the pool of queries has the cores
        parameters = None
        if allowed is not None:
            bits = np.packbits(allowed, bitorder="little")
            selector = faiss.IDSelectorBitmap(len(bits), faiss.swig_ptr(bits))
            parameters = faiss.SearchParameters()
            parameters.sel = selector
        scores, rows = self._index.search(vector.reshape(1, -1), limit, params=parameters)
        found = rows[0] >= 0
        return scores[0][found], rows[0][found]

    def vectors_of(self, rows: NDArray[np.int64]) -> Vectors:
        """The vectors of the rows, (n, d)."""
        vectors: Vectors = self._vectors[rows]
        return vectors

    def chunk_id(self, row: int) -> str:
        """The chunk id of a row."""
        return bytes(self._ids[row]).decode()

    def chunk_record(self, row: int) -> bytes:
        """The JSON of a row's chunk."""
        start = int(self._ends[row - 1]) if row else 0
        return self._records[start : int(self._ends[row])].tobytes()

    def chunk(self, row: int) -> Chunk:
        """The chunk of a row."""
        return Chunk.model_validate_json(self.chunk_record(row))

    def document_record(self, document: int) -> bytes:
        """The JSON of a document's facts."""
        before = self.documents["end"][document - 1] if document else (self._ends[-1] if len(self._ends) else 0)
        return self._records[int(before) : int(self.documents["end"][document])].tobytes()

    def facts(self, document: int) -> DocumentFacts:
        """A document's facts, kept once read."""
        facts = self._facts.get(document)
        if facts is None:
            facts = self._facts[document] = DocumentFacts.model_validate_json(self.document_record(document))
        return facts

    def rows_of(self, document: int) -> range:
        """The rows of a document's chunks."""
        last = document == len(self.documents) - 1
        end = len(self.numbers) if last else int(self.documents["first_row"][document + 1])
        return range(int(self.documents["first_row"][document]), end)

    def keys(self) -> list[int]:
        """Every document's key, in order."""
        pairs = zip(self.documents["high"].tolist(), self.documents["low"].tolist(), strict=True)
        return [(high << 64) | low for high, low in pairs]

    def find_document(self, key: int) -> list[int]:
        """The documents under `key`: versions of the same document, at most one of them alive."""
        hits = self.documents["high"] == np.uint64(key >> 64)
        return np.nonzero(hits & (self.documents["low"] == np.uint64(key & _LOW_64_BITS)))[0].tolist()

    def take_document(self, document: int) -> SegmentDocument:
        """A document as it would enter another segment: how segments are merged."""
        rows = self.rows_of(document)
        return SegmentDocument(
            key=(int(self.documents["high"][document]) << 64) | int(self.documents["low"][document]),
            journal_offset=int(self.documents["journal_offset"][document]),
            record=self.document_record(document),
            numbers=self.numbers[rows.start : rows.stop].tolist(),
            chunk_ids=[self.chunk_id(row) for row in rows],
            languages=[bytes(language).decode() for language in self.rows["language"][rows.start : rows.stop]],
            chunk_records=[self.chunk_record(row) for row in rows],
            vectors=self.vectors_of(np.arange(rows.start, rows.stop)),
        )

    def alive(self, dead_documents: Sequence[int] | NDArray[np.uint32]) -> Mask | None:
        """Which rows live on when these documents are dead. None: all of them."""
        if not len(dead_documents):
            return None
        documents_alive = np.ones(len(self.documents), dtype=np.bool_)
        documents_alive[np.asarray(dead_documents, dtype=np.int64)] = False
        alive: Mask = documents_alive[self.rows["document"]]
        return alive

    def allowed(self, accepts: Callable[[DocumentFacts], bool]) -> Mask:
        """Which rows belong to documents that `accepts` lets pass."""
        passing = np.fromiter((accepts(facts) for facts in self.all_facts), np.bool_, len(self.documents))
        allowed: Mask = passing[self.rows["document"]]
        return allowed


def _rows_table(documents: Sequence[SegmentDocument], ends: NDArray[np.uint64]) -> NDArray[np.void]:
    ids = np.array([chunk.encode() for document in documents for chunk in document.chunk_ids] or [b""])
    kind = np.dtype([("number", "<u8"), ("end", "<u8"), ("document", "<u4"), ("language", "S24"), ("id", ids.dtype)])
    table = np.zeros(len(ends), dtype=kind)
    table["number"] = [number for document in documents for number in document.numbers]
    table["end"] = ends
    table["document"] = np.repeat(np.arange(len(documents)), [len(document.numbers) for document in documents])
    table["language"] = [name.encode()[:24] for document in documents for name in document.languages]
    table["id"] = ids[: len(ends)]
    return table


def _documents_table(documents: Sequence[SegmentDocument], ends: NDArray[np.uint64]) -> NDArray[np.void]:
    table = np.zeros(len(documents), dtype=_DOCUMENT_TYPE)
    table["high"] = np.array([document.key >> 64 for document in documents], dtype=np.uint64)
    table["low"] = np.array([document.key & _LOW_64_BITS for document in documents], dtype=np.uint64)
    table["end"] = ends
    table["journal_offset"] = [document.journal_offset for document in documents]
    counts = [len(document.numbers) for document in documents]
    table["first_row"] = np.cumsum([0, *counts])[:-1]
    return table


def _save(path: Path, table: NDArray[np.void]) -> None:
    with path.open("xb") as file:
        np.save(file, table, allow_pickle=False)


def _map(path: Path) -> NDArray[np.uint8]:
    if path.stat().st_size == 0:
        return np.empty(0, dtype=np.uint8)
    return np.memmap(path, dtype=np.uint8, mode="r").view(np.ndarray)


def _table(path: Path) -> NDArray[np.void]:
    """A mapped table as a plain array: numpy's own memmap class makes every look at it ten times slower."""
    table: NDArray[np.void] = np.load(path, mmap_mode="r", allow_pickle=False).view(np.ndarray)
    return table
