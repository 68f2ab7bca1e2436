"""The confidence of a retrieval: of each passage, and of the whole as that of its best passage.

    judged = judge(found, asked)
    if asked.may_drop: ...                        # passages below a floor

Where the formula does not know what a passage means, nothing is to be dropped and the limits say why: see `Basis`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto

from sluice.contracts.retrieval import Retrieval, RetrievedChunk
from sluice.trust.confidence.adjust import shift_by_age, shift_by_sources, shift_by_trust, weigh_model_opinion
from sluice.trust.confidence.coverage import Analyse, CoverageMeter
from sluice.trust.confidence.formula import BY_MEANING, BY_WORDS, is_calibrated, probability
from sluice.trust.confidence.limits import describe_limits

PROBABLE = 0.5
"""The confidence from which a passage of another domain counts as one more source."""
DECIMALS = 4
ENGLISH = "en"
READ_CHARACTERS = 400
"""Of a passage, to see whether it is English."""


class Basis(Enum):
    """What a confidence rests on."""

    MEANING = auto()
    """The vectors of a calibrated model, and words."""
    WORDS = auto()
    """Words alone: the question has no vector, or one of a model whose cosines are of a scale that the formula does not
    know. Nothing is dropped, as the right passage may say it in other words."""
    NONE = auto()
    """The question is in a language that neither model nor formula knows: nothing is judged, nothing is dropped. So it
    is with single passages in another language, whatever the question's."""


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
    may_be_english: Callable[[str], bool]
    """Whether a text may be English, for passages whose document is of another language."""
    site_of: Callable[[str], str | None]
    """The registrable domain of a URL; None for one without."""

    @property
    def basis(self) -> Basis:
        """What its confidence rests on."""
        if not self.is_english:
            return Basis.NONE
        return Basis.MEANING if is_calibrated(self.model_fingerprint) else Basis.WORDS

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
    """The passages with their confidence: first each by itself, then with the independent sources beside it.

    A passage in another language has none.
    """
    meter = CoverageMeter(asked.words, asked.rarest, asked.analyse)
    freshness = {score.chunk_id: score.factors.time_freshness for score in found.metadata.trust_scores}
    odds_of = {
        chunk.chunk_id: _log_odds(chunk, meter.share(chunk), asked.chunk_count, basis)
        + shift_by_trust(chunk.trust)
        + shift_by_age(freshness.get(chunk.chunk_id, 1.0))
        for chunk in found.chunks
        if not _is_foreign(chunk, asked)
    }
    sites = [_site(chunk, asked) for chunk in found.chunks]
    probable = {
        site
        for chunk, site in zip(found.chunks, sites, strict=True)
        if site and chunk.chunk_id in odds_of and probability(odds_of[chunk.chunk_id]) >= PROBABLE
    }
    judged = []
    for chunk, site in zip(found.chunks, sites, strict=True):
        if chunk.chunk_id in odds_of:
            odds = odds_of[chunk.chunk_id] + shift_by_sources(len(probable - {site}) if site else 0)
            chance = round(probability(weigh_model_opinion(odds, model_says)), DECIMALS)
            judged.append(chunk.model_copy(update={"confidence": chance}))
        else:
            judged.append(chunk)
    return tuple(judged)


def _log_odds(chunk: RetrievedChunk, coverage: float, chunk_count: int, basis: Basis) -> float:
    """A passage without a vector is judged by its words."""
    if basis is Basis.WORDS or chunk.dense_distance is None:
        return BY_WORDS.log_odds(0.0, coverage, chunk_count)
    return BY_MEANING.log_odds(1.0 - chunk.dense_distance, coverage, chunk_count)


def _is_foreign(chunk: RetrievedChunk, asked: Asked) -> bool:
    """Whether a passage is in another natural language, by the document's recorded one and by its own beginning."""
    code = (chunk.language or ENGLISH).partition("-")[0].lower()
    is_natural = len(code) == len(ENGLISH)  # the names of programming languages are longer
    return is_natural and code != ENGLISH and not asked.may_be_english(chunk.text[:READ_CHARACTERS])


def _site(chunk: RetrievedChunk, asked: Asked) -> str | None:
    """The domain that a passage was fetched from; None for what was handed in, whose URL is only claimed."""
    fetched = chunk.url if chunk.provenance.source in ("crawl", "search") else None
    return asked.site_of(fetched) if fetched else None
