"""Documents as they are when their chunks are inspected."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

from sluice.contracts.document import Chunk, ChunkedDocument, Provenance, sha256_text


def make_document(
    *texts: str, source: Literal["crawl", "submission"] = "crawl", title: str = "Valves", section: str = "Use"
) -> ChunkedDocument:
    chunks = tuple(
        Chunk(
            chunk_id=f"c{number}",
            document_id="d",
            ordinal=number,
            text=text,
            start_line=1,
            end_line=1,
            section_path=(section,),
            token_estimate=9,
            checksum=sha256_text(text),
        )
        for number, text in enumerate(texts)
    )
    return ChunkedDocument(
        document_id="d",
        checksum=sha256_text("d"),
        title=title,
        provenance=Provenance(source=source, fetched_at=datetime(2026, 1, 1, tzinfo=UTC)),
        chunks=chunks,
    )
