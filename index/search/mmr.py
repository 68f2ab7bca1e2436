"""Maximal marginal relevance: results that are relevant and unlike those before them.

Each place goes to the candidate with the highest

    λ · relevance − (1 − λ) · similarity to the most similar one chosen before

(Carbonell and Goldstein, SIGIR 1998, equation 1), where relevance is the candidate's score, brought to [0, 1] over the
candidates of this query, similarity the cosine of the stored vectors, and λ = 1 − diversity. Pure functions.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sluice.index.journal.records import Vectors


def diversify(scores: Sequence[float], vectors: Vectors, diversity: float, top_k: int) -> list[int]:
    """The positions of `top_k` candidates (or of all there are), in the order of their choice.

    `scores` (n,) in any unit, higher is better; `vectors` (n, d) of length 1; `diversity` in [0, 1]: 0 keeps the order
    of the scores, 1 chooses by difference alone after the first. Equal candidates keep their order.
    """
    relevance = _unit_range(np.asarray(scores, dtype=np.float64))
    likeness = np.full(len(relevance), -np.inf)
    chosen: list[int] = []
    marginal = relevance
    for _ in range(min(top_k, len(relevance))):
        best = int(np.argmax(marginal))
        chosen.append(best)
        likeness = np.maximum(likeness, vectors @ vectors[best])
        marginal = (1.0 - diversity) * relevance - diversity * likeness
        marginal[chosen] = -np.inf
    return chosen


def _unit_range(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """The scores between 0 (the lowest) and 1 (the highest); all 1 where they do not differ."""
    if len(scores) == 0:
        return scores
    low, high = scores.min(), scores.max()
    return (scores - low) / (high - low) if high > low else np.ones_like(scores)
