"""The formula of BM25: weight · idf · tf · (k1 + 1) / (tf + k1 · (1 - b + b · length / average length)).

Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009), with the 1 that Lucene adds
to the inverse document frequency, so that it is never negative. Tantivy has the same formula and constants.
"""

from __future__ import annotations

import math

K1 = 1.2
B = 0.75


def inverse_document_frequency(population: int, frequency: int) -> float:
    """ln(1 + (N - n + 0.5) / (n + 0.5)), for a term that `frequency` of `population` texts have."""
    return math.log(1 + max(0.0, population - frequency + 0.5) / (frequency + 0.5))


def saturation(count: float, relative_length: float) -> float:
    """What `count` occurrences are worth in a text of that length, in average lengths: from 0 to k1 + 1."""
    return count * (K1 + 1) / (count + K1 * (1 - B + B * relative_length))
