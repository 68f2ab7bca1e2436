"""The content of a segment as columns, before it is written: built from documents, or joined from other segments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sluice.index.journal.records import Vectors

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
    """What a segment holds, as columns: n chunks of m documents, `vectors` (n, d).

    `chunk_records` and `document_records` are the records back to back, in pieces of any size; `chunk_bytes`
    and `document_bytes` say how long each one is.
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
    with_rows = [content.vectors for content in contents if len(content.vectors)]
    return SegmentContent(
        vectors=np.concatenate(with_rows) if with_rows else contents[0].vectors,
        numbers=np.concatenate([content.numbers for content in contents]),
        chunk_counts=np.concatenate([content.chunk_counts for content in contents]),
        languages=np.concatenate([content.languages for content in contents]),
        ids=np.concatenate([content.ids for content in contents]),
        chunk_bytes=np.concatenate([content.chunk_bytes for content in contents]),
        keys=np.concatenate([content.keys for content in contents]),
        journal_offsets=np.concatenate([content.journal_offsets for content in contents]),
        chunk_records=[piece for content in contents for piece in content.chunk_records],
        document_bytes=np.concatenate([content.document_bytes for content in contents]),
        document_records=[piece for content in contents for piece in content.document_records],
    )


def _fixed(names: Sequence[str], width_bytes: int = 0) -> NDArray[np.bytes_]:
    """The names in UTF-8, each in as many bytes; by default as many as the longest has."""
    encoded = [name.encode() for name in names]
    width = width_bytes or max(map(len, encoded), default=1)
    return np.array(encoded, dtype=f"S{max(width, 1)}")
