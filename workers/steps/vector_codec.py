"""Vectors as bytes: float32, row-major, little-endian, without a header; the event carries the dimension."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sluice.contracts.errors import Corrupted


def vectors_to_bytes(vectors: NDArray[np.float32]) -> bytes:
    """The bytes of an (n, d) float32 matrix."""
    return np.ascontiguousarray(vectors, dtype="<f4").tobytes()


def vectors_from_bytes(raw: bytes, dimension: int) -> NDArray[np.float32]:
    """The (n, d) float32 matrix in `raw`.

    Raises:
        Corrupted: the bytes are no whole number of rows.
    """
    if len(raw) % (4 * dimension):
        raise Corrupted(f"{len(raw)} bytes are no whole number of float32 rows of {dimension}")
    return np.frombuffer(raw, dtype="<f4").reshape(-1, dimension)
