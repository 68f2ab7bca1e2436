"""Compressed forms of a segment's vectors: a scan over short codes proposes rows, the exact vectors judge them.

A form is tried in order of speed and taken when it finds what exact search finds for vectors that were held
back from its training; when none does, the segment is searched exactly.

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

from index.journal.records import Vectors

Rows = NDArray[np.int64]

LEAST_ROWS = 3_000
"""Below it exact search is as fast: a scan of so many vectors of 384 dimensions takes about 0.1 ms."""
LEAST_RECALL = 0.99
"""Recall@10 against exact search, on rows that the form was not trained with."""
_RECALL_AT = 10
_DEPTHS = (100, 200, 400, 800)
_SAFETY = 2
"""Search so many times deeper than a hundred questions needed."""
_HELD_BACK = 100
_TRAINING_SHARE = 0.1
_TRAINING_ROWS = (1_024, 4_096)
"""At least and at most: 64 and 256 for each of the 16 centroids."""
_TRAINING_ROUNDS = 3
"""Seven more change recall@10 for real questions by 0.001, either way, at 10,000 rows and at 100,000."""


@dataclass(frozen=True, slots=True)
class Compressed:
    """A form as it is stored: `depth` rows are proposed for a question, `recall` was measured with half of that."""

    form: str
    depth: int
    recall: float
    codes: bytes


class Proposer:
    """Proposes the rows that are likely nearest. Safe for threads."""

    def __init__(self, codes: NDArray[np.uint8], depth: int) -> None:
        reader = cast(Any, faiss).ZeroCopyIOReader(faiss.swig_ptr(codes), codes.nbytes)
        self._codes = codes  # whatever of it the index does not copy
        self._index = cast(Any, faiss.read_index(reader))
        self._count: int = self._index.ntotal
        self.depth = depth

    def propose(self, vector: Vectors, count: int) -> Rows:
        """About the `count` rows with the highest inner product with `vector` (d,), in no order."""
        found: Rows = _proposed(self._index, vector.reshape(1, -1), min(count, self._count))[0]
        return found if found[-1] >= 0 else found[found >= 0]  # what is missing stands last


def compress(vectors: Vectors, seed: int = 0, forms: Sequence[str] = ("pq", "rabitq")) -> Compressed | None:
    """The fastest of `forms` that finds what exact search finds in `vectors` (n, d); None where none does."""
    if len(vectors) < LEAST_ROWS:
        return None
    faiss.omp_set_num_threads(1)  # building goes on beside queries
    random = np.random.default_rng(seed)
    chosen = random.permutation(len(vectors))
    held_back = _as_questions(vectors[np.sort(chosen[:_HELD_BACK])], random)
    training = vectors[np.sort(chosen[_HELD_BACK : _HELD_BACK + _training_rows(len(vectors))])]
    nearest = _nearest_exactly(vectors, held_back)
    for form in forms:
        index = _BUILDERS[form](training)
        if index is None:
            continue
        index.add(vectors)
        for depth in _DEPTHS:
            recall = _recall(index, held_back, nearest, depth)
            if recall >= LEAST_RECALL:
                return Compressed(form, _SAFETY * depth, recall, faiss.serialize_index(index).tobytes())
    return None


def _proposed(index: Any, vectors: Vectors, count: int) -> Rows:
    faiss.omp_set_num_threads(1)  # one question, one thread: the pool of queries has the cores
    rows: Rows = index.search(np.ascontiguousarray(vectors), count)[1]
    return rows


def _training_rows(count: int) -> int:
    """Of a large segment more, where training takes little beside the rest."""
    least, most = _TRAINING_ROWS
    return min(max(least, round(_TRAINING_SHARE * count)), most)


def _as_questions(held_back: Vectors, random: np.random.Generator) -> Vectors:
    """Half of the rows as they are, half of them half-way to nowhere: a question lies farther off than a passage."""
    half = len(held_back) // 2
    noise = random.standard_normal((half, held_back.shape[1])).astype(np.float32)
    noise /= np.linalg.norm(noise, axis=1, keepdims=True)
    return np.concatenate([held_back[half:], held_back[:half] + noise])


def _nearest_exactly(vectors: Vectors, questions: Vectors) -> Rows:
    """The nearest rows of each: (questions, `_RECALL_AT`)."""
    products = questions @ vectors.T
    nearest: Rows = np.argpartition(-products, _RECALL_AT - 1, axis=1)[:, :_RECALL_AT]
    return nearest


def _recall(index: Any, held_back: Vectors, nearest: Rows, depth: int) -> float:
    found = _proposed(index, held_back, depth)
    return float((nearest[:, :, np.newaxis] == found[:, np.newaxis, :]).any(axis=2).mean())


def _product_quantiser(training: Vectors) -> Any:
    """96 codes where the dimension allows, else as many as divide it; None where none do."""
    dimension = training.shape[1]
    codes = next((count for count in range(min(dimension, max(8, dimension // 4)), 7, -1) if dimension % count == 0), 0)
    if not codes:
        return None
    index = cast(Any, faiss.IndexPQFastScan(dimension, codes, 4, faiss.METRIC_INNER_PRODUCT))
    index.pq.cp.niter = _TRAINING_ROUNDS
    index.train(training)
    index.pq.sync_transposed_centroids()  # the same codes, a fifth sooner
    return index


def _one_bit(training: Vectors) -> Any:
    index = cast(Any, faiss.IndexRaBitQFastScan(training.shape[1], faiss.METRIC_INNER_PRODUCT))
    index.train(training)
    return index


_BUILDERS: Mapping[str, Callable[[Vectors], Any]] = {"pq": _product_quantiser, "rabitq": _one_bit}
