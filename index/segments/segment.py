"""A segment as a search sees it: chunks of some documents with vectors, facts and texts.

There are two kinds: those in files (`index.segments.segment_file`), which a generation is made of, and the one in
memory that holds what the journal has beyond the generation (`index.local.memory_segment`).

Chunk numbers rise within a segment and from one segment to the next, so a number is found by bisection.
Documents are removed as a whole. The rows of a document are consecutive, in its order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, cast

import faiss
import numpy as np
from numpy.typing import NDArray
from pydantic_core import from_json

from sluice.contracts.base import construct_unvalidated
from sluice.contracts.document import Chunk, DocumentFacts, PageLink
from sluice.contracts.errors import Corrupted
from sluice.contracts.trust import Inspection
from sluice.index.journal.records import Vectors

_CHUNK_FIELDS = set(Chunk.model_fields)
_CHUNK_DEFAULTS = {name: field.default for name, field in Chunk.model_fields.items() if not field.is_required()}
Mask = NDArray[np.bool_]
Rows = NDArray[np.int64]


class Segment(ABC):
    """Rows of chunks, and their documents. Immutable, safe for threads."""

    name: str
    numbers: NDArray[np.uint64]
    """The chunk number of every row, ascending."""
    owners: NDArray[np.uint32]
    """The document of every row."""
    document_count: int
    """Number of documents, dead ones included."""
    _vectors: Vectors
    """Vectors of every row, (n, d)."""

    @property
    @abstractmethod
    def languages(self) -> NDArray[np.str_]:
        """The language of every row, lower case; empty where unknown."""

    @abstractmethod
    def chunk_id(self, row: int) -> str:
        """Return the chunk id of a row."""

    @abstractmethod
    def chunk_record(self, row: int) -> bytes:
        """Return the JSON of a row's chunk."""

    @abstractmethod
    def facts(self, document: int) -> DocumentFacts:
        """Return a document's facts."""

    def read_facts(self, document: int) -> DocumentFacts:
        """Return a document's facts, and keep nothing of them."""
        return self.facts(document)

    @abstractmethod
    def rows_of(self, document: int) -> range:
        """Return the rows of a document's chunks."""

    @abstractmethod
    def find_document(self, key: int) -> list[int]:
        """Return the documents under `key`: versions of the same document, at most one of them live."""

    def search(self, vector: Vectors, limit: int, allowed: Mask | None) -> tuple[Vectors, Rows]:
        """Return the best `limit` rows by inner product with `vector` (d,), best first, among the `allowed`."""
        if not len(self.numbers):  # written before the first vector, it has no dimension either
            return np.empty(0, dtype=np.float32), np.empty(0, dtype=np.int64)
        return search_exactly(self._vectors, vector, limit, allowed)

    def vectors_of(self, rows: Rows) -> Vectors:
        """Return the vectors of the rows, (n, d)."""
        vectors: Vectors = self._vectors[rows]
        return vectors

    def products(self, rows: Rows, vector: Vectors) -> Vectors:
        """Return the inner products of the rows with `vector` (d,), (n,)."""
        return inner_products(self._vectors, rows, vector)

    def chunk(self, row: int) -> Chunk:
        """Return the chunk of a row. Raises `Corrupted` where the record is no JSON.

        After retrieval, reading chunks is the largest cost of a search. Records were validated when they were written,
        and their file was verified when it was opened, so they are not validated again: 5 µs a chunk instead of 15.
        """
        fields = self._chunk_fields(row)
        if len(fields) < len(_CHUNK_FIELDS):  # written before all of these fields existed
            fields = _CHUNK_DEFAULTS | fields
        fields["section_path"] = tuple(fields["section_path"])
        if fields["inspection"] is not None:
            fields["inspection"] = Inspection.model_validate(fields["inspection"])
        if fields["links"]:
            fields["links"] = tuple(PageLink(*link) for link in fields["links"])
        return construct_unvalidated(Chunk, fields, _CHUNK_FIELDS)

    def start_line(self, row: int) -> int:
        """Return the first line of the chunk of a row. Raises as `chunk` does."""
        line: int = self._chunk_fields(row)["start_line"]
        return line

    def _chunk_fields(self, row: int) -> dict[str, Any]:
        try:
            fields: dict[str, Any] = from_json(self.chunk_record(row), cache_strings="none")
        except ValueError as error:
            raise Corrupted(f"row {row} of segment {self.name} holds no chunk: {error}") from error
        return fields

    @cached_property
    def masks(self) -> dict[str, Mask]:
        """Masks of the rows that meet a filter, by its JSON: a cache, filled by `index.search.filters`."""
        return {}

    @cached_property
    def by_id(self) -> list[tuple[str, int]]:
        """Every document's id and number, by id: what lists in that order go by, some 150 bytes a document."""
        return sorted((self.read_facts(document).document_id, document) for document in range(self.document_count))

    @cached_property
    def by_fetch(self) -> list[tuple[str, int]]:
        """As `by_id`, by the time of the fetch and then the id."""
        return sorted((self.read_facts(document).fetch_key, document) for document in range(self.document_count))

    @cached_property
    def all_facts(self) -> list[DocumentFacts]:
        """Every document's facts, read once; filters use them."""
        return [self.facts(document) for document in range(self.document_count)]

    def alive(self, dead_documents: Sequence[int] | NDArray[np.uint32]) -> Mask | None:
        """Mask of the rows that are live when these documents are dead: bool (rows,). None where all are live."""
        if not len(dead_documents):
            return None
        documents_alive = np.ones(self.document_count, dtype=np.bool_)
        documents_alive[np.asarray(dead_documents, dtype=np.int64)] = False
        alive: Mask = documents_alive[self.owners]
        return alive

    def allowed(self, accepts: Callable[[DocumentFacts], bool]) -> Mask:
        """Mask of the rows whose documents `accepts` accepts: bool (rows,)."""
        passing = np.fromiter((accepts(facts) for facts in self.all_facts), np.bool_, self.document_count)
        allowed: Mask = passing[self.owners]
        return allowed


_FEW_SCORES = 500
"""Up to this many scores are sorted directly, which is faster than partitioning them first."""
_BLOCK_ROWS = 2_000
"""Rows of one product: numpy would spread a larger one over all cores, which other questions use."""


def search_exactly(vectors: Vectors, vector: Vectors, limit: int, allowed: Mask | None) -> tuple[Vectors, Rows]:
    """Return the best `limit` rows of `vectors` (n, d) by inner product with `vector` (d,), among the `allowed`."""
    if allowed is not None:
        rows = np.nonzero(allowed)[0]
        return select_best(inner_products(vectors, rows, vector), rows, limit)
    scores = np.empty(len(vectors), dtype=np.float32)
    for start in range(0, len(vectors), _BLOCK_ROWS):
        np.dot(vectors[start : start + _BLOCK_ROWS], vector, out=scores[start : start + _BLOCK_ROWS])
    return select_best(scores, None, limit)


def inner_products(vectors: Vectors, rows: Rows, vector: Vectors) -> Vectors:
    """Return the inner products of these rows of `vectors` (n, d) with `vector` (d,), without copying them.

    Runs on the calling thread alone: on busy processors, several threads take milliseconds to meet, and then spin.
    """
    faiss.omp_set_num_threads(1)  # counts for the calling thread
    products = np.empty(len(rows), dtype=np.float32)
    cast(Any, faiss).fvec_inner_products_by_idx(
        faiss.swig_ptr(products),
        faiss.swig_ptr(np.ascontiguousarray(vector, dtype=np.float32)),
        faiss.swig_ptr(vectors),
        faiss.swig_ptr(rows),
        len(vector),
        1,
        len(rows),
    )
    return products


def select_best(scores: Vectors, rows: Rows | None, limit: int) -> tuple[Vectors, Rows]:
    """Select the `limit` highest of `scores` (n,), best first, with their `rows` (None: their positions)."""
    if len(scores) <= max(limit, _FEW_SCORES):
        best = (-scores).argsort(kind="stable")[:limit]
    else:
        best = scores.argpartition(-limit)[-limit:]
        best = best[(-scores[best]).argsort(kind="stable")]
    return scores[best], best if rows is None else rows[best]
