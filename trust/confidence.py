"""Estimates the probability that a passage answers a question, and describes the limits of weak answers.

    log-odds = bias + closeness · c + coverage · s - chunks · ln N

c is the closeness of question and passage, s the share of the question's words that the passage holds (by rarity), N
the number of chunks in the corpus: among more chunks, chance alone finds a nearer one. The probability rises with c and
s and falls with N. An answer is as confident as its best passage. For this one there are two such log-odds, against an
answer that is missing while its topic is there and against a topic that is missing: how often each happens is a matter
of the corpus and of who asks, so the first is shifted by the corpus's own outcomes (`fit_prior`).

Closeness has two grades. Every passage has the cosine of its vector. The best one is then read closely: each token of
the question is compared with those of the passage's best sentences (`ingest.embed.minilm.MiniLM.match_tokens`), which
tells an answer from a passage on the same topic, and its closeness is the mean of both. No other passage is surer.

The formulas are fitted by `python -m bench.confidence` on questions whose passage is present, was removed, or whose
topic was removed; docs/decisions/0019-confidence.md has the measurements, and the features that were left out.

Features without a labelled collection (trust, age, independent sources) move the log-odds by bounded, monotone shifts,
which are chosen and not fitted: each moves an even chance by 12 points at most, and all are 0 where nothing is known.
`judge` applies all of this to a retrieval; `describe_limits` makes the sentence for an answer of low confidence.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from sluice.contracts.retrieval import Retrieval, RetrievedChunk
from sluice.contracts.trust import TrustFactors
from sluice.text.words import cut_sentences, sigmoid

CALIBRATED_MODELS = ("all-MiniLM-L6-v2/",)
"""Fingerprint prefixes of the models whose cosines the formula is fitted to; other models have another scale."""


def is_calibrated(model_fingerprint: str | None) -> bool:
    """Return whether the formula is fitted to the cosines of a model; False without a model."""
    return model_fingerprint is not None and model_fingerprint.startswith(CALIBRATED_MODELS)


class Formula(NamedTuple):
    """The weights of one formula."""

    bias: float
    closeness: float
    coverage: float
    chunks: float

    def log_odds(self, closeness: float, coverage: float, chunk_count: int) -> float:
        """Return the log-odds that a passage with these figures answers, in a corpus of `chunk_count` chunks."""
        size = math.log(max(1, chunk_count))
        return self.bias + self.closeness * closeness + self.coverage * coverage - self.chunks * size


class ReadFormula(NamedTuple):
    """The weights for a passage that was read closely; its closeness is the mean cosine of vectors and of tokens."""

    answer_missing: Formula
    """Against a passage on the topic that does not answer."""
    topic_missing: Formula
    """Against a passage of a corpus that lacks the topic."""

    def log_odds(self, closeness: float, coverage: float, chunk_count: int, prior: float = 0.0) -> float:
        """Return the log-odds that a passage answers; `prior` is that of its corpus."""
        near, far = (one.log_odds(closeness, coverage, chunk_count) for one in self)
        return -math.log(math.exp(-near - prior) + math.exp(-far))


BY_TOKENS = ReadFormula(
    Formula(bias=-2.81, closeness=5.94, coverage=1.93, chunks=0.18),
    Formula(bias=-6.5, closeness=16.75, coverage=2.86, chunks=0.35),
)
BY_MEANING = Formula(bias=-3.87, closeness=6.98, coverage=2.86, chunks=0.24)
"""Weights for cosines of a calibrated model."""
BY_WORDS = Formula(bias=-1.74, closeness=0.0, coverage=4.27, chunks=0.13)
"""Weights for words alone: of a question without a vector, or with one of another model, or in another language."""
NUMBER_SHIFT = 1.0
"""Shift of the log-odds where the question names a number that the passage does not hold: of 75 such passages of SQuAD
2 answered, and of 76 of SciFact 10, where the other figures expect a quarter."""
WORTH_READING = 0.05
"""Probability by its vector below which the best passage is not read closely, which takes some 14 ms of one core."""


def probability(log_odds: float) -> float:
    """Return the probability for log-odds, cut off at ±30."""
    return sigmoid(max(-30.0, min(30.0, log_odds)))


LEAST_OUTCOMES = 20
"""With fewer, a corpus's outcomes say nothing."""
LEAST_PRIOR, MOST_PRIOR = -1.0, 2.0
"""Bounds of a prior: where all questions have answers it is some 2, and where every other one misses it -0.7."""
PRIOR_VARIANCE = 1.0
MOST_LEFT_OUT = 10
_STEPS = 8


class JudgedAnswer(NamedTuple):
    """An answer from the corpus alone: the confidence by its evidence, how good it was in [0, 1], and who says so."""

    evidence: float
    satisfaction: float
    judge: str


def fit_prior(answers: Sequence[JudgedAnswer], *, has_several: bool) -> float:
    """Return the shift of the log-odds that an answer is there, for a corpus with these outcomes.

    It is the most probable one under a normal prior around 0. With `has_several` judges it is the nearest to 0 of those
    without any one of them, and 0 if they differ in sign: nobody alone shifts what others read.
    """
    judges = [judge for judge, _ in Counter(one.judge for one in answers).most_common(MOST_LEFT_OUT)]
    parts = [[one for one in answers if one.judge != judge] for judge in judges] if has_several else [answers]
    shifts = [_most_probable(part) for part in parts]
    agree = all(shift > 0 for shift in shifts) or all(shift < 0 for shift in shifts)
    return min(shifts, key=abs, default=0.0) if agree else 0.0


def _most_probable(answers: Sequence[JudgedAnswer]) -> float:
    """Find the zero of the log-likelihood's derivative by Newton's method; 0 with too few answers."""
    if len(answers) < LEAST_OUTCOMES:
        return 0.0
    shift = 0.0
    for _ in range(_STEPS):
        said = [probability(log_odds_for(one.evidence) + shift) for one in answers]
        slope = math.fsum(one.satisfaction - chance for one, chance in zip(answers, said, strict=True))
        curvature = math.fsum(chance * (1.0 - chance) for chance in said)
        shift += (slope - shift / PRIOR_VARIANCE) / (curvature + 1.0 / PRIOR_VARIANCE)
        shift = max(LEAST_PRIOR, min(MOST_PRIOR, shift))
    return shift


def log_odds_for(chance: float) -> float:
    """Return the log-odds of a probability, which may be rounded to 0 or 1."""
    bounded = max(0.0001, min(0.9999, chance))
    return math.log(bounded / (1.0 - bounded))


RARE_WORDS_ENOUGH = 4.0
"""Rarity that is enough for any question, counted in words that only one chunk has: no passage repeats every word of a
question of thirty words. The gate bounds its sentences in the same way (`gate.probe`)."""
WINDOW_CHARACTERS = 200
"""Length of the sentences of a passage that are read closely: some two."""

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
        return min(1.0, self._mass(_whole(passage), passage.language) / self._enough)

    def misses_number(self, passage: RetrievedChunk) -> bool:
        """Return whether the question names a number, a year or a model's number that the passage does not hold."""
        numbers = [word for word in self._words if any(letter.isdigit() for letter in word)]
        held = frozenset(self._analyse(_whole(passage), passage.language)) if numbers else frozenset()
        return any(not self._in_language(passage.language)[word] <= held for word in numbers)

    def window(self, passage: RetrievedChunk) -> str:
        """Return the part of a passage in which an answer stands most likely, after its headings.

        That is the sentence with most of the question's words, counted with the sentence before it, and the sentences
        around it up to `WINDOW_CHARACTERS`. A sentence that asks cannot answer.
        """
        sentences = [one[:WINDOW_CHARACTERS] for one in cut_sentences(passage.text)] or [""]

        def rate(place: int) -> tuple[bool, float, float]:
            alone = sentences[place]
            pair = "\n".join(sentences[max(0, place - 1) : place + 1])
            masses = self._mass(pair, passage.language), self._mass(alone, passage.language)
            return not alone.endswith(("?", "？")), *masses

        start = max(range(len(sentences)), key=rate)
        end, room = start + 1, WINDOW_CHARACTERS - len(sentences[start])
        while room > 0 and (start > 0 or end < len(sentences)):
            if start > 0:
                start -= 1
                room -= len(sentences[start])
            if room > 0 and end < len(sentences):
                room -= len(sentences[end])
                end += 1
        headings = (part for part in (passage.title, *passage.section_path) if part)
        return ". ".join([*headings, " ".join(sentences[start:end])])

    def _mass(self, text: str, language: str | None) -> float:
        """Return the sum of the rarities of the question's words that a text holds."""
        held, terms_of = frozenset(self._analyse(text, language)), self._in_language(language)
        return math.fsum(rarity for word, rarity in self._words.items() if terms_of[word] and terms_of[word] <= held)

    def _in_language(self, language: str | None) -> Mapping[str, frozenset[str]]:
        """Return the terms of each word in the analysis of a language."""
        if language not in self._terms_of:
            self._terms_of[language] = {word: frozenset(self._analyse(word, language)) for word in self._words}
        return self._terms_of[language]


def _whole(passage: RetrievedChunk) -> str:
    """Return the headings and the text of a passage."""
    parts = (passage.title, *passage.section_path, passage.symbol_path, passage.text)
    return "\n".join(part for part in parts if part)


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


NO_FACTORS = TrustFactors()
FEEDBACK_SHIFT = 3.0
"""Fall of the log-odds for a passage whose trust feedback would take away whole; it takes two fifths at most."""


def shift_by_factors(factors: TrustFactors) -> float:
    """Return the fall by a text's age, and by what callers say against it."""
    kept = 1.0 if factors.feedback is None else factors.feedback
    return shift_by_age(factors.time_freshness) - FEEDBACK_SHIFT * (1.0 - kept)


def shift_by_sources(others: int) -> float:
    """Return a shift that rises with the other independent sources that probably answer, up to `MOST_SOURCES`."""
    return SOURCE_SHIFT * min(MOST_SOURCES, others)


OF_ANOTHER = 0.25
"""The most that a passage about another thing of the question's kind has (`trust.others`): shown, and said to answer
hardly. Of the best passages of six public sets 78 of 4,216 are so, and 9 of these answer."""
LIMITED_BELOW = 0.7
"""Confidence below which an answer states its limits (ADR Retrieval-Augmented Generation, section 3)."""
EVEN, UNLIKELY = 0.4, 0.2
"""Below `EVEN` the answer is probably not in the corpus, below `UNLIKELY` not even its topic."""


def describe_limits(confidence: float, ground: str = "") -> str | None:
    """Return a sentence on the limits of an answer with this confidence; None where none is needed.

    `ground` is told if the confidence does not rest on everything, such as " by the question's words alone".
    """
    if confidence >= LIMITED_BELOW:
        return None
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


BY_WORDS_ALONE = " by the question's words alone"
NOT_ENGLISH = f"{BY_WORDS_ALONE}, as question or passages seem not to be in English, the language of the model"


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
    match_tokens: Callable[[str], float | None] = lambda passage: None
    """Returns how well a text matches the question, token by token; None where the model does not tell."""
    is_about_another: Callable[[str], bool] = lambda passage: False
    """Returns whether a text is about another thing than the one that the question names."""
    prior: float = 0.0
    """Shift by the corpus's own outcomes (`fit_prior`)."""
    fitted: Formula | None = None
    """Weights that were fitted to the cosines of another model; it knows whatever languages it was fitted in."""

    @property
    def may_drop(self) -> bool:
        """Whether passages of low confidence may be left out: not where other vectors found what the words do not
        show."""
        return self.fitted is not None or is_calibrated(self.model_fingerprint)

    def is_known_language(self, passage: RetrievedChunk) -> bool:
        """Return whether question and passage are in the language of the model, by the passage's recorded language and
        its beginning."""
        if self.fitted is not None:
            return True
        code = (passage.language or ENGLISH).partition("-")[0].lower()
        is_natural = len(code) == len(ENGLISH)  # the names of programming languages are longer
        is_foreign = is_natural and code != ENGLISH and not self.may_be_english(passage.text[:READ_CHARACTERS])
        return self.is_english and not is_foreign


def judge(found: Retrieval, asked: Asked, sources: Mapping[str, str] = MappingProxyType({})) -> Retrieval:
    """Return the retrieval with a confidence for each passage and for the whole, and the sentence on its limits.

    `sources` has the ids of passages that repeat another one, with its id: they are no surer than that one.
    """
    if not found.chunks:
        return found
    known = [asked.is_known_language(chunk) for chunk in found.chunks]
    odds, raised = _log_odds(found.chunks, asked, known)
    if found.metadata.graph and found.metadata.graph.is_asked_for:
        odds, raised = [_by_graph(chunk, own) for chunk, own in zip(found.chunks, odds, strict=True)], 0.0
    judged = _judge_passages(found, asked, odds)
    sure = {chunk.chunk_id: chunk.confidence or 0.0 for chunk in judged}
    surer = {one for one, source in sources.items() if sure.get(one, 0.0) > sure.get(source, 1.0)}
    chunks = tuple(
        chunk.model_copy(update={"confidence": sure[sources[chunk.chunk_id]]}) if chunk.chunk_id in surer else chunk
        for chunk in judged
    )
    unmarked = [chunk for chunk in chunks if not chunk.is_flood] or chunks
    best = max(unmarked, key=lambda chunk: chunk.confidence or 0.0)
    ground = "" if asked.may_drop else BY_WORDS_ALONE
    if not known[chunks.index(best)]:
        ground = NOT_ENGLISH
    limits = describe_limits(best.confidence or 0.0, ground)
    changes = {"confidence": best.confidence, "limits": limits}
    if raised and best.confidence is not None:
        changes["evidence"] = round(probability(log_odds_for(best.confidence) - raised), DECIMALS)
    metadata = found.metadata.model_copy(update=changes)
    return found.model_copy(update={"chunks": chunks, "metadata": metadata})


def _judge_passages(found: Retrieval, asked: Asked, log_odds: Sequence[float]) -> list[RetrievedChunk]:
    """Return the passages with their confidence by these log-odds, raised by other independent sources.

    A passage that was made for the question raises no other's, and itself has that of one that hardly answers.
    """
    factors = {score.chunk_id: score.factors for score in found.metadata.trust_scores}
    odds_of = [
        odds + shift_by_trust(chunk.trust) + shift_by_factors(factors.get(chunk.chunk_id, NO_FACTORS))
        for chunk, odds in zip(found.chunks, log_odds, strict=True)
    ]
    sites = [_site(chunk, asked) for chunk in found.chunks]
    probable = {
        site
        for chunk, site, odds in zip(found.chunks, sites, odds_of, strict=True)
        if site and not chunk.is_flood and probability(odds) >= PROBABLE
    }
    judged = []
    for chunk, site, odds in zip(found.chunks, sites, odds_of, strict=True):
        raised = odds + shift_by_sources(len(probable - {site}) if site else 0)
        chance = min(round(probability(raised), DECIMALS), UNLIKELY if chunk.is_flood else 1.0)
        judged.append(chunk.model_copy(update={"confidence": chance}))
    return judged


def _log_odds(chunks: Sequence[RetrievedChunk], asked: Asked, known: Sequence[bool]) -> tuple[list[float], float]:
    """Return the log-odds that each passage answers: by words without a vector or in an unknown language, by meaning
    otherwise; of the best one, by its tokens. And by how much the corpus's prior has raised those of the best one."""
    meter, count = CoverageMeter(asked.words, asked.rarest, asked.analyse), asked.chunk_count
    shares = [meter.share(chunk) for chunk in chunks]
    shifts = [-NUMBER_SHIFT * meter.misses_number(chunk) for chunk in chunks]
    by_model, by_meaning = [is_known and asked.may_drop for is_known in known], asked.fitted or BY_MEANING
    odds = [
        by_meaning.log_odds(1.0 - chunk.dense_distance, share, count) + shift
        if is_by_model and chunk.dense_distance is not None
        else BY_WORDS.log_odds(0.0, share, count) + shift
        for chunk, share, shift, is_by_model in zip(chunks, shares, shifts, by_model, strict=True)
    ]
    of_another = [asked.is_about_another(_whole(chunk)) for chunk in chunks]
    most = log_odds_for(OF_ANOTHER)
    odds = [min(own, most) if is_other else own for own, is_other in zip(odds, of_another, strict=True)]
    may_be_best = [
        is_by_model and not is_other and not chunk.is_flood
        for is_by_model, is_other, chunk in zip(by_model, of_another, chunks, strict=True)
    ]
    best = max((place for place, may in enumerate(may_be_best) if may), key=lambda place: odds[place], default=None)
    if best is None or probability(odds[best]) < WORTH_READING:
        return odds, 0.0
    match = asked.match_tokens(meter.window(chunks[best]))
    if match is None:
        return odds, 0.0
    distance = chunks[best].dense_distance
    closeness = match if distance is None else (match + 1.0 - distance) / 2
    plain = BY_TOKENS.log_odds(closeness, shares[best], count)
    shifted = BY_TOKENS.log_odds(closeness, shares[best], count, asked.prior)
    most = shifted + shifts[best]
    odds = [min(own, most) if is_by_model else own for own, is_by_model in zip(odds, by_model, strict=True)]
    return [*odds[:best], most, *odds[best + 1 :]], shifted - plain


def _by_graph(chunk: RetrievedChunk, log_odds: float) -> float:
    """Return the log-odds of a passage where the question asks for what is related to a thing that it names: those of
    the graph (`graph.arm.likelihood`); a passage that the graph does not reach hardly answers."""
    if chunk.graph_score is None:
        return min(log_odds_for(UNLIKELY), log_odds)
    return log_odds_for(chunk.graph_score)


def _site(chunk: RetrievedChunk, asked: Asked) -> str | None:
    """Return the domain that a passage was fetched from; None for a submission, whose URL is only a claim."""
    fetched = chunk.url if chunk.provenance.source in ("crawl", "search") else None
    return asked.site_of(fetched) if fetched else None
