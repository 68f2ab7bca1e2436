"""Documents that carry their version, all rewritten before each publish: a result that mixes versions shows by them.

A result says which journal offset it covers. A beacon's record has an offset of its own, so at each offset exactly one
version of each beacon is the right one, be it from a generation or from the journal beyond it.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence

import numpy as np

from bench.index.documents import Batch, document
from bench.index.synthetic import DIMENSION, Vectors
from sluice.contracts.document import ChunkBatch
from sluice.contracts.retrieval import Query, RetrievedChunk

BEACONS = 16
CORPUS = "reloads"
QUERY = Query(query="beacon light", corpus=CORPUS, top_k=10)
"""Finds beacons and nothing else: by their word, and by a direction that no other chunk has."""


def beacon_vector() -> Vectors:
    """The direction of every beacon."""
    direction = np.zeros(DIMENSION, dtype=np.float32)
    direction[0] = 1.0
    return direction


def beacons(version: int) -> Batch:
    """All of them, at a version that their text and their metadata tell."""
    documents = tuple(
        document(f"beacon-{number}", [(f"beacon-{number}", f"beacon light {number} version {version}")]).model_copy(
            update={"metadata": {"version": version}}
        )
        for number in range(BEACONS)
    )
    return ChunkBatch(documents=documents), np.tile(beacon_vector(), (BEACONS, 1))


def sighting(chunk: RetrievedChunk) -> tuple[int, int, int]:
    """The beacon's number, the version that its text tells, and the one that its metadata tells."""
    _, _, number, _, version = chunk.text.split(" ")
    return int(number), int(version), int(chunk.metadata["version"])


def version_at(journal_offset: int, number: int, last_offsets: Sequence[int]) -> int:
    """The version of a beacon at an offset; version v's records end at `last_offsets[v]`. -1 before the first."""
    behind = BEACONS - 1 - number
    return bisect.bisect_right(last_offsets, journal_offset + behind) - 1
