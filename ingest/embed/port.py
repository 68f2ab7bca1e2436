"""The Protocol of an embedder: texts in, unit vectors out, with a fingerprint of the vectors that may be mixed.

Two embedders have the same fingerprint exactly if both give the same text the same vector (up to
rounding). An index holds vectors of one fingerprint; a caller that embeds for it names that
fingerprint and gets its vectors or an error, never vectors of another model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sluice.contracts.budget import Spend
from sluice.contracts.errors import Conflict, Unavailable

Vectors = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Embedded:
    """The vectors of a list of texts, and what they cost.

    `vectors` has shape (texts, dimension), rows of length 1, row i for text i. `tokens` and `cost_usd` count the texts
    computed now; a text answered from a cache costs nothing and is counted in `cache_hits` instead.
    """

    vectors: Vectors
    fingerprint: str
    tokens: int = 0
    cost_usd: float = 0.0
    cache_hits: int = 0

    @property
    def spend(self) -> Spend:
        """The cost as the ledger books it."""
        return Spend(tokens=self.tokens, usd=self.cost_usd)


class Embedder(Protocol):
    """Turns texts into vectors of length 1. Safe to share between threads."""

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the vectors that `embed` returns unless another is required."""
        ...

    @property
    def dimension(self) -> int:
        """Number of columns of those vectors."""
        ...

    def embed(self, texts: Sequence[str], required_fingerprint: str | None = None) -> Embedded:
        """Return vectors of `required_fingerprint`, or of this embedder if None (an index still without vectors).

        Raises Conflict if no configured model has that fingerprint, and Unavailable (or its children) if that model
        cannot be reached.
        """
        ...


class InFront:
    """An embedder in front of another, whose fingerprint and dimension it takes over."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    @property
    def fingerprint(self) -> str:
        """The inner embedder's fingerprint."""
        return self._embedder.fingerprint

    @property
    def dimension(self) -> int:
        """The inner embedder's dimension."""
        return self._embedder.dimension

    def model_of(self, fingerprint: str) -> Embedder | None:
        """Return the model behind this one whose vectors have the fingerprint; None if there is none."""
        inner = self._embedder
        if isinstance(inner, InFront):
            return inner.model_of(fingerprint)
        return inner if inner.fingerprint == fingerprint else None


def require_fingerprint(own: str, required: str | None) -> None:
    """Raise Conflict if the index was built with another model."""
    if required is not None and required != own:
        raise Conflict(
            f"the index was built with the embedding model {required}, and {own} cannot add to it or search it: "
            "configure the former model again, or embed the corpus anew"
        )


def unit_rows(vectors: Vectors) -> Vectors:
    """Return each row divided by its length. Raises Unavailable for a row without a direction (zero, NaN, infinite)."""
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
    if not (np.isfinite(lengths) & (lengths > 0)).all():
        raise Unavailable("the embedding model gave a vector without a direction (zero, or not a number)")
    return np.ascontiguousarray(vectors / lengths, dtype=np.float32)
