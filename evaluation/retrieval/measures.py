"""The measures, computed by ir-measures (MacAvaney, Macdonald and Ounis, ECIR 2022), which wraps trec_eval.

| measure | definition for one question | value |
|---|---|---|
| recall@k | the share of its relevant documents among the first k | 0 to 1 |
| precision@k | the share of the first k documents that are relevant | 0 to 1 |
| hit rate@10 | whether at least one relevant document is among the first 10 | 0 or 1 |
| MRR@10 | 1 / rank of the first relevant document, 0 beyond the tenth | 0 to 1 |
| nDCG@10 (Järvelin and Kekäläinen, TOIS 2002) | grade / log2(rank + 1) summed, against the best order | 0 to 1 |

The uncertainty of a figure, and of a difference of two, is computed with a fixed seed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sluice.contracts.errors import InvalidSetting
from sluice.evaluation.retrieval.cases import Case

DEPTH = 100
"""Documents used of a ranking: as many as the deepest measure needs."""
HIT_DEPTH = 10
"""Number of first documents of which one must be relevant for a hit; otherwise the question is a miss."""

MEASURES = {
    "nDCG@10": "nDCG@10",
    "MRR@10": "RR@10",
    f"hit rate@{HIT_DEPTH}": f"Success@{HIT_DEPTH}",
    "precision@5": "P@5",
    "precision@10": "P@10",
    "recall@1": "R@1",
    "recall@5": "R@5",
    "recall@10": "R@10",
    f"recall@{DEPTH}": f"R@{DEPTH}",
}
"""Our name of each measure, and that of ir-measures."""
HEADLINES = ("nDCG@10", "MRR@10", "recall@10")
"""The measures whose drop fails a comparison: the quality of the first page of results, in three ways."""


def require_library() -> None:
    """Check for the library before any work is done. Raises `InvalidSetting` if ir-measures is not installed."""
    _library()


def compute_measures(cases: Sequence[Case], rankings: Mapping[str, Sequence[str]]) -> dict[str, dict[str, float]]:
    """Return the value of each case by its id, for each measure.

    `rankings` has the names found for each case, best first; a case without an entry found nothing. Raises
    `InvalidSetting` if ir-measures is not installed.
    """
    library = _library()
    by_library = {library.parse_measure(theirs): ours for ours, theirs in MEASURES.items()}
    values: dict[str, dict[str, float]] = {ours: {case.id: 0.0 for case in cases} for ours in MEASURES}
    judgments, run = [], []
    for number, case in enumerate(cases):
        # trec_eval takes names as C strings: numbers replace them, so any name works.
        numbers: dict[str, str] = {}
        for name, grade in case.relevant.items():
            judgments.append(library.Qrel(str(number), _numbered(name, numbers), grade))
        for rank, name in enumerate(rankings.get(case.id, ())[:DEPTH]):
            run.append(library.ScoredDoc(str(number), _numbered(name, numbers), float(-rank)))
    for found in library.iter_calc(list(by_library), judgments, run) if run else ():
        values[by_library[found.measure]][cases[int(found.query_id)].id] = float(found.value)
    return values


def _numbered(name: str, numbers: dict[str, str]) -> str:
    return numbers.setdefault(name, str(len(numbers)))


def _library() -> Any:
    try:
        import ir_measures
    except ImportError as error:
        remedy = "install it: pip install 'sluice[eval]'"
        raise InvalidSetting("evaluation", "ir-measures is not installed", remedy) from error
    return ir_measures


Floats = NDArray[np.float64]

SEED = 20_070_611
RESAMPLES = 2_000
"""Resamples of the bootstrap: the ends of a 95 % interval then have 50 resamples beyond each of them."""
PERMUTATIONS = 10_000
"""Permutations of the randomisation test: its smallest p is 1 in 10,001."""
BATCH = 250
"""Resamples computed at a time, which bounds memory at a few MB per thousand questions."""


def bootstrap_interval(values: Floats, confidence: float = 0.95) -> tuple[Floats, Floats]:
    """Return lower and upper ends of each column's mean, shapes (measures,), for values (questions, measures).

    The percentile bootstrap over questions (Efron and Tibshirani, An Introduction to the Bootstrap, 1993, ch. 13).
    """
    generator = np.random.default_rng(SEED)
    count = len(values)
    means = np.empty((RESAMPLES, values.shape[1]))
    for start in range(0, RESAMPLES, BATCH):
        drawn = generator.integers(0, count, size=(BATCH, count), dtype=np.int32)
        times = np.stack([np.bincount(row, minlength=count) for row in drawn])
        means[start : start + BATCH] = times @ values / count
    tail = (1 - confidence) / 2
    low, high = np.quantile(means, (tail, 1 - tail), axis=0)
    return low, high


def randomisation_p(differences: Floats) -> Floats:
    """Return the two-sided p of each column's mean, shape (measures,), for paired differences (questions, measures).

    Fisher's paired randomisation test, found the most fitting of five for retrieval by Smucker, Allan and Carterette (A
    Comparison of Statistical Significance Tests for Information Retrieval Evaluation, CIKM 2007): if the two systems
    were alike, the sign of each question's difference would be random. The observed order counts as one of the
    permutations, so that p is never 0 (Phipson and Smyth, 2010).
    """
    differing = differences[np.any(differences != 0, axis=1)]
    observed = np.abs(differing.sum(axis=0))
    generator = np.random.default_rng(SEED)
    as_extreme = np.zeros(differences.shape[1])
    for _ in range(0, PERMUTATIONS, BATCH):
        signs = 2.0 * generator.integers(0, 2, size=(BATCH, len(differing)), dtype=np.int8) - 1.0
        # Sums of the same numbers in another order differ in their last bits.
        as_extreme += np.count_nonzero(np.abs(signs @ differing) >= observed - 1e-9, axis=0)
    return (as_extreme + 1) / (PERMUTATIONS + 1)
