"""Fits an embedding model's weights to questions of a corpus, and writes them to where searches look for them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from sluice.contracts.base import Value
from sluice.contracts.errors import InvalidInput
from sluice.contracts.retrieval import Query
from sluice.evaluation.retrieval.ask import TOP_K, name_chunks
from sluice.evaluation.retrieval.cases import Case
from sluice.evaluation.retrieval.fit_model import ConfidenceFit, FusionFit, Seen, fit_confidence, fit_lexical_weight
from sluice.trust.confidence import BY_MEANING, CoverageMeter, Formula, is_calibrated
from sluice.workers.steps.retrieve import Retriever
from sluice.workers.wiring.models import ModelFit

LEAST_FLOOR = 0.01


class Fitted(Value):
    """The weights for a model, and the file that has them: None for the local model, whose weights are built in."""

    model: str
    floor: float
    fusion: FusionFit
    confidence: ConfidenceFit
    formula: Formula
    written: str | None

    def lines(self) -> Iterator[str]:
        """Yield the results on questions that the weights were not fitted to, and where the weights are."""
        for own, best in self.fusion.halves:
            yield f"lexical_weight, chosen on a half: nDCG@10 {own:.4f} on the other, where the best has {best:.4f}"
        away = ", ".join(f"{name} {share:.0%}" for name, share in self.confidence.turned_away.items())
        yield f"below the floor of {self.floor:g}, by the weights of the other half: {away}"
        yield f"{self.model}: lexical_weight {self.fusion.lexical_weight:g}, confidence by {self.formula}"
        yield f"written to {self.written}; workers read it when they start" if self.written else "built in, not written"


def fit_model(retriever: Retriever, corpus: str, cases: Sequence[Case]) -> Fitted:
    """Fit the weights of the corpus's model to the cases, and write them.

    Raises `InvalidInput` if the corpus has no vectors, or the cases are too few.
    """
    readers, floor = retriever.readers, max(LEAST_FLOOR, retriever.settings.trust.confidence_floor)
    stats = readers.existing(corpus).stats()
    if stats.model_fingerprint is None:
        raise InvalidInput("corpus", "has no vectors to fit to", "ingest into it with an embedding model")
    seen = [_seen(case, corpus, retriever) for case in cases]
    fusion, confidence = fit_lexical_weight(seen), fit_confidence(seen, stats.chunk_count, floor)
    bias = confidence.bias + BY_MEANING.chunks * math.log(max(1, stats.chunk_count))
    formula = Formula(round(bias, 2), confidence.closeness, confidence.coverage, BY_MEANING.chunks)
    written = None
    if not is_calibrated(stats.model_fingerprint):
        weights = ModelFit(
            fingerprint=stats.model_fingerprint, lexical_weight=fusion.lexical_weight, confidence=formula
        )
        written = str(readers.fits.write(weights))
    return Fitted(
        model=stats.model_fingerprint,
        floor=floor,
        fusion=fusion,
        confidence=confidence,
        formula=formula,
        written=written,
    )


def _seen(case: Case, corpus: str, retriever: Retriever) -> Seen:
    query = Query(query=case.query, corpus=corpus, top_k=TOP_K, filters=case.filters)
    found, asked = retriever.measure(query)
    meter = CoverageMeter(asked.words, asked.rarest, asked.analyse)
    names = [one.name for one in name_chunks(found.chunks, case.relevant)]
    distances = [1.0 if one.dense_distance is None else one.dense_distance for one in found.chunks]
    figures = [(1.0 - far, meter.share(one)) for far, one in zip(distances, found.chunks, strict=True)]
    lexical_scores = np.array([one.lexical_score or 0.0 for one in found.chunks])
    return Seen(names, np.array(figures).reshape(-1, 2), lexical_scores, case.relevant)
