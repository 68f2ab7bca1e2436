"""The log-odds that a passage answers a question: a logistic regression on three figures.

    log-odds = bias + cosine · c + coverage · s - chunks · ln N

c is the cosine of question and passage, s the share of the question's words that the passage holds (by rarity), N the
number of chunks in the corpus: among more chunks, chance alone finds a nearer one. It rises with c and s and falls with
N. An answer is as confident as its best passage.

Fitted by `python -m bench.confidence` on questions whose passage is there, was taken out, or whose topic was taken out;
docs/decisions/0019-confidence.md has what was measured, and what was tried and left out (gaps to the following hits,
standing against the candidates, BM25, agreement of the retrievers, number of words).
"""

from __future__ import annotations

import math
from typing import NamedTuple

CALIBRATED_MODELS = ("all-MiniLM-L6-v2/",)
"""Beginnings of the fingerprints of the models whose cosines the formula knows; those of others are another scale."""


def is_calibrated(model_fingerprint: str | None) -> bool:
    """Whether the formula knows the cosines of a model's vectors; not where there is no vector."""
    return model_fingerprint is not None and model_fingerprint.startswith(CALIBRATED_MODELS)


class Formula(NamedTuple):
    """The weights of one formula."""

    bias: float
    cosine: float
    coverage: float
    chunks: float

    def log_odds(self, cosine: float, coverage: float, chunk_count: int) -> float:
        """The log-odds that a passage with these figures answers, in a corpus of so many chunks."""
        return self.bias + self.cosine * cosine + self.coverage * coverage - self.chunks * math.log(max(1, chunk_count))


BY_MEANING = Formula(bias=-3.87, cosine=6.98, coverage=2.86, chunks=0.24)
"""For cosines of a calibrated model."""
BY_WORDS = Formula(bias=-1.74, cosine=0.0, coverage=4.27, chunks=0.13)
"""For a question without a vector, or vectors of another model: by its words alone."""


def probability(log_odds: float) -> float:
    """The probability of log-odds, of which nothing beyond ±30 matters."""
    return 1.0 / (1.0 + math.exp(-max(-30.0, min(30.0, log_odds))))


def log_odds_of(chance: float) -> float:
    """The log-odds of a probability strictly between 0 and 1."""
    return math.log(chance / (1.0 - chance))
