"""A synthetic corpus of any size in a stream: clustered unit vectors, Zipf-distributed words. It speaks of speed only.

A vector is one of a thousand centres on the sphere with Gaussian noise around it, brought back to length 1 (cosine to
its centre about 0.78). Block i is the same whatever was drawn before it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from bench.index.documents import CHUNKS_PER_BATCH, Batch, batches

DIMENSION = 384
CENTRES = 1_000
NOISE = 0.8
"""Length of the noise beside a centre of length 1."""
VOCABULARY = 50_000
WORDS_PER_CHUNK = 60
WORDS_PER_QUERY = 6
ZIPF_EXPONENT = 1.3
QUERY_RANKS = (100, 20_000)
"""A question's words are content words: as likely from each tenfold of ranks, never of those that every text has. The
commonest stands in about 4 % of the chunks."""

Vectors = NDArray[np.float32]


class SyntheticCorpus:
    """Blocks of chunks and questions, all from one seed."""

    def __init__(self, seed: int = 5) -> None:
        self._seed = seed
        self._centres = _normalised(np.random.default_rng(seed).standard_normal((CENTRES, DIMENSION), dtype=np.float32))
        self._words = np.array([f"term{rank}" for rank in range(VOCABULARY)])

    def batches(self, chunks: int, start: int = 0, version: int = 0) -> Iterator[Batch]:
        """Chunks `start` to `chunks` in batches of documents; another version has other texts and vectors."""
        for first in range(start, chunks, CHUNKS_PER_BATCH):
            count = min(CHUNKS_PER_BATCH, chunks - first)
            random = np.random.default_rng((self._seed, version, first))
            yield from batches(first, self._texts(random, count, WORDS_PER_CHUNK), self._vectors(random, count))

    def questions(self, count: int) -> tuple[list[str], Vectors]:
        """Short texts, and vectors of the same clusters."""
        random = np.random.default_rng((self._seed, 1 << 30))
        ranks = np.exp(random.uniform(*np.log(QUERY_RANKS), (count, WORDS_PER_QUERY))).astype(np.int64)
        return self._joined(ranks), self._vectors(random, count)

    def _texts(self, random: np.random.Generator, count: int, words: int) -> list[str]:
        return self._joined(np.minimum(random.zipf(ZIPF_EXPONENT, (count, words)), VOCABULARY) - 1)

    def _joined(self, ranks: NDArray[np.int64]) -> list[str]:
        return [" ".join(row) for row in self._words[ranks]]

    def _vectors(self, random: np.random.Generator, count: int) -> Vectors:
        noise = random.standard_normal((count, DIMENSION), dtype=np.float32) * np.float32(NOISE / DIMENSION**0.5)
        return _normalised(self._centres[random.integers(CENTRES, size=count)] + noise)


def _normalised(vectors: Vectors) -> Vectors:
    normalised: Vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return normalised
