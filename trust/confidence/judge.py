"""The confidence of a retrieval: of each passage, and of the whole as that of its best passage.

    judged = judge(found, asked)
    if asked.may_drop: ...                        # passages below a floor

Where the formula does not know what a passage means, nothing is to be dropped and the limits say why: see `Basis`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto

from contracts.retrieval import Retrieval, RetrievedChunk
from trust.confidence.adjust import shift_by_age, shift_by_sources, shift_by_trust, weigh_model_opinion
from trust.confidence.coverage import Analyse, CoverageMeter
from trust.confidence.formula import BY_MEANING, BY_WORDS, CALIBRATED_MODELS, probability
from trust.confidence.limits import describe_limits

PROBABLE = 0.5
"""The confidence from which a passage of another domain counts as one more source."""
DECIMALS = 4


class Basis(Enum):
    """What a confidence rests on."""

    MEANING = auto()
    """The vectors of a calibrated model, and words."""
    WORDS = auto()
    """Words alone: the question has no vector, or one of a model whose cosines are of a scale that the formula does not
    know. Nothing is dropped, as the right passage may say it in other words."""
    NONE = auto()
    """The question is in a language that neither model nor formula knows: nothing is judged, nothing is dropped."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A question as one corpus sees it."""

    words: Mapping[str, float]
    """Its content words, with their inverse document frequency in the corpus."""
    rarest: float
    """The inverse document frequency of a word that one chunk alone has."""
    chunk_count: int
    """How many chunks were searched."""
    analyse: Analyse
    model_fingerprint: str | None
    """The embedding model of the corpus's vectors; None where the question has none."""
    is_english: bool
    """Whether the question may be English, the language that the calibrated model knows."""
    site_of: Callable[[str], str]
    """The registrable domain of a URL."""

    @property
    def basis(self) -> Basis:
        """What its confidence rests on."""
        if not self.is_english:
            return Basis.NONE
        return Basis.MEANING if (self.model_fingerprint or "").startswith(CALIBRATED_MODELS) else Basis.WORDS

    @property
    def may_drop(self) -> bool:
        """Whether the formula knows the question well enough for passages of low confidence to be left out."""
        return self.basis is Basis.MEANING


def judge(found: Retrieval, asked: Asked, *, model_says: float | None = None) -> Retrieval:
    """The retrieval with a confidence for each passage and for the whole, and the sentence on its limits.

    `model_says` is a language model's own word, in [0, 1], on whether the question is answered; it is weighed into
    every confidence (`trust.confidence.adjust`).
    """
    if not found.chunks:
        return found
    basis = asked.basis
    chunks = found.chunks if basis is Basis.NONE else _judge_passages(found, asked, basis, model_says)
    best = max((chunk.confidence for chunk in chunks if chunk.confidence is not None), default=None)
    limits = describe_limits(best, is_by_words=basis is not Basis.MEANING)
    metadata = found.metadata.model_copy(update={"confidence": best, "limits": limits})
    return found.model_copy(update={"chunks": chunks, "metadata": metadata})


def _judge_passages(
    found: Retrieval, asked: Asked, basis: Basis, model_says: float | None
) -> tuple[RetrievedChunk, ...]:
    """The passages with their confidence: first each by itself, then with the independent sources beside it."""
    meter = CoverageMeter(asked.words, asked.rarest, asked.analyse)
    freshness = {score.chunk_id: score.factors.time_freshness for score in found.metadata.trust_scores}
    formula = BY_MEANING if basis is Basis.MEANING else BY_WORDS
    log_odds = [
        formula.log_odds(_cosine(chunk), meter.share(chunk), asked.chunk_count)
        + shift_by_trust(chunk.trust)
        + shift_by_age(freshness.get(chunk.chunk_id, 1.0))
        for chunk in found.chunks
    ]
    sites = [_site(chunk, asked) for chunk in found.chunks]
    probable = {site for site, odds in zip(sites, log_odds, strict=True) if site and probability(odds) >= PROBABLE}
    judged = []
    for chunk, site, odds in zip(found.chunks, sites, log_odds, strict=True):
        others = len(probable - {site}) if site else 0
        chance = probability(weigh_model_opinion(odds + shift_by_sources(others), model_says))
        judged.append(chunk.model_copy(update={"confidence": round(chance, DECIMALS)}))
    return tuple(judged)


def _cosine(chunk: RetrievedChunk) -> float:
    """0 for a passage without a vector."""
    return 0.0 if chunk.dense_distance is None else 1.0 - chunk.dense_distance


def _site(chunk: RetrievedChunk, asked: Asked) -> str | None:
    """The domain that a passage was fetched from; None for what was handed in, whose URL is only claimed."""
    fetched = chunk.url if chunk.provenance.source in ("crawl", "search") else None
    return asked.site_of(fetched) if fetched else None
