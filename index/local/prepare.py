"""Prepares a document version for the index: its entry in a vector segment, and the terms of its chunks."""

from __future__ import annotations

from sluice.index.journal.document_facts import document_key
from sluice.index.journal.records import Upsert
from sluice.index.segments.segment_content import SegmentDocument
from sluice.index.terms.chunk_terms import ChunkTerms, extract_chunk_terms


def prepare_document(
    journal_offset: int, version: Upsert, first_number: int
) -> tuple[SegmentDocument, list[ChunkTerms]]:
    """Make the document's entry, with chunks numbered from `first_number`, and the terms of each chunk.

    A chunk id that occurs twice in a document is kept once.
    """
    document, records, vectors = version.document, version.records, version.vectors
    first_rows: dict[str, int] = {}
    for row, chunk in enumerate(document.chunks):
        first_rows.setdefault(chunk.chunk_id, row)
    rows = list(first_rows.values())
    chunks = [document.chunks[row] for row in rows]
    languages = [chunk.language or document.language or "" for chunk in chunks]
    entry = SegmentDocument(
        key=document_key(document.document_id),
        journal_offset=journal_offset,
        record=records.facts,
        numbers=range(first_number, first_number + len(rows)),
        chunk_ids=list(first_rows),
        languages=languages,
        chunk_records=[records.chunks[row] for row in rows],
        vectors=vectors if len(rows) == len(vectors) else vectors[rows],
    )
    terms = [
        extract_chunk_terms(document.title, language, chunk) for language, chunk in zip(languages, chunks, strict=True)
    ]
    return entry, terms
