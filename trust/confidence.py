"""Estimates the probability that a passage answers a question, and describes the limits of weak answers.

    log-odds = bias + cosine · c + coverage · s - chunks · ln N

c is the cosine of question and passage, s the share of the question's words that the passage holds (by rarity), N the
number of chunks in the corpus: among more chunks, chance alone finds a nearer one. The probability rises with c and s
and falls with N. An answer is as confident as its best passage.

The formula is fitted by `python -m bench.confidence` on questions whose passage is present, was removed, or whose topic
was removed; docs/decisions/0019-confidence.md has the measurements, and the features that were tried and left out (gaps
to the following hits, standing against the candidates, BM25, agreement of the retrievers, number of words).

Features without a labelled collection (trust, age, independent sources) move the log-odds by bounded, monotone shifts,
which are chosen and not fitted: each moves an even chance by 12 points at most, and all are 0 where nothing is known.
`judge` applies all of this to a retrieval; `describe_limits` makes the sentence for an answer of low confidence.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from types import MappingProxyType
from typing import NamedTuple

from sluice.contracts.retrieval import Retrieval, RetrievedChunk

CALIBRATED_MODELS = ("all-MiniLM-L6-v2/",)
"""Fingerprint prefixes of the models whose cosines the formula is fitted to; other models have another scale."""


def is_calibrated(model_fingerprint: str | None) -> bool:
    """Return whether the formula is fitted to the cosines of a model; False without a model."""
    return model_fingerprint is not None and model_fingerprint.startswith(CALIBRATED_MODELS)


class Formula(NamedTuple):
    """The weights of one formula."""

    bias: float
    cosine: float
    coverage: float
    chunks: float

    def log_odds(self, cosine: float, coverage: float, chunk_count: int) -> float:
        """Return the log-odds that a passage with these figures answers, in a corpus of `chunk_count` chunks."""
        return self.bias + self.cosine * cosine + self.coverage * coverage - self.chunks * math.log(max(1, chunk_count))


BY_MEANING = Formula(bias=-3.87, cosine=6.98, coverage=2.86, chunks=0.24)
"""Weights for cosines of a calibrated model."""
BY_WORDS = Formula(bias=-1.74, cosine=0.0, coverage=4.27, chunks=0.13)
"""Weights for a question without a vector, or with vectors of another model: by words alone."""


def probability(log_odds: float) -> float:
    """Return the probability for log-odds, cut off at ±30."""
    return 1.0 / (1.0 + math.exp(-max(-30.0, min(30.0, log_odds))))


RARE_WORDS_ENOUGH = 4.0
"""Rarity that is enough for any question, counted in words that only one chunk has: no passage repeats every word of a
question of thirty words. The gate bounds its sentences in the same way (`gate.sentences`)."""

Analyse = Callable[[str, str | None], Collection[str]]
"""Returns the terms of a text in a language (None for unknown), as the index has them: lower case, stemmed."""


class CoverageMeter:
    """Measures the share of one question that passages hold.

    `words` are its content words with their inverse document frequency, `rarest` that of a word that one chunk has.
    """

    def __init__(self, words: Mapping[str, float], rarest: float, analyse: Analyse) -> None:
        self._words = words
        self._analyse = analyse
        self._enough = min(math.fsum(words.values()), RARE_WORDS_ENOUGH * rarest)
        self._terms_of: dict[str | None, dict[str, frozenset[str]]] = {}

    def share(self, passage: RetrievedChunk) -> float:
        """Return the share of the question that text and headings hold, in [0, 1]; 1 without question words."""
        if self._enough <= 0:
            return 1.0
        parts = (passage.title, *passage.section_path, passage.symbol_path, passage.text)
        text = "\n".join(part for part in parts if part)
        held = frozenset(self._analyse(text, passage.language))
        terms_of = self._in_language(passage.language)
        mass = sum([rarity for word, rarity in self._words.items() if terms_of[word] and terms_of[word] <= held])
        return min(1.0, mass / self._enough)

    def _in_language(self, language: str | None) -> Mapping[str, frozenset[str]]:
        """Return the terms of each word in the analysis of a language."""
        if language not in self._terms_of:
            self._terms_of[language] = {word: frozenset(self._analyse(word, language)) for word in self._words}
        return self._terms_of[language]


UNTRUSTED = 0.4
"""Trust below which a source counts against its passage: that of a submission of today without any evidence for it."""
TRUST_SHIFT = 0.5
AGE_SHIFT = 0.2
OLDEST_FRESHNESS = 0.7
"""Freshness of a text that is a year old or older (`TrustFactors.time_freshness`)."""
SOURCE_SHIFT = 0.25
"""Shift for each further registrable domain with a passage that probably answers as well."""
MOST_SOURCES = 2


def shift_by_trust(trust: float) -> float:
    """Return 0 for a source trusted at least `UNTRUSTED`, falling to -`TRUST_SHIFT` for one not trusted at all."""
    return -TRUST_SHIFT * max(0.0, UNTRUSTED - trust) / UNTRUSTED


def shift_by_age(freshness: float) -> float:
    """Return 0 for a text of today, falling to -`AGE_SHIFT` for one that is a year old or older."""
    return -AGE_SHIFT * min(1.0, max(0.0, (1.0 - freshness) / (1.0 - OLDEST_FRESHNESS)))


def shift_by_sources(others: int) -> float:
    """Return a shift that rises with the other independent sources that probably answer, up to `MOST_SOURCES`."""
    return SOURCE_SHIFT * min(MOST_SOURCES, others)


LIMITED_BELOW = 0.7
"""Confidence below which an answer states its limits (ADR Retrieval-Augmented Generation, section 3)."""
EVEN, UNLIKELY = 0.4, 0.2
"""Below `EVEN` the answer is probably not in the corpus, below `UNLIKELY` not even its topic."""


def describe_limits(confidence: float | None, *, is_by_words: bool) -> str | None:
    """Return a sentence on the limits of an answer with this confidence; None where none is needed.

    Confidence is None if question or passages are not in English. With `is_by_words` it rests on words alone.
    """
    if confidence is None:
        return "Confidence not known: question or passages seem not to be in English, for which alone it is calibrated."
    if confidence >= LIMITED_BELOW:
        return None
    ground = " by the question's words alone" if is_by_words else ""
    return f"Confidence {math.floor(100 * confidence)} %{ground}: {_reason(confidence)}."


def _reason(confidence: float) -> str:
    if confidence >= EVEN:
        return "the corpus holds the topic, and perhaps not the answer"
    if confidence >= UNLIKELY:
        return "the corpus holds something related, and probably not the answer"
    return "the corpus holds nothing that is likely to answer"


PROBABLE = 0.5
"""Confidence from which a passage of another domain counts as one more source."""
DECIMALS = 4
ENGLISH = "en"
READ_CHARACTERS = 400
"""Number of a passage's first characters that are checked for being English."""


class Basis(Enum):
    """Kinds of evidence that a confidence rests on."""

    MEANING = auto()
    """The vectors of a calibrated model, and words."""
    WORDS = auto()
    """Words alone: the question has no vector, or one of a model whose cosines the formula is not fitted to. Nothing is
    dropped, as the right passage may use other words."""
    NONE = auto()
    """The question is in a language that neither model nor formula supports: nothing is judged or dropped. The same
    holds for single passages in another language, for any question."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A question as one corpus sees it."""

    words: Mapping[str, float]
    """Content words of the question, with their inverse document frequency in the corpus."""
    rarest: float
    """Inverse document frequency of a word that only one chunk has."""
    chunk_count: int
    """Number of chunks that were searched."""
    analyse: Analyse
    model_fingerprint: str | None
    """Embedding model of the corpus's vectors; None where the question has no vector."""
    is_english: bool
    """Whether the question may be English, the language that the calibrated model knows."""
    may_be_english: Callable[[str], bool]
    """Returns whether a text may be English, for passages whose document is of another language."""
    site_of: Callable[[str], str | None]
    """Returns the registrable domain of a URL; None for a URL without one."""

    @property
    def basis(self) -> Basis:
        """Evidence that the confidence rests on."""
        if not self.is_english:
            return Basis.NONE
        return Basis.MEANING if is_calibrated(self.model_fingerprint) else Basis.WORDS

    @property
    def may_drop(self) -> bool:
        """Whether the formula fits the question well enough for passages of low confidence to be left out."""
        return self.basis is Basis.MEANING


def judge(found: Retrieval, asked: Asked, sources: Mapping[str, str] = MappingProxyType({})) -> Retrieval:
    """Return the retrieval with a confidence for each passage and for the whole, and the sentence on its limits.

    `sources` has the ids of passages that repeat another one, with its id: they are no surer than that one.
    """
    if not found.chunks:
        return found
    basis = asked.basis
    chunks = found.chunks if basis is Basis.NONE else _judge_passages(found, asked, basis)
    known = {chunk.chunk_id: chunk.confidence for chunk in chunks if chunk.confidence is not None}
    surer = {one for one, source in sources.items() if known.get(one, 0.0) > known.get(source, 1.0)}
    chunks = tuple(
        chunk.model_copy(update={"confidence": known[sources[chunk.chunk_id]]}) if chunk.chunk_id in surer else chunk
        for chunk in chunks
    )
    unmarked = [chunk for chunk in chunks if not chunk.is_flood] or chunks
    best = max((chunk.confidence for chunk in unmarked if chunk.confidence is not None), default=None)
    limits = describe_limits(best, is_by_words=basis is not Basis.MEANING)
    metadata = found.metadata.model_copy(update={"confidence": best, "limits": limits})
    return found.model_copy(update={"chunks": chunks, "metadata": metadata})


def _judge_passages(found: Retrieval, asked: Asked, basis: Basis) -> tuple[RetrievedChunk, ...]:
    """Return the passages with their confidence, raised by other independent sources; None in another language.

    A passage that was made for the question raises no other's, and itself has that of one that hardly answers.
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
        if site
        and not chunk.is_flood
        and chunk.chunk_id in odds_of
        and probability(odds_of[chunk.chunk_id]) >= PROBABLE
    }
    judged = []
    for chunk, site in zip(found.chunks, sites, strict=True):
        if chunk.chunk_id in odds_of:
            odds = odds_of[chunk.chunk_id] + shift_by_sources(len(probable - {site}) if site else 0)
            chance = min(round(probability(odds), DECIMALS), UNLIKELY if chunk.is_flood else 1.0)
            judged.append(chunk.model_copy(update={"confidence": chance}))
        else:
            judged.append(chunk)
    return tuple(judged)


def _log_odds(chunk: RetrievedChunk, coverage: float, chunk_count: int, basis: Basis) -> float:
    """Return the log-odds that a passage answers. One without a vector is judged by its words."""
    if basis is Basis.WORDS or chunk.dense_distance is None:
        return BY_WORDS.log_odds(0.0, coverage, chunk_count)
    return BY_MEANING.log_odds(1.0 - chunk.dense_distance, coverage, chunk_count)


def _is_foreign(chunk: RetrievedChunk, asked: Asked) -> bool:
    """Return whether a passage is in another natural language, by its recorded language and its beginning."""
    code = (chunk.language or ENGLISH).partition("-")[0].lower()
    is_natural = len(code) == len(ENGLISH)  # the names of programming languages are longer
    return is_natural and code != ENGLISH and not asked.may_be_english(chunk.text[:READ_CHARACTERS])


def _site(chunk: RetrievedChunk, asked: Asked) -> str | None:
    """Return the domain that a passage was fetched from; None for a submission, whose URL is only a claim."""
    fetched = chunk.url if chunk.provenance.source in ("crawl", "search") else None
    return asked.site_of(fetched) if fetched else None
