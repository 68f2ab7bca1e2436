"""Documents about valves, one vector each: a corpus without an embedder."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from sluice.contracts.document import Chunk, ChunkBatch, ChunkedDocument, Provenance, sha256_text

MODEL = "test/8"


def valve(number: int) -> tuple[ChunkBatch, NDArray[np.float32], str]:
    """A batch of one document `d<number>`, its vector and the model: what a writer appends."""
    text = f"passage number {number} about valves"
    chunk = Chunk(
        chunk_id=f"c{number}",
        document_id=f"d{number}",
        ordinal=0,
        text=text,
        start_line=1,
        end_line=1,
        token_estimate=6,
        checksum=sha256_text(text),
    )
    document = ChunkedDocument(
        document_id=f"d{number}",
        checksum=sha256_text(text),
        provenance=Provenance(source="file", fetched_at=datetime(2026, 1, 1, tzinfo=UTC)),
        chunks=(chunk,),
    )
    return ChunkBatch(documents=(document,)), np.eye(8, dtype=np.float32)[[number % 8]], MODEL
