"""Which documents of a batch are written: a submission never replaces what others brought.

Asked in the one process that writes the corpus, right before it does, so that nothing comes in between.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sluice.contracts.document import ChunkBatch, ChunkedDocument, document_id_for
from sluice.contracts.event import Gap
from sluice.trust.source_trust import refusal_to_replace, submission_id_for

if TYPE_CHECKING:
    from sluice.index.journal.records import Vectors
    from sluice.workers.wiring.corpora import Writer


class Admitted(NamedTuple):
    """The documents to write with their vectors, the ids of those that they supersede, and what was refused."""

    batch: ChunkBatch
    vectors: Vectors
    superseded: tuple[str, ...]
    gaps: tuple[Gap, ...]


def admit(batch: ChunkBatch, vectors: Vectors, writer: Writer) -> Admitted:
    """The documents of the batch that may be written, and why others may not."""
    earlier_ids = {document.document_id: _earlier_id(document) for document in batch.documents}
    wanted = [name for pair in earlier_ids.items() for name in pair if name is not None]
    recorded = writer.documents(wanted)
    kept: list[ChunkedDocument] = []
    rows: list[Vectors] = []
    gaps: list[Gap] = []
    row = 0
    for document in batch.documents:
        own = vectors[row : (row := row + len(document.chunks))]
        there = recorded.get(document.document_id)
        refusal = refusal_to_replace(there.provenance, document.provenance) if there else None
        if refusal:
            gaps.append(Gap(stage="index", subject=document.document_id, **refusal._asdict()))
        else:
            kept.append(document)
            rows.append(own)
    superseded = tuple(
        earlier
        for document in kept
        if (earlier := earlier_ids[document.document_id]) in recorded
        and recorded[earlier].provenance.source == "submission"
    )
    if gaps:
        vectors = np.concatenate([vectors[:0], *rows])
        batch = batch.model_copy(update={"documents": tuple(kept), "tokens": None})
    return Admitted(batch, vectors, superseded, tuple(gaps))


def _earlier_id(document: ChunkedDocument) -> str | None:
    """The id that versions before 0.4 gave to a submission without an id: that of the page at the claimed address."""
    source = document.url or document.file_path
    provenance = document.provenance
    if provenance.source != "submission" or source is None:
        return None
    is_derived = document.document_id == submission_id_for(provenance.submitted_by, source)
    return document_id_for(source) if is_derived else None
