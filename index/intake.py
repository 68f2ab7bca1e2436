"""What a document version becomes: an entry for a vector segment, and entries for the term index."""

from __future__ import annotations

import numpy as np

from contracts.document import Chunk, ChunkedDocument
from index.facts import document_key, facts_of
from index.identifiers import identifier_terms
from index.records import Vectors
from index.segment_file import SegmentDocument
from index.term_search import TermEntry


def take_in(
    journal_offset: int, document: ChunkedDocument, vectors: Vectors, first_number: int
) -> tuple[SegmentDocument, list[TermEntry]]:
    """The document's entries, its chunks numbered from `first_number`; `vectors` (n, d), row i for chunk i.

    A passage that stands twice in a document under one id is kept once.
    """
    first_rows: dict[str, int] = {}
    for row, chunk in enumerate(document.chunks):
        first_rows.setdefault(chunk.chunk_id, row)
    rows = list(first_rows.values())
    chunks = [document.chunks[row] for row in rows]
    entry = SegmentDocument(
        key=document_key(document.document_id),
        journal_offset=journal_offset,
        record=facts_of(document).model_dump_json().encode(),
        numbers=range(first_number, first_number + len(rows)),
        chunk_ids=list(first_rows),
        languages=[chunk.language or document.language or "" for chunk in chunks],
        chunk_records=[chunk.model_dump_json().encode() for chunk in chunks],
        vectors=np.ascontiguousarray(vectors[rows], dtype=np.float32),
    )
    terms = [
        term_entry(number, entry.key, document.title, chunk)
        for number, chunk in zip(entry.numbers, chunks, strict=True)
    ]
    return entry, terms


def term_entry(number: int, document_key: int, title: str | None, chunk: Chunk) -> TermEntry:
    """What the term index takes in of a chunk."""
    return TermEntry(
        number=number,
        document_key=document_key,
        title=title or "",
        headings=" ".join(part for part in (*chunk.section_path, chunk.symbol_path) if part),
        text=chunk.text,
        code=" ".join(identifier_terms(f"{chunk.symbol_path or ''} {chunk.text}")),
    )
