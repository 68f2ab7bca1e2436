"""What a model reads of a probe: a few numbers, by name, from what the events of a decision record.

    best_cosine         the nearest hit, or its sentence where that was compared and is nearer
    cosine_lead         how far the nearest hit lies before the mean of the others
    sentence_terms      share of the question's idf mass in one sentence, the one before it and its headings
    passage_terms       share of it in the best passage

Every number is rounded to six places, so that the same events give the same bytes wherever they are read.
A change of what a name means is a new `FEATURES_VERSION`: models of another version are refused.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from contracts.gate import CoverageProbed
from gate.probe import compute_coverage

FEATURES_VERSION = 1
DECIMALS = 6
FEATURES = ("best_cosine", "cosine_lead", "sentence_terms", "passage_terms")


def read_features(probed: CoverageProbed) -> Mapping[str, float]:
    """The numbers of `FEATURES`, in their order; of a probe without a vector or without a hit the cosines are 0."""
    cosines = [hit.dense_similarity for hit in probed.hits if hit.dense_similarity is not None]
    of_sentences = [one.similarity for one in probed.sentences if one.similarity is not None]
    others = sorted(cosines, reverse=True)[1:]
    nearest = max(cosines, default=0.0)
    held = [one.term_coverage for one in probed.sentences]
    passage = compute_coverage(probed.terms)
    found = {
        "best_cosine": max([nearest, *of_sentences]),
        "cosine_lead": nearest - math.fsum(others) / len(others) if others else 0.0,
        "sentence_terms": max(held, default=passage),
        "passage_terms": passage,
    }
    return {name: round(found[name], DECIMALS) for name in FEATURES}
