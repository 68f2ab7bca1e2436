"""Checks of a batch before any of it is written: complete, finite, and of the corpus's model."""

from __future__ import annotations

import numpy as np

from sluice.contracts.document import ChunkBatch
from sluice.contracts.errors import Conflict, InvalidInput
from sluice.index.journal.records import Vectors


def check_vectors(batch: ChunkBatch, vectors: Vectors) -> None:
    """Raise `InvalidInput` unless there is one finite float32 vector for each chunk of the batch."""
    chunk_count = sum(len(document.chunks) for document in batch.documents)
    if vectors.ndim != 2 or len(vectors) != chunk_count or vectors.dtype != np.float32:
        problem = f"{vectors.dtype} of shape {vectors.shape} for {chunk_count} chunks"
        raise InvalidInput("vectors", problem, "give float32 of shape (chunks, dimension)")
    if not np.isfinite(vectors).all():
        raise InvalidInput("vectors", "hold a value that is no finite number", "embed the texts again")


def check_model(corpus: str, model: tuple[str, int] | None, fingerprint: str, vectors: Vectors) -> None:
    """Raise `Conflict` when the corpus is bound to another model (fingerprint, dimension) than the batch's."""
    if len(vectors) and model is not None and model != (fingerprint, vectors.shape[1]):
        raise Conflict(
            f"corpus {corpus} is bound to the model {model[0]} ({model[1]} dimensions), the batch comes from "
            f"{fingerprint} ({vectors.shape[1]}): embed with the first, or use another corpus"
        )
