"""Quantization of a segment's vectors: a scan over short codes proposes rows, which the exact vectors then rank.

The methods are tried in the order of their speed. The first whose recall is high enough, on rows that were held out of
its training, is taken; when none is, the segment is searched exactly.

    pq       product quantisation, 96 codes of 4 bits, scanned in registers (Jégou, Douze and Schmid, PAMI 2011;
             André, Kermarrec and Le Scouarnec, VLDB 2015)
    rabitq   one bit a dimension with an unbiased estimate (Gao and Long, SIGMOD 2024)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import faiss
import numpy as np
from numpy.typing import NDArray

from sluice.index.journal.records import Vectors

Rows = NDArray[np.int64]

LEAST_ROWS = 3_000
"""Below this many rows exact search is as fast: scanning them takes about 0.1 ms at 384 dimensions."""
LEAST_RECALL = 0.99
"""Recall@10 against exact search, on rows that the quantizer was not trained with."""
_RECALL_AT = 10
_DEPTHS = (100, 200, 400, 800)
_SAFETY = 2
"""Search this many times deeper than the held-out questions needed."""
_HELD_OUT = 100
_TRAINING_SHARE = 0.1
_TRAINING_ROWS = (1_024, 4_096)
"""Fewest and most training rows: 64 and 256 for each of the 16 centroids."""
_TRAINING_ROUNDS = 3
"""Seven more change recall@10 for real questions by 0.001, either way, at 10,000 rows and at 100,000."""


@dataclass(frozen=True, slots=True)
class QuantizedVectors:
    """Quantized vectors as they are stored; `codes` is the serialised FAISS index.

    `depth` rows are proposed for a question; `recall` was measured with half as many.
    """

    method: str
    depth: int
    recall: float
    codes: bytes


class QuantizedIndex:
    """Proposes the rows that are probably nearest to a vector. Safe for threads."""

    def __init__(self, codes: NDArray[np.uint8], depth: int) -> None:
        reader = cast(Any, faiss).ZeroCopyIOReader(faiss.swig_ptr(codes), codes.nbytes)
        self._codes = codes  # keeps the bytes alive, which the index does not copy
        self._index = cast(Any, faiss.read_index(reader))
        self._count: int = self._index.ntotal
        self.depth = depth

    def propose(self, vector: Vectors, count: int) -> Rows:
        """Return about the `count` rows with the highest inner product with `vector` (d,), in no order."""
        found: Rows = _propose(self._index, vector.reshape(1, -1), min(count, self._count))[0]
        return found if found[-1] >= 0 else found[found >= 0]  # rows that are missing come last


def quantize(vectors: Vectors, seed: int = 0, methods: Sequence[str] = ("pq", "rabitq")) -> QuantizedVectors | None:
    """Quantize `vectors` (n, d) by the first of `methods` that reaches `LEAST_RECALL`; None where none does."""
    if len(vectors) < LEAST_ROWS:
        return None
    faiss.omp_set_num_threads(1)  # built while queries are served
    random = np.random.default_rng(seed)
    chosen = random.permutation(len(vectors))
    held_out = _make_questions(vectors[np.sort(chosen[:_HELD_OUT])], random)
    training = vectors[np.sort(chosen[_HELD_OUT : _HELD_OUT + _count_training_rows(len(vectors))])]
    nearest = _search_exactly(vectors, held_out)
    for method in methods:
        index = _BUILDERS[method](training)
        if index is None:
            continue
        index.add(vectors)
        for depth in _DEPTHS:
            recall = _measure_recall(index, held_out, nearest, depth)
            if recall >= LEAST_RECALL:
                return QuantizedVectors(method, _SAFETY * depth, recall, faiss.serialize_index(index).tobytes())
    return None


def _propose(index: Any, vectors: Vectors, count: int) -> Rows:
    faiss.omp_set_num_threads(1)  # one question, one thread: other questions use the other cores
    rows: Rows = index.search(np.ascontiguousarray(vectors), count)[1]
    return rows


def _count_training_rows(count: int) -> int:
    """Return the number of rows to train with: more for a large segment, whose other steps take longer."""
    least, most = _TRAINING_ROWS
    return min(max(least, round(_TRAINING_SHARE * count)), most)


def _make_questions(held_out: Vectors, random: np.random.Generator) -> Vectors:
    """Return the rows, half of them with noise added: questions are farther from passages than passages are."""
    half = len(held_out) // 2
    noise = random.standard_normal((half, held_out.shape[1])).astype(np.float32)
    noise /= np.linalg.norm(noise, axis=1, keepdims=True)
    return np.concatenate([held_out[half:], held_out[:half] + noise])


def _search_exactly(vectors: Vectors, questions: Vectors) -> Rows:
    """Return the rows nearest to each question: int64 (questions, `_RECALL_AT`)."""
    products = questions @ vectors.T
    nearest: Rows = products.argpartition(-_RECALL_AT, axis=1)[:, -_RECALL_AT:]
    return nearest


def _measure_recall(index: Any, held_out: Vectors, nearest: Rows, depth: int) -> float:
    found = _propose(index, held_out, depth)
    return float((nearest[:, :, np.newaxis] == found[:, np.newaxis, :]).any(axis=2).mean())


def _train_product_quantizer(training: Vectors) -> Any:
    """Return a trained index with as many codes as the dimension's largest divisor from 8 to its quarter; else None."""
    dimension = training.shape[1]
    codes = next((count for count in range(min(dimension, max(8, dimension // 4)), 7, -1) if dimension % count == 0), 0)
    if not codes:
        return None
    index = cast(Any, faiss.IndexPQFastScan(dimension, codes, 4, faiss.METRIC_INNER_PRODUCT))
    index.pq.cp.niter = _TRAINING_ROUNDS
    index.train(training)
    index.pq.sync_transposed_centroids()  # the same codes, a fifth sooner
    return index


def _train_rabitq(training: Vectors) -> Any:
    index = cast(Any, faiss.IndexRaBitQFastScan(training.shape[1], faiss.METRIC_INNER_PRODUCT))
    index.train(training)
    return index


_BUILDERS: Mapping[str, Callable[[Vectors], Any]] = {"pq": _train_product_quantizer, "rabitq": _train_rabitq}
