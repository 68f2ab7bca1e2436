"""Reads the features of a learned model from the recorded events of a decision.

    best_cosine     the nearest hit, or its sentence where that was compared and is nearer
    sentence_terms  share of the question's idf mass in one sentence, the one before it and its headings
    agreement       correlation of the hits' cosines with their BM25 scores: whether both retrievers mean the same hits
    lexical_lead    how far the best BM25 score lies before the mean of the other hits'

Every number is rounded to six places, so that the same events give the same bytes wherever they are read.
A change of what a name means is a new `FEATURES_VERSION`: models of another version are refused.
docs/decisions/0023-learned-gate.md tells what each earns, and what was measured and left out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from sluice.contracts.gate import CoverageProbed, ProbeHit
from sluice.gate.probe import compute_coverage

FEATURES_VERSION = 1
DECIMALS = 6
FEATURES = ("best_cosine", "sentence_terms", "agreement", "lexical_lead")
HITS_THAT_CORRELATE = 3
"""Two hits always lie on a line."""
LEAST_SPREAD = 1e-9
"""Scores that differ by less than rounding correlate with nothing."""


def read_features(probed: CoverageProbed) -> Mapping[str, float]:
    """The numbers of `FEATURES`, in their order; where nothing was measured (no vector, no hit) they are 0."""
    cosines = [hit.dense_similarity for hit in probed.hits if hit.dense_similarity is not None]
    of_sentences = [one.similarity for one in probed.sentences if one.similarity is not None]
    passage = compute_coverage(probed.terms) if probed.terms else 1.0
    lexical = sorted((hit.lexical_score or 0.0 for hit in probed.hits), reverse=True)
    found = {
        "best_cosine": max([*cosines, *of_sentences], default=0.0),
        "sentence_terms": max((one.term_coverage for one in probed.sentences), default=passage),
        "agreement": _agreement(probed.hits),
        "lexical_lead": lexical[0] - _mean(lexical[1:]) if len(lexical) > 1 else sum(lexical),
    }
    return {name: round(found[name], DECIMALS) for name in FEATURES}


def _agreement(hits: Sequence[ProbeHit]) -> float:
    """Pearson's correlation over the hits that have a cosine; 0 where there are too few, or one does not vary."""
    pairs = [(hit.dense_similarity, hit.lexical_score or 0.0) for hit in hits if hit.dense_similarity is not None]
    if len(pairs) < HITS_THAT_CORRELATE:
        return 0.0
    near, words = [one for one, _ in pairs], [one for _, one in pairs]
    spread = _deviation(near) * _deviation(words)
    if spread < LEAST_SPREAD:
        return 0.0
    mean_near, mean_words = _mean(near), _mean(words)
    return _mean([(one - mean_near) * (other - mean_words) for one, other in pairs]) / spread


def _deviation(values: Sequence[float]) -> float:
    mean = _mean(values)
    return math.sqrt(_mean([(value - mean) ** 2 for value in values]))


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else 0.0
