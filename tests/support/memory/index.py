"""An embedded memory's index for tests, with embedding models that count what they are asked."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from sluice.contracts.document import sha256_text
from sluice.index.local.reader import IndexReader
from sluice.index.settings import QuerySettings
from sluice.ingest.embed.port import Embedded, require_fingerprint
from sluice.memory.embedded.engines import LocalEngine
from sluice.memory.embedded.followed_index import FollowedIndex
from sluice.memory.embedded.outside import folder_of_model
from sluice.memory.embedded.vectors import TextVectors
from sluice.memory.upkeep import Upkeep

DIMENSION = 16


class CountingModel:
    """An embedding model: each text has the sum of its words' vectors. `texts` are all that it was asked."""

    dimension = DIMENSION

    def __init__(self, fingerprint: str = "words/1") -> None:
        self.fingerprint = fingerprint
        self.texts: list[str] = []

    def embed(self, texts: Sequence[str], required_fingerprint: str | None = None) -> Embedded:
        require_fingerprint(self.fingerprint, required_fingerprint)
        self.texts += texts
        rows = [sum((self._of_word(word) for word in text.lower().split()), np.zeros(DIMENSION)) for text in texts]
        vectors = np.array([row / np.linalg.norm(row) for row in rows], dtype=np.float32)
        return Embedded(vectors.reshape(len(texts), DIMENSION), self.fingerprint)

    def _of_word(self, word: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        seed = int(sha256_text(f"{self.fingerprint} {word}")[:8], 16)
        return np.random.default_rng(seed).normal(size=DIMENSION)


def local_index(
    folder: Path,
    model: CountingModel | None,
    project: str = "/p",
    clock: Callable[[], float] = time.monotonic,
    upkeep: Upkeep | None = None,
) -> FollowedIndex:
    """The index below `folder`, as `open_memory` makes it; without a model of words alone."""

    def vectors() -> TextVectors:
        if model is None:
            return TextVectors(None, why_not="no model in this test")
        return TextVectors(model, folder_of_model(folder, model.fingerprint) / "vectors.sqlite")

    return FollowedIndex(
        project,
        lambda fingerprint: LocalEngine(folder_of_model(folder, fingerprint)),
        vectors,
        clock=clock,
        upkeep=upkeep,
    )


def payloads(folder: Path, collection: str) -> dict[str, Mapping[str, object]]:
    """The payload of each document that the index of a model holds, by its id."""
    [root] = [path.parent for path in folder.glob(f"*/{collection}")]
    reader = IndexReader(root, collection, QuerySettings())
    try:
        return {one.document_id: one.metadata for one in reader.all_facts()}
    finally:
        reader.close()
